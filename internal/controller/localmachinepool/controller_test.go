// SPDX-License-Identifier: Apache-2.0

package localmachinepool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/controller/localmachinepool/localpool"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

var (
	key = client.ObjectKey{Namespace: "ns", Name: "pool"}
	now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
)

// backend returns the provider IDs of machines, and their capacity.
type backend struct{ localinfra.Backend }

func (backend) ProviderID(m types.NamespacedName, cluster string) string {
	return "any://" + m.Namespace + "/" + cluster + "/" + m.Name
}

func (backend) Offer(infrav1.LocalMachineSpec) localinfra.Offer {
	return localinfra.Offer{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}
}

// world is a management cluster with one reconciler, and its writes.
type world struct {
	t      *testing.T
	c      client.Client
	r      *Reconciler
	events *events.FakeRecorder
	writes []string
	fail   map[string]error // by the line that the write would have
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, events: events.NewFakeRecorder(100), fail: map[string]error{}}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&clusterv1.Machine{}, index.ClusterName, index.Of).WithIndex(&clusterv1.MachinePool{}, index.ClusterName, index.Of).
		WithIndex(&infrav1.LocalMachine{}, index.ClusterLabel, index.OfLabel).WithIndex(&infrav1.LocalMachinePool{}, index.ClusterLabel, index.OfLabel).
		WithStatusSubresource(&infrav1.LocalMachinePool{}, &infrav1.LocalMachine{}, &clusterv1.Cluster{}, &clusterv1.Machine{}).
		WithInterceptorFuncs(writes.Before(func(verb string, obj client.Object) error {
			gvk, err := apiutil.GVKForObject(obj, scheme)
			if err != nil {
				t.Fatal(err)
			}
			line := verb + " " + gvk.Kind + " " + obj.GetName()
			w.writes = append(w.writes, line)
			return w.fail[line]
		})).Build()
	named := 0
	w.r = &Reconciler{
		Deps:     deps.Deps{Mgmt: w.c, Live: w.c, Recorder: w.events, Clock: testclock.NewFakePassiveClock(now), Name: func(prefix string) string { named++; return fmt.Sprintf("%s-n%d", prefix, named) }},
		Backends: localinfra.Backends{Simulated: backend{}},
	}
	return w
}

// reconcile calls the reconciler once and returns the object afterwards, or nil if
// it was deleted.
func (w *world) reconcile() (*infrav1.LocalMachinePool, error) {
	w.t.Helper()
	w.writes = nil
	after, _, err := builder.Reconcile(w.t, w.c, key, w.r)
	return after, err
}

func (w *world) wrote(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.writes); diff != "" {
		w.t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
	c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true)}
	return c
}

func machinePool(replicas int32) *clusterv1.MachinePool {
	mp := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mp"}}
	mp.Spec.ClusterName, mp.Spec.Replicas = "demo", &replicas
	mp.Spec.Template.Spec = clusterv1.MachineSpec{
		ClusterName: "demo", Version: "v1.36.0", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("data")},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachinePool", Name: "pool"},
	}
	return mp
}

// local returns an owned LocalMachinePool, with changes.
func local(with ...func(*infrav1.LocalMachinePool)) *infrav1.LocalMachinePool {
	pool := &infrav1.LocalMachinePool{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pool", UID: "p", Finalizers: []string{infrav1.LocalMachinePoolFinalizer},
		Labels:          map[string]string{clusterv1.ClusterNameLabel: "demo"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: "mp", UID: "m", Controller: new(true)}},
	}}
	pool.Spec.Template.Simulated = &infrav1.LocalMachineSimulated{}
	for _, f := range with {
		f(pool)
	}
	return pool
}

// member returns a running machine of the pool, with its Machine.
func member(name string) (*infrav1.LocalMachine, *clusterv1.Machine) {
	lm := localpool.Pool{Local: local(), MachinePool: "mp", Cluster: "demo"}.Make(machinePool(0), name, nil)
	lm.Spec.ProviderID, lm.Status.Initialization.Provisioned = "any://ns/demo/"+name, new(true)
	conditions.Set(lm, now, conditions.New(clusterv1.ReadyCondition, metav1.ConditionTrue, clusterv1.ReadyReason, ""))
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: lm.Labels, Finalizers: []string{clusterv1.MachineFinalizer}}}
	m.Spec.ClusterName = "demo"
	m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachine", Name: name}
	m.Status.NodeRef.Name = name
	conditions.Set(m, now, conditions.New(clusterv1.AvailableCondition, metav1.ConditionTrue, "Available", ""))
	return lm, m
}

func deleted(p *infrav1.LocalMachinePool) { p.DeletionTimestamp = &metav1.Time{Time: now} }

func TestReconcileMakesAMachineForEachReplica(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machinePool(2), local())
	pool, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	w.wrote("create LocalMachine pool-n1", "create LocalMachine pool-n2", "patch LocalMachinePool pool", "patch status of LocalMachinePool pool")
	if diff := cmp.Diff([]string{"any://ns/demo/pool-n1", "any://ns/demo/pool-n2"}, pool.Spec.ProviderIDList); diff != "" || pool.Spec.ProviderID != "any://ns/demo/pool/pool" {
		t.Errorf("providerID %s, list (-want +got):\n%s", pool.Spec.ProviderID, diff)
	}
	if st := pool.Status; *st.Replicas != 2 || len(st.Instances) != 2 || st.InfrastructureMachineKind != "LocalMachine" || st.Initialization.Provisioned != nil || st.Capacity.Cpu().Value() != 4 {
		t.Errorf("status %+v", st)
	}
	if got := <-w.events.Events; got != "Normal SuccessfulCreate create pool-n1: have 0, want 2" {
		t.Errorf("event %q", got)
	}
	pool.Generation++ // The API server counts the change of the spec, which the status is about.
	if err := w.c.Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile(); err != nil || len(w.writes) > 0 {
		t.Errorf("in steady state: writes %v, error %v, want none", w.writes, err)
	}
}

func TestReconcileStoresTheFinalizerFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machinePool(1), local(func(p *infrav1.LocalMachinePool) { p.Finalizers = nil }))
	if pool, err := w.reconcile(); err != nil || len(pool.Finalizers) != 1 {
		t.Errorf("error %v, finalizers %v", err, pool.Finalizers)
	}
	w.wrote("patch LocalMachinePool pool")
}

func TestReconcileLeavesAlone(t *testing.T) {
	t.Parallel()
	lm, m := member("a")
	paused := cluster()
	paused.Spec.Paused = new(true)
	elsewhere, negative, unset := machinePool(5), machinePool(-1), machinePool(5)
	elsewhere.Spec.Template.Spec.InfrastructureRef.Name, unset.Spec.Replicas = "other", nil
	tests := map[string]struct {
		objects []client.Object
		says    string
	}{
		"what no MachinePool owns":            {objects: []client.Object{cluster(), machinePool(5), local(func(p *infrav1.LocalMachinePool) { p.OwnerReferences = nil })}},
		"what a lost MachinePool owns":        {objects: []client.Object{cluster(), local()}},
		"what is paused":                      {objects: []client.Object{paused, machinePool(5), local()}, says: "Paused"},
		"what its MachinePool does not name":  {[]client.Object{cluster(), elsewhere, local()}, "Waiting for spec.template.spec.infrastructureRef of MachinePool mp to name this LocalMachinePool"},
		"a negative number of replicas":       {[]client.Object{cluster(), negative, local()}, "spec.replicas of MachinePool mp is -1: set a number from 0 to 10000"},
		"an unset number of replicas":         {[]client.Object{cluster(), unset, local()}, "Waiting for spec.replicas of MachinePool mp to be set"},
		"what asks for no machine that is":    {[]client.Object{cluster(), machinePool(5), local(func(p *infrav1.LocalMachinePool) { p.Spec.Template.Simulated = nil })}, "spec asks for no kind of machines: set spec.simulated"},
		"what belongs to a Cluster that went": {objects: []client.Object{machinePool(5), local()}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(tc.objects, lm.DeepCopy(), m.DeepCopy())...)
			pool, err := w.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range w.writes {
				if !strings.Contains(line, " LocalMachinePool ") {
					t.Errorf("%s", line)
				}
			}
			says := conditions.Message(pool, clusterv1.ReadyCondition)
			if conditions.IsTrue(pool, clusterv1.PausedCondition) {
				says = "Paused"
			}
			if !strings.HasPrefix(says, tc.says) || tc.says == "" && len(w.writes) > 0 {
				t.Errorf("says %q, want %q; writes %v", says, tc.says, w.writes)
			}
		})
	}
}

func TestAMachineIsDeletedByItsMachine(t *testing.T) {
	t.Parallel()
	a, ofA := member("a")
	b, _ := member("b")
	w := newWorld(t, cluster(), machinePool(0), local(), a, ofA, b)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	// The one that no Machine represents is deleted first, and directly.
	w.wrote("delete LocalMachine b", "delete Machine a", "patch LocalMachinePool pool", "patch status of LocalMachinePool pool")
}

func TestAMachineThatTheCacheDoesNotShowYetIsAskedFor(t *testing.T) {
	t.Parallel()
	a, ofA := member("a")
	w := newWorld(t, cluster(), machinePool(0), local(), a, ofA)
	w.r.Mgmt = lagging{w.c}
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.wrote("delete Machine a", "patch LocalMachinePool pool", "patch status of LocalMachinePool pool")
}

// lagging is a cache that contains no Machine.
type lagging struct{ client.Client }

func (c lagging) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, is := list.(*clusterv1.MachineList); is {
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

func TestAMachineThatLostItsOwnerIsHeldAgain(t *testing.T) {
	t.Parallel()
	a, ofA := member("a")
	a.OwnerReferences = nil
	w := newWorld(t, cluster(), machinePool(1), local(), a, ofA)
	pool, err := w.reconcile()
	if err != nil || len(pool.Status.Instances) != 1 {
		t.Fatalf("error %v, status %+v", err, pool.Status)
	}
	w.wrote("patch LocalMachine a", "patch LocalMachinePool pool", "patch status of LocalMachinePool pool")
	if !conditions.IsTrue(pool, clusterv1.ReadyCondition) {
		t.Errorf("ready %+v", conditions.Get(pool, clusterv1.ReadyCondition))
	}
}

func TestReconcileSaysWhyNoMachineIsMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machinePool(3), local())
	w.fail["create LocalMachine pool-n1"] = errors.New("quota")
	pool, err := w.reconcile()
	if err == nil || err.Error() != "scale: create pool-n1: have 0, want 3: create LocalMachine ns/pool-n1: quota" {
		t.Errorf("error %v", err)
	}
	w.wrote("create LocalMachine pool-n1", "patch LocalMachinePool pool", "patch status of LocalMachinePool pool")
	if got := conditions.Message(pool, clusterv1.ReadyCondition); !strings.HasPrefix(got, "0 of 3 machines run\n* scale: create pool-n1") {
		t.Errorf("says %q", got)
	}
	if got := <-w.events.Events; got != "Warning FailedCreate create pool-n1: have 0, want 3: quota" {
		t.Errorf("event %q", got)
	}
}

func TestDeletionTakesTheMachinesFirst(t *testing.T) {
	t.Parallel()
	a, ofA := member("a")
	b, _ := member("b")
	// What a MachinePool that is being deleted as well deletes is not deleted here,
	// too.
	all := machinePool(3)
	all.DeletionTimestamp, all.Finalizers = &metav1.Time{Time: now}, []string{clusterv1.MachinePoolFinalizer}
	c, ofC := member("c")
	ofC.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: all.Name, UID: all.UID, Controller: new(true)}}
	w := newWorld(t, cluster(), all, local(deleted), a.DeepCopy(), ofA.DeepCopy(), b.DeepCopy(), c, ofC)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.wrote("delete Machine a", "delete LocalMachine b", "patch LocalMachinePool pool", "patch status of LocalMachinePool pool")
	w = newWorld(t, cluster(), machinePool(2), local(deleted), a, ofA, b)
	pool, err := w.reconcile()
	if err != nil || pool == nil {
		t.Fatalf("pool %v, error %v", pool, err)
	}
	w.wrote("delete Machine a", "delete LocalMachine b", "patch LocalMachinePool pool", "patch status of LocalMachinePool pool")
	if got := conditions.Message(pool, clusterv1.ReadyCondition); got != "Waiting for 2 LocalMachines to be deleted: a, b" {
		t.Errorf("says %q", got)
	}
	for name, objects := range map[string][]client.Object{
		"without machines":      {cluster(), machinePool(2), local(deleted)},
		"without a Cluster":     {machinePool(2), local(deleted)},
		"without a MachinePool": {cluster(), local(deleted)},
		"that was never owned":  {local(deleted, func(p *infrav1.LocalMachinePool) { p.OwnerReferences, p.Labels = nil, nil })},
	} {
		w := newWorld(t, objects...)
		if pool, err := w.reconcile(); err != nil || pool != nil {
			t.Errorf("one %s: %v, error %v, want it gone", name, pool, err)
		}
	}
}

func TestMapperTriggersPool(t *testing.T) {
	t.Parallel()
	lm, m := member("a")
	orphan := lm.DeepCopy()
	orphan.OwnerReferences = nil
	stranger := m.DeepCopy()
	stranger.Spec.InfrastructureRef.Kind = "Other"
	unlabelled := m.DeepCopy()
	unlabelled.Labels = nil
	w := newWorld(t, cluster(), machinePool(1), local())
	for name, tc := range map[string]struct {
		wakes func(context.Context, client.Object) []reconcile.Request
		obj   client.Object
		want  bool
	}{
		"its LocalMachine":         {w.r.ofLocalMachine, lm, true},
		"one that it may take":     {w.r.ofLocalMachine, orphan, true},
		"its Machine":              {w.r.ofMachine, m, true},
		"a Machine of another":     {w.r.ofMachine, stranger, false},
		"a Machine of no pool":     {w.r.ofMachine, unlabelled, false},
		"its MachinePool":          {ofMachinePool, machinePool(1), true},
		"its Cluster":              {w.r.ofCluster, cluster(), true},
		"a MachinePool of another": {ofMachinePool, &clusterv1.MachinePool{}, false},
	} {
		got := tc.wakes(t.Context(), tc.obj)
		if want := []reconcile.Request{{NamespacedName: key}}; tc.want && cmp.Diff(want, got) != "" || !tc.want && len(got) > 0 {
			t.Errorf("%s triggers %v", name, got)
		}
	}
}
