// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

const network = `
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: cni, namespace: network}
spec:
  selector: {matchLabels: {app: cni}}
  template:
    metadata: {labels: {app: cni}}
    spec: {containers: [{name: cni, image: "example.com/cni:v1"}]}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: cni, namespace: network}
---
apiVersion: v1
kind: Namespace
metadata: {name: network}
`

// add creates an object as a user does.
func add(t *testing.T, w *story, obj client.Object) {
	t.Helper()
	obj.SetNamespace("default")
	w.must(w.Mgmt.Create(t.Context(), obj))
}

// resourceSet is one that selects by the label addons=yes.
func resourceSet(name string, strategy addonsv1.ClusterResourceSetStrategy, refs ...addonsv1.ResourceRef) *addonsv1.ClusterResourceSet {
	set := &addonsv1.ClusterResourceSet{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set.Spec = addonsv1.ClusterResourceSetSpec{
		ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"addons": "yes"}}, Resources: refs, Strategy: strategy,
	}
	return set
}

func configMap(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"it.yaml": text}}
}

func resource(kind addonsv1.ClusterResourceSetResourceKind, name string) addonsv1.ResourceRef {
	return addonsv1.ResourceRef{Kind: kind, Name: name}
}

// label sets the label by which Clusters are selected.
func label(t *testing.T, w *story, cluster, value string) {
	t.Helper()
	change(t, w, cluster, &clusterv1.Cluster{}, "label "+cluster+" addons="+value, func(c *clusterv1.Cluster) {
		if c.Labels == nil {
			c.Labels = map[string]string{}
		}
		c.Labels["addons"] = value
	})
}

// recordAddons writes what is applied.
func recordAddons(w *story) {
	for _, obj := range w.objects("ClusterResourceSet") {
		set := obj.(*addonsv1.ClusterResourceSet)
		c := conditions.Get(set, addonsv1.ClusterResourceSetResourcesAppliedCondition)
		w.Record("ClusterResourceSet %s: %s %s %s", set.Name, c.Status, c.Reason, c.Message)
	}
	for _, obj := range w.objects("ClusterResourceSetBinding") {
		b := obj.(*addonsv1.ClusterResourceSetBinding)
		var entries []string
		for _, e := range b.Spec.Bindings {
			for _, r := range e.Resources {
				entries = append(entries, fmt.Sprintf("%s %s %s %t", e.ClusterResourceSetName, r.Kind, r.Name, *r.Applied))
			}
		}
		w.Record("ClusterResourceSetBinding %s: %s", b.Name, strings.Join(entries, ", "))
	}
}

// there writes whether an object is in a workload cluster.
func there(w *story, cluster string, obj client.Object) {
	w.t.Helper()
	c, err := w.clusters.Client(w.t.Context(), client.ObjectKey{Namespace: "default", Name: cluster})
	w.must(err)
	err = c.Get(w.t.Context(), client.ObjectKeyFromObject(obj), obj)
	w.must(client.IgnoreNotFound(err))
	w.Record("%s in %s: %T %s: %t", obj.GetName(), cluster, obj, obj.GetNamespace(), err == nil)
}

func TestAddonsReachTheClustersThatALabelSelects(t *testing.T) {
	t.Parallel()
	w := New(t)
	add(t, w, configMap("network", network))
	add(t, w, resourceSet("network", addonsv1.ClusterResourceSetStrategyApplyOnce, resource("ConfigMap", "network")))
	create(t, w, "demo", 1, 0)
	recordAddons(w)
	label(t, w, "demo", "yes")
	recordAddons(w)
	there(w, "demo", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "network", Name: "cni"}})
	label(t, w, "demo", "no")
	recordAddons(w)
	change(t, w, "network", &corev1.ConfigMap{}, "change what is applied once", func(c *corev1.ConfigMap) { c.Data["more"] = strings.ReplaceAll(network, "cni", "other") })
	label(t, w, "demo", "yes")
	recordAddons(w)
	w.Record("# delete the ClusterResourceSet")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "network", &addonsv1.ClusterResourceSet{})))
	w.Run()
	recordAddons(w)
	there(w, "demo", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "network", Name: "cni"}})
	w.Golden("add-ons-reach-the-clusters-that-a-label-selects.txt")
}

func TestAddonIsKeptAsDesired(t *testing.T) {
	t.Parallel()
	w := New(t)
	one := "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, data: {color: blue}}"
	add(t, w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "keys"}, Type: addonsv1.ClusterResourceSetSecretType, Data: map[string][]byte{"it": []byte(one)}})
	add(t, w, resourceSet("keys", addonsv1.ClusterResourceSetStrategyReconcile, resource("Secret", "keys")))
	create(t, w, "demo", 1, 0)
	label(t, w, "demo", "yes")
	recordAddons(w)
	change(t, w, "keys", &corev1.Secret{}, "make it red, and add another", func(s *corev1.Secret) {
		s.Data["it"] = []byte(strings.ReplaceAll(one, "blue", "red") + "\n---\n" + strings.ReplaceAll(one, "one", "two"))
	})
	got := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one"}}
	there(w, "demo", got)
	w.Record("it is %s", got.Data["color"])
	recordAddons(w)
	change(t, w, "keys", &corev1.Secret{}, "take the other out: it stays", func(s *corev1.Secret) { s.Data["it"] = []byte(one) })
	there(w, "demo", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "two"}})
	recordAddons(w)
	w.Golden("an-add-on-is-kept-as-desired.txt")
}

func TestWhatIsWrongWithAddonsIsNamed(t *testing.T) {
	t.Parallel()
	w := New(t)
	add(t, w, configMap("typo", "kind: [\n"))
	add(t, w, configMap("text", "just text"))
	add(t, w, configMap("nameless", "{apiVersion: v1, kind: ConfigMap}"))
	add(t, w, configMap("widgets", network+"---\n{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}"))
	add(t, w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Data: map[string][]byte{"password": []byte("hunter2")}})
	add(t, w, resourceSet("broken", addonsv1.ClusterResourceSetStrategyApplyOnce,
		resource("ConfigMap", "typo"), resource("ConfigMap", "text"), resource("ConfigMap", "nameless"), resource("ConfigMap", "missing"), resource("ConfigMap", "widgets")))
	add(t, w, resourceSet("stolen", addonsv1.ClusterResourceSetStrategyApplyOnce, resource("Secret", "ours")))
	create(t, w, "demo", 1, 0)
	label(t, w, "demo", "yes")
	recordAddons(w)
	there(w, "demo", &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "network", Name: "cni"}})
	before := w.store.writes
	w.RunFor(10 * time.Minute)
	w.Record("%d writes meanwhile", w.store.writes-before)
	change(t, w, "widgets", &corev1.ConfigMap{}, "correct it", func(c *corev1.ConfigMap) { c.Data["it.yaml"] = network })
	recordAddons(w)
	w.Record("# delete the cluster")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})))
	w.Run()
	recordAddons(w)
	w.Golden("what-is-wrong-with-add-ons-is-named.txt")
}
