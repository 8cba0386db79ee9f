// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

var (
	now     = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	poolKey = client.ObjectKey{Namespace: "ns", Name: "p"}
)

// world is a management cluster with one pool, a workload cluster, and what
// happened there.
type world struct {
	t           *testing.T
	mgmt, nodes client.Client
	workload    *workloads
	clock       *testclock.FakePassiveClock
	events      *events.FakeRecorder
	r           *Reconciler
	writes      []string
}

// workloads is one workload cluster.
type workloads struct {
	workload.Clusters
	client client.Client
	health workload.Health
}

func (w *workloads) Client(context.Context, client.ObjectKey) (client.Client, error) {
	if !w.health.Connected {
		return nil, workload.ErrNotConnected
	}
	return w.client, nil
}
func (w *workloads) Config(client.ObjectKey) (*rest.Config, error) {
	return nil, workload.ErrNotConnected
}
func (w *workloads) Health(client.ObjectKey) workload.Health                 { return w.health }
func (w *workloads) Source(client.Object, workload.ToRequests) source.Source { return nil }
func (w *workloads) AwaitKinds(client.ObjectKey)                             {}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: testclock.NewFakePassiveClock(now), events: events.NewFakeRecorder(100)}
	mgmt := fake.NewClientBuilder().WithScheme(s).WithReturnManagedFields().WithInterceptorFuncs(w.record()).
		WithStatusSubresource(&clusterv1.MachinePool{}, &clusterv1.Machine{}, &clusterv1.Cluster{}).
		WithIndex(&clusterv1.Machine{}, index.ClusterName, index.Of).WithIndex(&clusterv1.MachinePool{}, index.ClusterName, index.Of).
		WithIndex(&clusterv1.MachineHealthCheck{}, index.ClusterName, index.Of)
	nodes := fake.NewClientBuilder().WithScheme(s).WithInterceptorFuncs(w.record()).
		WithIndex(&corev1.Node{}, workload.NodeByProviderID, func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} })
	for _, name := range []string{"boots.x.io", "hosts.x.io", "hostpools.x.io"} {
		mgmt.WithObjects(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}}})
	}
	for _, o := range objects {
		if _, ok := o.(*corev1.Node); ok {
			nodes.WithObjects(o)
		} else {
			mgmt.WithObjects(o)
		}
	}
	w.mgmt, w.nodes = mgmt.Build(), nodes.Build()
	w.workload = &workloads{client: w.nodes, health: workload.Health{Connected: true, LastProbeSuccess: now, Answering: now}}
	w.r = &Reconciler{Deps: deps.Deps{Mgmt: w.mgmt, Live: w.mgmt, Providers: provider.New(w.mgmt, nil), Workload: w.workload, Clock: w.clock, Recorder: w.events, Deprecated: true}}
	return w
}

// record notes each write as "verb Kind name".
func (w *world) record() interceptor.Funcs {
	return writes.Before(func(verb string, obj client.Object) error {
		gvk, err := w.mgmt.GroupVersionKindFor(obj)
		if err != nil {
			w.t.Fatal(err)
		}
		if verb == "create" {
			obj.SetUID(types.UID("uid-" + obj.GetName()))
		}
		w.writes = append(w.writes, verb+" "+gvk.Kind+" "+obj.GetName())
		return nil
	})
}

// reconcile calls the reconciler once and returns the pool as stored afterwards;
// nil if it was deleted.
func (w *world) reconcile() (*clusterv1.MachinePool, ctrl.Result, error) {
	w.t.Helper()
	w.writes = nil
	return builder.Reconcile(w.t, w.mgmt, poolKey, w.r)
}

// settle reconciles until nothing is written any more.
func (w *world) settle() *clusterv1.MachinePool {
	w.t.Helper()
	for range 10 {
		p, _, err := w.reconcile()
		if err != nil {
			w.t.Fatal(err)
		}
		if len(w.writes) == 0 || p == nil {
			return p
		}
	}
	w.t.Fatalf("still writing after 10 rounds: %v", w.writes)
	return nil
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// change edits an object of the management cluster.
func (w *world) change(obj client.Object, name string, edit func()) {
	w.t.Helper()
	if err := w.mgmt.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, obj); err != nil {
		w.t.Fatal(err)
	}
	edit()
	var err error
	switch obj.(type) {
	case *clusterv1.Machine:
		status := obj.DeepCopyObject().(client.Object)
		if err = w.mgmt.Update(w.t.Context(), obj); err == nil {
			status.SetResourceVersion(obj.GetResourceVersion())
			err = w.mgmt.Status().Update(w.t.Context(), status)
		}
	default:
		err = w.mgmt.Update(w.t.Context(), obj)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) node(name string) *corev1.Node {
	w.t.Helper()
	node := &corev1.Node{}
	err := w.nodes.Get(w.t.Context(), client.ObjectKey{Name: name}, node)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return node
}

// cond is "Status Reason: message" of a condition.
func cond(p *clusterv1.MachinePool, conditionType string) string {
	c := conditions.Get(p, conditionType)
	if c == nil {
		return "absent"
	}
	return strings.TrimSuffix(string(c.Status)+" "+c.Reason+": "+c.Message, ": ")
}

func cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "uid-demo"}}
	c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true)}
	return c
}

// machinePool returns a pool as prepare leaves it, with n desired machines.
func machinePool(n int32, change ...func(*clusterv1.MachinePool)) *clusterv1.MachinePool {
	p := &clusterv1.MachinePool{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", UID: "uid-p", Generation: 1, Finalizers: []string{clusterv1.MachinePoolFinalizer},
			Labels:          map[string]string{clusterv1.ClusterNameLabel: "demo"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "demo", UID: "uid-demo"}},
		},
		Spec: clusterv1.MachinePoolSpec{
			ClusterName: "demo", Replicas: &n,
			Template: clusterv1.MachineTemplateSpec{
				ObjectMeta: clusterv1.ObjectMeta{Labels: map[string]string{"node-role.kubernetes.io/worker": "", "app": "x"}},
				Spec: clusterv1.MachineSpec{
					ClusterName: "demo", Version: "v1.36.0",
					Bootstrap:         clusterv1.Bootstrap{ConfigRef: ref("Boot")},
					InfrastructureRef: ref("HostPool"),
				},
			},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func deleting(p *clusterv1.MachinePool) { p.DeletionTimestamp = new(metav1.NewTime(now)) }

func ref(kind string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: "p"}
}

type fields = map[string]any

func thing(kind, name string, content fields) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields{}}
	for k, v := range content {
		u.Object[k] = v
	}
	u.SetAPIVersion("x.io/v1")
	u.SetKind(kind)
	u.SetNamespace("ns")
	u.SetName(name)
	u.SetUID(types.UID("uid-" + kind + "-" + name))
	return u
}

// ours gives a thing to the pool.
func ours(u *unstructured.Unstructured) *unstructured.Unstructured {
	u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "demo"})
	u.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: "p", UID: "uid-p", Controller: new(true), BlockOwnerDeletion: new(true),
	}})
	return u
}

// boot is a bootstrap config with created data.
func boot() *unstructured.Unstructured {
	return ours(thing("Boot", "p", fields{"status": fields{"dataSecretName": "data", "initialization": fields{"dataSecretCreated": true}}}))
}

// hostPool reports provider IDs, and as many replicas.
func hostPool(ids ...any) *unstructured.Unstructured {
	return ours(thing("HostPool", "p", fields{
		"spec":   fields{"providerIDList": ids},
		"status": fields{"replicas": int64(len(ids)), "ready": true},
	}))
}

// machineKind lets the pool have infrastructure machines.
func machineKind(u *unstructured.Unstructured) *unstructured.Unstructured {
	if err := unstructured.SetNestedField(u.Object, "Host", "status", "infrastructureMachineKind"); err != nil {
		panic(err)
	}
	return u
}

// host returns an infrastructure machine of the pool, as its provider creates it.
func host(name string) *unstructured.Unstructured {
	h := thing("Host", name, nil)
	h.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachinePoolNameLabel: "p"})
	h.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "x.io/v1", Kind: "HostPool", Name: "p", UID: "uid-HostPool-p"}})
	return h
}

// node is one that is ready, or not.
func node(name, id string, ready bool) *corev1.Node {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.NodeSpec{ProviderID: id}}
	n.Spec.Taints = []corev1.Taint{{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}}
	n.Status.NodeInfo.KubeletVersion = "v1.36.0"
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: status, Message: "kubelet is ready", LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))},
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
	}
	return n
}
