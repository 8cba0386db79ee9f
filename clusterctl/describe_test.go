// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/tree"
)

var described = client.ObjectKey{Namespace: "fleet", Name: "demo"}

// counted returns a client of an API server in memory, and a counter of its reads.
func counted(t testing.TB, objects ...client.Object) (*Client, *atomic.Int32) {
	t.Helper()
	scheme, reads := runtime.NewScheme(), &atomic.Int32{}
	if err := errors.Join(clusterv1.AddToScheme(scheme), bootstrapv1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme),
		infrav1.AddToScheme(scheme), addonsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return NewWithClient(fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(scheme)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			reads.Add(1)
			return c.Get(ctx, key, obj, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			reads.Add(1)
			return c.List(ctx, list, opts...)
		},
	}).Build()), reads
}

func named(kind, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: described.Namespace, Name: name, UID: types.UID(kind + name), Labels: map[string]string{clusterv1.ClusterNameLabel: described.Name}}
}

func refTo(group, kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: name}
}

// withMachines is a cluster of n machines, each with its infrastructure and its
// bootstrap configuration.
func withMachines(n int) []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: named("c", described.Name)}
	cluster.Spec.InfrastructureRef = refTo(infrav1.GroupVersion().Group, "LocalCluster", described.Name)
	cluster.Spec.ControlPlaneRef = refTo(controlplanev1.GroupVersion().Group, "KubeadmControlPlane", "cp")
	objects := []client.Object{cluster, &infrav1.LocalCluster{ObjectMeta: named("i", described.Name)}, &controlplanev1.KubeadmControlPlane{ObjectMeta: named("p", "cp")}}
	for i := range n {
		name := fmt.Sprintf("m-%03d", i)
		m := &clusterv1.Machine{ObjectMeta: named("m", name)}
		m.Spec.InfrastructureRef = refTo(infrav1.GroupVersion().Group, "LocalMachine", name)
		m.Spec.Bootstrap.ConfigRef = refTo(bootstrapv1.GroupVersion().Group, "KubeadmConfig", name)
		objects = append(objects, m, &infrav1.LocalMachine{ObjectMeta: named("i", name)}, &bootstrapv1.KubeadmConfig{ObjectMeta: named("b", name)})
	}
	return objects
}

func TestRequestsOfATreeDoNotGrowWithItsMachines(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(i int, obj client.Object) client.Object{
		"as controllers make them": func(_ int, obj client.Object) client.Object { return obj },
		"one machine has none":     func(i int, obj client.Object) client.Object { return unless(i == 3+1, obj) },
		"a user made each without a label": func(i int, obj client.Object) client.Object {
			if i >= 3 && i%3 == 1 {
				obj.SetLabels(nil)
			}
			return obj
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests []int32
			for _, machines := range []int{10, 300} {
				var objects []client.Object
				for i, obj := range withMachines(machines) {
					if obj = change(i, obj); obj != nil {
						objects = append(objects, obj)
					}
				}
				c, reads := counted(t, objects...)
				in, err := c.ReadTree(t.Context(), described, tree.Options{ShowResourceSets: true, ShowTemplates: true})
				if err != nil {
					t.Fatal(err)
				}
				got := 0
				for _, m := range in.Machines {
					if m.Infrastructure != nil {
						got++
					}
					if m.Bootstrap == nil {
						t.Errorf("Machine %s is without its bootstrap configuration", m.Name)
					}
				}
				if want := (len(objects) - 3 - machines - machines); got != want {
					t.Errorf("%d machines with infrastructure, want %d", got, want)
				}
				requests = append(requests, reads.Load())
			}
			if requests[0] != requests[1] || requests[1] > 14 {
				t.Errorf("%d requests for 10 machines and %d for 300, want as many, and at most 14", requests[0], requests[1])
			}
		})
	}
}

// TestObjectsOfReadyMachinesAreNotRead has two machines report that one of their objects
// is ready, which then has no row.
func TestObjectsOfReadyMachinesAreNotRead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options                   tree.Options
		status                    metav1.ConditionStatus
		infrastructure, bootstrap int
	}{
		"ready":                      {status: metav1.ConditionTrue, infrastructure: 1, bootstrap: 1},
		"ready, and shown by --echo": {status: metav1.ConditionTrue, options: tree.Options{Echo: true}, infrastructure: 3, bootstrap: 3},
		"not ready":                  {status: metav1.ConditionFalse, infrastructure: 3, bootstrap: 3},
		"readiness unknown":          {status: metav1.ConditionUnknown, infrastructure: 3, bootstrap: 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := withMachines(3)
			for _, obj := range objects {
				if m, ok := obj.(*clusterv1.Machine); ok && m.Name != "m-002" { // which has no conditions
					for _, ready := range []string{clusterv1.InfrastructureReadyCondition, clusterv1.BootstrapConfigReadyCondition} {
						m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: ready, Status: tc.status, Reason: "R"})
					}
				}
			}
			c, _ := counted(t, objects...)
			in, err := c.ReadTree(t.Context(), described, tc.options)
			if err != nil {
				t.Fatal(err)
			}
			infrastructure, bootstrap := 0, 0
			for _, m := range in.Machines {
				if m.Infrastructure != nil {
					infrastructure++
				}
				if m.Bootstrap != nil {
					bootstrap++
				}
			}
			if infrastructure != tc.infrastructure || bootstrap != tc.bootstrap {
				t.Errorf("read %d of infrastructure and %d of bootstrap, want %d and %d", infrastructure, bootstrap, tc.infrastructure, tc.bootstrap)
			}
		})
	}
}

func unless(gone bool, obj client.Object) client.Object {
	if gone {
		return nil
	}
	return obj
}

func TestATreeIsReadWithWhatItShows(t *testing.T) {
	t.Parallel()
	deployment := &clusterv1.MachineDeployment{ObjectMeta: named("d", "w")}
	deployment.Spec.Paused = new(true)
	deployment.Spec.Template.Spec.Version = "v1.36.3"
	deployment.Spec.Template.Spec.InfrastructureRef = refTo(infrav1.GroupVersion().Group, "LocalMachineTemplate", "w")
	pool := &clusterv1.MachinePool{ObjectMeta: named("l", "pool")}
	pool.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	pool.Spec.Template.Spec.InfrastructureRef = refTo(infrav1.GroupVersion().Group, "LocalMachinePool", "pool")
	binding := &addonsv1.ClusterResourceSetBinding{ObjectMeta: named("b", described.Name)}
	binding.Spec.Bindings = []addonsv1.ResourceSetBinding{{ClusterResourceSetName: "cni"}, {ClusterResourceSetName: "gone"}}
	objects := append(withMachines(1), deployment, pool, binding,
		&infrav1.LocalMachineTemplate{ObjectMeta: named("t", "w")}, &infrav1.LocalMachinePool{ObjectMeta: named("i", "pool")}, &addonsv1.ClusterResourceSet{ObjectMeta: named("s", "cni")})
	cluster := objects[0].(*clusterv1.Cluster)
	cluster.Spec.Topology.Version = "v1.36.4"
	cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{DesiredReplicas: new(int32(3)), Replicas: new(int32(3))}
	cluster.Status.Workers = &clusterv1.WorkersStatus{DesiredReplicas: new(int32(4)), ReadyReplicas: new(int32(1))}
	c, _ := counted(t, objects...)

	in, err := c.ReadTree(t.Context(), described, tree.Options{ShowResourceSets: true, ShowTemplates: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree.Counters{Desired: new(int32(7)), Current: new(int32(3)), Ready: new(int32(1))}, in.Cluster.Replicas); diff != "" {
		t.Errorf("replicas of the Cluster (-want +got):\n%s", diff)
	}
	var got []string
	for _, o := range in.Objects() {
		got = append(got, fmt.Sprintf("%s/%s %s %t", o.Kind, o.Name, o.Version, o.Paused))
	}
	want := []string{
		"Cluster/demo v1.36.4 false", "LocalCluster/demo  false", "KubeadmControlPlane/cp  false", "MachineDeployment/w v1.36.3 true", "ClusterResourceSet/cni  false",
		"LocalMachineTemplate/w  false", "MachinePool/pool  true", "LocalMachinePool/pool  false", "Machine/m-000  false", "LocalMachine/m-000  false", "KubeadmConfig/m-000  false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}

	quiet, err := c.ReadTree(t.Context(), described, tree.Options{})
	if err != nil || len(quiet.Templates) > 0 || len(quiet.ResourceSets) > 0 {
		t.Errorf("templates %v and sets %v were read without need, error %v", quiet.Templates, quiet.ResourceSets, err)
	}
}

// TestDescribeShowsUnusualObject: authors of providers use the tree when their
// objects are malformed.
func TestDescribeShowsUnusualObject(t *testing.T) {
	t.Parallel()
	o := seen(&unstructured.Unstructured{Object: map[string]any{
		"kind": "Host", "metadata": map[string]any{"name": "h"}, "spec": map[string]any{"replicas": "many"},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "Perhaps"}}},
	}})
	if c := o.Condition(clusterv1.ReadyCondition); o.Name != "h" || c == nil || c.Reason != "Unreadable" || c.Status != metav1.ConditionUnknown {
		t.Errorf("object %+v", o)
	}
}

func TestATreeIsFollowedUntilItsClusterIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reads := counted(t, withMachines(3)...)
		var shown []int
		done := make(chan error, 1)
		go func() {
			done <- c.FollowTree(t.Context(), described, tree.Options{}, func(in tree.Input) error {
				shown = append(shown, len(in.Machines))
				return nil
			})
		}()
		time.Sleep(time.Hour)
		before := reads.Load()
		time.Sleep(time.Hour)
		if after := reads.Load(); after != before {
			t.Errorf("%d requests within an hour in which nothing changes", after-before)
		}
		for i := range 2 { // twice immediately, so that they are read together
			if err := c.mgmt.Delete(t.Context(), &clusterv1.Machine{ObjectMeta: named("m", fmt.Sprintf("m-%03d", i))}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if err := c.mgmt.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: named("c", described.Name)}); err != nil {
			t.Fatal(err)
		}
		if none, ok := errors.AsType[*NoClusterError](<-done); !ok || none.Key != described {
			t.Errorf("it ends with %v", none)
		}
		if !slices.Equal(shown, []int{3, 1}) {
			t.Errorf("trees of %d machines are shown, want of 3 and then of 1", shown)
		}
	})
}

func TestFollowingATreeEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := counted(t, withMachines(1)...)
		ctx, cancel := context.WithCancel(t.Context())
		if err := c.FollowTree(ctx, described, tree.Options{}, func(tree.Input) error { cancel(); return nil }); err != nil {
			t.Errorf("error %v", err)
		}
	})
}

// BenchmarkReadTree reads a cluster of 500 machines from an API server that responds
// immediately.
func BenchmarkReadTree(b *testing.B) {
	c, reads := counted(b, withMachines(500)...)
	before := reads.Load()
	n := 0
	for b.Loop() {
		if _, err := c.ReadTree(b.Context(), described, tree.Options{}); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(reads.Load()-before)/float64(n), "requests/op")
}

func TestAdviceMeansTheSameManagementCluster(t *testing.T) {
	t.Parallel()
	c, _ := counted(t)
	c.Flags = " --data-dir /tmp/a"
	_, err := c.ReadTree(t.Context(), described, tree.Options{})
	if want := "there is no Cluster demo in namespace fleet: `capstan get clusters -A --data-dir /tmp/a` lists those there are"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
