// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
	now         = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	machineKey  = client.ObjectKey{Namespace: "ns", Name: "m0"}
	configRef   = clusterv1.ContractVersionedObjectReference{APIGroup: "boot.io", Kind: "Config", Name: "m0"}
	hostRef     = clusterv1.ContractVersionedObjectReference{APIGroup: "infra.io", Kind: "Host", Name: "m0"}
	planeRef    = clusterv1.ContractVersionedObjectReference{APIGroup: "plane.io", Kind: "Plane", Name: "demo"}
	contractCRD = map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}
)

// world is a management cluster, a workload cluster, and what happened there.
type world struct {
	t        *testing.T
	mgmt     client.Client
	nodes    client.Client
	workload *workloads
	clock    *testclock.FakePassiveClock
	events   *events.FakeRecorder
	r        *Reconciler
	writes   []string // to the management cluster and the Nodes
}

// workloads is one workload cluster.
type workloads struct {
	workload.Clusters
	client client.Client
	health workload.Health
	err    error
}

func (w *workloads) Client(context.Context, client.ObjectKey) (client.Client, error) {
	if w.err == nil && !w.health.Connected {
		return nil, workload.ErrNotConnected
	}
	return w.client, w.err
}
func (w *workloads) Config(client.ObjectKey) (*rest.Config, error)           { return nil, w.err }
func (w *workloads) Health(client.ObjectKey) workload.Health                 { return w.health }
func (w *workloads) Source(client.Object, workload.ToRequests) source.Source { return nil }

// newWorld returns a world with the given objects, each in the cluster to which it
// belongs.
func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, clusterv1.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{t: t, clock: testclock.NewFakePassiveClock(now), events: events.NewFakeRecorder(100)}
	mgmt := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(&clusterv1.Machine{}, &clusterv1.Cluster{}).WithInterceptorFuncs(w.record()).
		WithIndex(&clusterv1.Machine{}, index.ClusterName, index.Of).WithIndex(&clusterv1.MachineHealthCheck{}, index.ClusterName, index.Of)
	nodes := fake.NewClientBuilder().WithScheme(s).WithInterceptorFuncs(w.record()).
		WithIndex(&corev1.Node{}, workload.NodeByProviderID, func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} })
	for _, name := range []string{"configs.boot.io", "hosts.infra.io", "planes.plane.io"} {
		mgmt.WithObjects(&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: contractCRD}})
	}
	for _, o := range objects {
		switch o.GetObjectKind().GroupVersionKind().Group {
		case "boot.io", "infra.io", "plane.io":
			mgmt.WithObjects(o)
			continue
		}
		switch o.(type) {
		case *clusterv1.Machine, *clusterv1.Cluster, *clusterv1.MachineSet, *clusterv1.MachineDeployment, *clusterv1.MachinePool, *clusterv1.MachineDrainRule, *clusterv1.MachineHealthCheck:
			mgmt.WithObjects(o)
		default:
			nodes.WithObjects(o)
		}
	}
	w.mgmt, w.nodes = mgmt.Build(), nodes.Build()
	w.workload = &workloads{client: w.nodes, health: workload.Health{Connected: true, LastProbeSuccess: now}}
	w.r = &Reconciler{Deps: deps.Deps{Mgmt: w.mgmt, Live: w.mgmt, Providers: provider.New(w.mgmt, nil), Workload: w.workload, Clock: w.clock, Recorder: w.events, Deprecated: true}}
	return w
}

// record notes each write as "verb Kind".
func (w *world) record() interceptor.Funcs {
	return writes.Before(func(verb string, obj client.Object) error {
		gvk, err := w.mgmt.GroupVersionKindFor(obj)
		if err != nil {
			w.t.Fatal(err)
		}
		w.writes = append(w.writes, verb+" "+gvk.Kind)
		return nil
	})
}

// reconcile calls the reconciler once and returns the Machine as stored afterwards;
// nil if it was deleted.
func (w *world) reconcile() (*clusterv1.Machine, ctrl.Result, error) {
	w.t.Helper()
	w.writes = nil
	return builder.Reconcile(w.t, w.mgmt, machineKey, w.r)
}

// settle reconciles until nothing is written any more.
func (w *world) settle() *clusterv1.Machine {
	w.t.Helper()
	for range 10 {
		m, _, err := w.reconcile()
		if err != nil {
			w.t.Fatal(err)
		}
		if len(w.writes) == 0 || m == nil {
			return m
		}
	}
	w.t.Fatalf("still writing after 10 rounds: %v", w.writes)
	return nil
}

// told drains the recorded events.
func (w *world) told() (out []string) {
	for {
		select {
		case e := <-w.events.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}

// cond is "Status Reason: message" of a condition.
func cond(m *clusterv1.Machine, conditionType string) string {
	c := conditions.Get(m, conditionType)
	if c == nil {
		return "absent"
	}
	return strings.TrimSuffix(string(c.Status)+" "+c.Reason+": "+c.Message, ": ")
}

func cluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "cluster", Labels: map[string]string{"env": "test"}}}
	c.Spec.ControlPlaneRef = planeRef
	c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true)}
	for _, f := range change {
		f(c)
	}
	return c
}

// machine returns a Machine as a MachineSet creates it.
func machine(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "m0", UID: "machine", Generation: 1, Finalizers: []string{clusterv1.MachineFinalizer},
			Labels:          map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineSetNameLabel: "set"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet", Name: "set", UID: "set", Controller: new(true)}},
		},
		Spec: clusterv1.MachineSpec{ClusterName: "demo", Version: "v1.36.0", InfrastructureRef: hostRef, Bootstrap: clusterv1.Bootstrap{ConfigRef: configRef}},
	}
	for _, f := range change {
		f(m)
	}
	return m
}

// running changes a Machine to one that has its Node n0.
func running(m *clusterv1.Machine) {
	m.Spec.ProviderID = "x://m0"
	m.Spec.Bootstrap.DataSecretName = new("m0-data")
	m.Status.NodeRef.Name = "n0"
	m.Status.Initialization = clusterv1.MachineInitializationStatus{InfrastructureProvisioned: new(true), BootstrapDataSecretCreated: new(true)}
}

// deleted marks a Machine as being deleted since some seconds.
func deletedSince(ago time.Duration) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: now.Add(-ago)} }
}

// object returns an unstructured object for a reference, with spec and status.
func object(ref clusterv1.ContractVersionedObjectReference, fields map[string]any, change ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	if fields == nil {
		u.Object = map[string]any{}
	}
	u.SetAPIVersion(ref.APIGroup + "/v1")
	u.SetKind(ref.Kind)
	u.SetNamespace("ns")
	u.SetName(ref.Name)
	for _, f := range change {
		f(u)
	}
	return u
}

// going changes an object to one that is being deleted and has a finalizer.
func going(u *unstructured.Unstructured) {
	u.SetDeletionTimestamp(&metav1.Time{Time: now})
	u.SetFinalizers([]string{"held"})
}

func config(status map[string]any) *unstructured.Unstructured {
	return object(configRef, map[string]any{"status": status})
}

func bootstrapped() *unstructured.Unstructured {
	return config(map[string]any{"initialization": map[string]any{"dataSecretCreated": true}, "dataSecretName": "m0-data"})
}

func host(id string, status map[string]any) *unstructured.Unstructured {
	return object(hostRef, map[string]any{"spec": map[string]any{"providerID": id}, "status": status})
}

func provisioned() *unstructured.Unstructured {
	return host("x://m0", map[string]any{
		"initialization": map[string]any{"provisioned": true}, "failureDomain": "a",
		"addresses": []any{map[string]any{"type": "InternalIP", "address": "10.0.0.1"}},
	})
}

func plane() *unstructured.Unstructured { return object(planeRef, nil) }

// controlPlaneMachine is another Machine, of the control plane.
func controlPlaneMachine() *clusterv1.Machine {
	return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "cp0", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: ""},
	}, Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
}

func node(change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Spec: corev1.NodeSpec{ProviderID: "x://m0"}}
	n.Status.NodeInfo.KubeletVersion = "v1.36.0"
	n.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}, {Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse},
	}
	for _, f := range change {
		f(n)
	}
	return n
}

// indexed is a management cluster with the controller's indexes.
func indexed(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := clusterv1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(s).WithObjects(objects...)
	if err := errors.Join(provider.Index(t.Context(), indexer{b}, &clusterv1.Machine{}, refs), index.Register(t.Context(), indexer{b})); err != nil {
		t.Fatal(err)
	}
	return b.Build()
}

type indexer struct{ b *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, obj client.Object, field string, values client.IndexerFunc) error {
	i.b.WithIndex(obj, field, values)
	return nil
}
