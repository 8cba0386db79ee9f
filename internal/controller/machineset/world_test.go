// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"errors"
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

// world is a management cluster with one reconciler, and a record of what is
// written to it.
type world struct {
	t      *testing.T
	c      client.Client
	r      *Reconciler
	writes []string
	fail   map[string]error // by the line that the write would have
	events *events.FakeRecorder

	workload workloads
}

// workloads is the connection to the workload cluster, of which only the health is
// read.
type workloads struct {
	workload.Clusters

	health workload.Health
}

func (w *workloads) Health(client.ObjectKey) workload.Health { return w.health }

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"Host", "HostTemplate", "Boot", "BootTemplate", "Plane"} {
		objects = append(objects, crd(kind))
	}
	w := &world{t: t, fail: map[string]error{}, events: events.NewFakeRecorder(100)}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().
		WithIndex(&clusterv1.Machine{}, index.ClusterName, index.Of).
		WithIndex(&clusterv1.MachineSet{}, index.ClusterName, index.Of).
		WithIndex(&clusterv1.MachineHealthCheck{}, index.ClusterName, index.Of).
		WithStatusSubresource(&clusterv1.MachineSet{}, &clusterv1.Machine{}, &clusterv1.Cluster{}).
		WithInterceptorFuncs(writes.Before(w.write)).Build()
	named := 0
	w.r = &Reconciler{
		Deps: deps.Deps{Mgmt: w.c, Live: w.c, Deprecated: true, Providers: provider.New(w.c, nil), Workload: &w.workload, Clock: testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), Recorder: w.events, Name: func(prefix string) string { named++; return fmt.Sprintf("%s-n%d", prefix, named) }},
	}
	return w
}

func (w *world) write(verb string, obj client.Object) error {
	if verb == "create" {
		obj.SetUID(types.UID("uid-" + obj.GetName()))
	}
	gvk, err := apiutil.GVKForObject(obj, w.c.Scheme())
	if err != nil {
		w.t.Fatal(err)
	}
	line := verb + " " + gvk.Kind + " " + obj.GetName()
	w.writes = append(w.writes, line)
	return w.fail[line]
}

// reconcile calls the reconciler once and returns what it wrote.
func (w *world) reconcile() ([]string, error) {
	w.t.Helper()
	w.writes = nil
	_, err := w.r.Reconcile(w.t.Context(), w.set())
	return w.writes, err
}

func (w *world) set() *clusterv1.MachineSet {
	w.t.Helper()
	return get(w, &clusterv1.MachineSet{}, "ms")
}

func get[T client.Object](w *world, into T, name string) T {
	w.t.Helper()
	if err := w.c.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, into); err != nil {
		w.t.Fatal(err)
	}
	return into
}

func (w *world) update(obj client.Object) {
	w.t.Helper()
	if err := w.c.Update(w.t.Context(), obj); err != nil {
		w.t.Fatal(err)
	}
}

func crd(kind string) client.Object {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{
		Name:   plural(kind) + ".x.io",
		Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"},
	}}
}

func plural(kind string) string {
	return map[string]string{"Host": "hosts", "HostTemplate": "hosttemplates", "Boot": "boots", "BootTemplate": "boottemplates", "Plane": "planes"}[kind]
}

func thing(kind, name string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	if u.Object == nil {
		u.Object = map[string]any{}
	}
	u.SetAPIVersion("x.io/v1")
	u.SetKind(kind)
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

func template(kind, name string) *unstructured.Unstructured {
	return thing(kind, name, map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"size": "big"}}}})
}

func ref(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: name}
}

func cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "uid-c"}}
}

// machineSet returns a set as prepare leaves it, with n desired Machines.
func machineSet(n int32) *clusterv1.MachineSet {
	return &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "ms", UID: "uid-ms", Generation: 3,
			Finalizers: []string{clusterv1.MachineSetFinalizer},
			Labels:     map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "md"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineDeployment", Name: "md", UID: "uid-md", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: "c",
			Replicas:    &n,
			Selector:    metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"app": "x"}, Annotations: map[string]string{"note": "1"}},
				Spec: clusterv1.MachineSpec{
					ClusterName:       "c",
					Version:           "v1.36.0",
					Bootstrap:         clusterv1.Bootstrap{ConfigRef: ref("BootTemplate", "bt")},
					InfrastructureRef: ref("HostTemplate", "ht"),
				},
			},
		},
	}
}

// machine returns a Machine as the set creates it.
func machine(name string) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{"note": "1"},
			Labels: map[string]string{
				"app": "x", clusterv1.ClusterNameLabel: "c", clusterv1.MachineSetNameLabel: "ms", clusterv1.MachineDeploymentNameLabel: "md",
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: fieldOwner, Operation: "Update", APIVersion: clusterv1.GroupVersion().String(), FieldsType: "FieldsV1",
				FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{"f:app":{}}}}`)},
			}},
			Finalizers: []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet", Name: "ms", UID: "uid-ms", Controller: new(true), BlockOwnerDeletion: new(true),
			}},
		},
		Spec: machineSet(0).Spec.Template.Spec,
	}
	m.Spec.Bootstrap.ConfigRef, m.Spec.InfrastructureRef = ref("Boot", name), ref("Host", name)
	m.Spec.Deletion.NodeDeletionTimeoutSeconds = new(int32(10))
	return m
}

func withCondition(m *clusterv1.Machine, conditionType string, status metav1.ConditionStatus) *clusterv1.Machine {
	m.Status.Conditions = append(m.Status.Conditions, metav1.Condition{Type: conditionType, Status: status, Reason: "R", LastTransitionTime: metav1.Now()})
	return m
}

func plane(version string, running ...string) *unstructured.Unstructured {
	var versions []any
	for _, v := range running {
		versions = append(versions, map[string]any{"version": v, "replicas": int64(1)})
	}
	return thing("Plane", "cp", map[string]any{"spec": map[string]any{"version": version}, "status": map[string]any{"versions": versions}})
}

func withPlane() *clusterv1.Cluster {
	c := cluster()
	c.Spec.ControlPlaneRef = ref("Plane", "cp")
	return c
}

func keyOf(name string) client.ObjectKey { return client.ObjectKey{Namespace: "ns", Name: name} }
