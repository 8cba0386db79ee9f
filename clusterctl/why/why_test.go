// SPDX-License-Identifier: Apache-2.0

package why

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/causes"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

// provider are the CRD of LocalCluster and the Deployment of a provider, with a Pod.
func provider(name string, available corev1.ConditionStatus, waiting *corev1.ContainerStateWaiting) []client.Object {
	labels := map[string]string{clusterv1.ProviderNameLabel: name}
	crd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
	crd.SetName("localclusters." + infrav1.GroupVersion().Group)
	crd.SetLabels(map[string]string{clusterv1.ProviderNameLabel: name, "cluster.x-k8s.io/v1beta2": "v1beta2"})
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "x-system", Name: "x", UID: "d", Labels: labels}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}}
	deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: available, Reason: "R"}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "x-system", Name: "x-1", UID: "pod", Labels: map[string]string{"app": "x"}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}, {Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "manager", Image: "example.com/x:v1", State: corev1.ContainerState{Waiting: waiting}}}
	other := pod.DeepCopy()
	other.Name, other.UID, other.Labels = "y-1", "other", nil
	return []client.Object{crd, deployment, pod, other}
}

// unlabeled are the objects of a provider whose CRD names no contract.
func unlabeled(objects []client.Object) []client.Object {
	objects[0].SetLabels(map[string]string{clusterv1.ProviderNameLabel: objects[0].GetLabels()[clusterv1.ProviderNameLabel]})
	return objects
}

// stopped are the objects of a provider whose Deployment is scaled to zero, which the
// Deployment reports as available.
func stopped(objects []client.Object) []client.Object {
	objects[1].(*appsv1.Deployment).Spec.Replicas = new(int32(0))
	return objects[:2]
}

// applying are a ClusterResourceSet with two resources and the binding of the cluster.
func applying(applied bool) []client.Object {
	set := &addonsv1.ClusterResourceSet{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "cni", UID: "set"}}
	set.Spec.Resources = []addonsv1.ResourceRef{{Name: "a", Kind: "ConfigMap"}, {Name: "b", Kind: "Secret"}}
	set.Status.Conditions = []metav1.Condition{{Type: addonsv1.ClusterResourceSetResourcesAppliedCondition, Status: metav1.ConditionFalse, Reason: "NotApplied", Message: "Secret b does not exist in namespace fleet"}}
	binding := &addonsv1.ClusterResourceSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "demo", UID: "binding"}}
	binding.Spec.ClusterName = "demo"
	binding.Spec.Bindings = []addonsv1.ResourceSetBinding{{ClusterResourceSetName: "cni", Resources: []addonsv1.ResourceBinding{
		{ResourceRef: set.Spec.Resources[0], Applied: new(true)}, {ResourceRef: set.Spec.Resources[1], Applied: new(applied)},
	}}}
	return []client.Object{set, binding}
}

func journal(text string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "capstan-move"}, Data: map[string]string{"journal": text}}
}

func TestExplainReadsBeyondConditions(t *testing.T) {
	t.Parallel()
	waits := func(c *clusterv1.Cluster) {
		c.Status.Conditions = []metav1.Condition{{Type: clusterv1.InfrastructureReadyCondition, Status: metav1.ConditionFalse, Reason: "NotReady", Message: "Waiting for LocalCluster demo to be provisioned"}}
	}
	paused := func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }
	const record = "operation: a\nfrom: here\nto: there\nnamespace: fleet\nphase: copying\nstarted: 2026-11-28T07:00:00Z\n"
	for name, tc := range map[string]struct {
		change func(*clusterv1.Cluster)
		more   []client.Object
		want   string // the sentence of the first cause; empty if nothing is wrong
		unsure bool
	}{
		"the image of the provider":    {change: waits, more: provider("infrastructure-x", corev1.ConditionFalse, &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "Back-off pulling image"}), want: "Pod x-system/x-1: container manager, image example.com/x:v1: Back-off pulling image"},
		"a Pod without a message":      {change: waits, more: provider("infrastructure-x", corev1.ConditionFalse, nil), want: "Pod x-system/x-1: ContainersNotReady"},
		"a provider that is available": {change: waits, more: provider("infrastructure-x", corev1.ConditionTrue, nil), want: "Cluster fleet/demo: Waiting for LocalCluster demo to be provisioned", unsure: true},
		"a provider without a server":  {change: waits, more: provider("infrastructure-x", corev1.ConditionFalse, nil)[:1], want: "LocalCluster fleet/demo: no controller has written to LocalCluster fleet/demo, and no Deployment has the label cluster.x-k8s.io/provider: infrastructure-x"},
		"a provider without replicas":  {change: waits, more: stopped(provider("infrastructure-x", corev1.ConditionTrue, nil)), want: "Deployment x-system/x: spec.replicas is 0"},
		"a CRD without a contract":     {change: waits, more: unlabeled(provider("infrastructure-x", corev1.ConditionTrue, nil)), want: "LocalCluster fleet/demo: the CRD of LocalCluster fleet/demo has no label cluster.x-k8s.io/v1beta2 that lists the API versions that follow the contract"},
		"a provider of this plane":     {change: waits, more: provider("infrastructure-local", corev1.ConditionTrue, nil)[:1], want: "Cluster fleet/demo: Waiting for LocalCluster demo to be provisioned", unsure: true},
		"a resource set":               {more: applying(false), want: "ClusterResourceSet fleet/cni: Secret b does not exist in namespace fleet"},
		"that of another Cluster":      {more: applying(true)},
		"a resource set comes later":   {change: waits, more: append(applying(false), provider("infrastructure-x", corev1.ConditionFalse, nil)[0]), want: "LocalCluster fleet/demo: no controller has written to LocalCluster fleet/demo, and no Deployment has the label cluster.x-k8s.io/provider: infrastructure-x"},
		"a resource set is no cause":   {change: waits, more: applying(false), want: "Cluster fleet/demo: Waiting for LocalCluster demo to be provisioned", unsure: true},
		"a move":                       {change: paused, more: []client.Object{journal(record)}, want: "spec.paused is set on Cluster fleet/demo by the move of namespace fleet from here to there, which is in phase copying since 2026-11-28T07:00:00Z"},
		"no move":                      {change: paused, want: "spec.paused is set on Cluster fleet/demo"},
		"a ConfigMap of that name":     {change: paused, more: []client.Object{journal("[]")}, want: "spec.paused is set on Cluster fleet/demo"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := cluster(0)
			if tc.change != nil {
				tc.change(objects[0].(*clusterv1.Cluster))
			}
			c := Reader{Reader: references.Reader{Mgmt: memory(t, append(objects, tc.more...)...)}}
			r, err := c.Explain(t.Context(), causes.Key{Group: clusterv1.GroupVersion().Group, Kind: "Cluster", Namespace: "fleet", Name: "demo"})
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if len(r.Causes) > 0 {
				got = r.Causes[0].Sentence()
			}
			if got != tc.want || tc.want != "" && r.Certain == tc.unsure {
				t.Errorf("%q, certain %t\nwant %q", got, r.Certain, tc.want)
			}
			if len(r.Causes) > 0 && strings.Contains(tc.want, "by the move") && !strings.Contains(r.Causes[0].Remedy.Text, "capstan move again") {
				t.Errorf("the remedy of a move is %q", r.Causes[0].Remedy.Text)
			}
		})
	}
}

// memory returns a client of an API server in memory.
func memory(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(appsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme), addonsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(scheme)).WithObjects(objects...).
		WithIndex(&corev1.Event{}, "type", func(obj client.Object) []string { return []string{obj.(*corev1.Event).Type} }).Build()
}

// rawClient returns a client of the paths of a server.
func rawClient(t *testing.T, url string) rest.Interface {
	t.Helper()
	raw, err := rest.UnversionedRESTClientFor(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{NegotiatedSerializer: serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "fleet", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}
}

// cluster is a Cluster of n machines, each with its infrastructure.
func cluster(n int) []client.Object {
	group := infrav1.GroupVersion().Group
	demo := &clusterv1.Cluster{ObjectMeta: named("demo")}
	demo.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "LocalCluster", Name: "demo"}
	objects := []client.Object{demo, &infrav1.LocalCluster{ObjectMeta: named("demo")}}
	for i := range n {
		name := fmt.Sprintf("m-%03d", i)
		m, local := &clusterv1.Machine{ObjectMeta: named(name)}, &infrav1.LocalMachine{ObjectMeta: named(name)}
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: "LocalMachine", Name: name}
		local.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: name, UID: m.UID}}
		objects = append(objects, m, local)
	}
	return objects
}
