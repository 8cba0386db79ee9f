// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// ownCluster creates a Cluster of which the workload cluster is the plane itself: a
// real API server, which a simulated one is not.
func ownCluster(f fleet, name string) {
	f.Helper()
	infra := &infrav1.LocalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	infra.Spec.Simulated = &infrav1.LocalClusterSimulated{}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name, Labels: map[string]string{"addons": "yes"}}}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalCluster", Name: name}
	data, err := os.ReadFile(f.Kubeconfig)
	if err != nil {
		f.Fatal(err)
	}
	f.make(infra, cluster, kubeconfig.Secret(types.NamespacedName{Namespace: f.Namespace, Name: name}, data, nil))
}

func (f fleet) make(objects ...client.Object) {
	f.Helper()
	for _, obj := range objects {
		if err := f.Client.Create(f.Context(), obj); err != nil {
			f.Fatal(err)
		}
	}
}

// addons is a ClusterResourceSet that applies the content of a ConfigMap of its
// name.
func addons(f fleet, name string) *addonsv1.ClusterResourceSet {
	set := &addonsv1.ClusterResourceSet{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	set.Spec.ClusterSelector.MatchLabels = map[string]string{"addons": "yes"}
	set.Spec.Resources = []addonsv1.ResourceRef{{Kind: addonsv1.ConfigMapClusterResourceSetResourceKind, Name: name}}
	set.Spec.Strategy = addonsv1.ClusterResourceSetStrategyReconcile
	return set
}

func (f fleet) payload(name string, documents ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}, Data: map[string]string{}}
	for i, doc := range documents {
		c.Data[fmt.Sprint(i)] = doc
	}
	return c
}

// TestAnObjectComesSoonAfterItsKind: the definition is in another add-on, which is
// created later.
func TestAnObjectComesSoonAfterItsKind(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	group := f.Namespace + ".example.com"
	widget := fmt.Sprintf("{apiVersion: %s/v1, kind: Widget, metadata: {name: w, namespace: %s}}", group, f.Namespace)
	ownCluster(f, "own")
	f.make(f.payload("widget", widget), addons(f, "widget"))
	waiting := "Cluster own: ConfigMap widget is not applied: Widget " + f.Namespace + "/w: the API server does not serve this kind of " + group + "/v1 yet"
	f.eventually(func() error {
		return f.says(&addonsv1.ClusterResourceSet{}, addonsv1.ClusterResourceSetResourcesAppliedCondition, "False", waiting, "widget")
	})
	kind := testenv.Kind(group, "Widget")
	kind.TypeMeta = metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}
	definition, err := yaml.Marshal(kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Client.Delete(context.WithoutCancel(t.Context()), kind); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete the definition: %v", err)
		}
	})
	f.make(f.payload("definition", string(definition)), addons(f, "definition"))
	for _, name := range []string{"definition", "widget"} {
		f.eventually(func() error {
			return f.says(&addonsv1.ClusterResourceSet{}, addonsv1.ClusterResourceSetResourcesAppliedCondition, "True", "", name)
		})
	}
	w := &unstructured.Unstructured{}
	w.SetAPIVersion(group + "/v1")
	w.SetKind("Widget")
	if err := f.Client.Get(t.Context(), f.key("w"), w); err != nil {
		t.Error(err)
	}
}

// TestAnAddonFollowsWhatItLiesIn: it is created after it was named, and changed.
func TestAnAddonFollowsWhatItLiesIn(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	object := func(color string) string {
		return fmt.Sprintf("{apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: %s}, data: {color: %s}}", f.Namespace, color)
	}
	color := func(want string) {
		t.Helper()
		f.eventually(func() error {
			made := &corev1.ConfigMap{}
			if err := f.Client.Get(t.Context(), f.key("made"), made); err != nil {
				return err
			}
			if made.Data["color"] != want {
				return fmt.Errorf("it is %s, want %s", made.Data["color"], want)
			}
			return nil
		})
	}
	ownCluster(f, "own")
	set := addons(f, "paint")
	f.make(set)
	f.eventually(func() error {
		return f.says(&addonsv1.ClusterResourceSet{}, addonsv1.ClusterResourceSetResourcesAppliedCondition, "False", "ConfigMap paint does not exist in namespace "+f.Namespace, "paint")
	})
	f.make(f.payload("paint", object("blue")))
	color("blue")
	modify(f, "paint", &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Data["0"] = object("red") })
	color("red")
	f.eventually(func() error {
		return f.says(&addonsv1.ClusterResourceSet{}, addonsv1.ClusterResourceSetResourcesAppliedCondition, "True", "", "paint")
	})
	if err := f.Client.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	f.eventually(func() error {
		for name, obj := range map[string]client.Object{"paint": &addonsv1.ClusterResourceSet{}, "own": &addonsv1.ClusterResourceSetBinding{}} {
			if err := f.Client.Get(t.Context(), f.key(name), obj); client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("%T %s is there still: %v", obj, name, err)
			}
		}
		return nil
	})
	color("red") // what was applied stays
}
