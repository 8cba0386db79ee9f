// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/writes"
)

var key = client.ObjectKey{Namespace: "ns", Name: "m0"}

// backend records its calls, and returns given results.
type backend struct {
	localinfra.Backend // no other method is called

	wanted  []localinfra.Machine
	deleted []types.NamespacedName
	ids     []localinfra.ID // that were deleted
	answer  localinfra.MachineStatus
	err     error
	changes chan types.NamespacedName
}

func (b *backend) EnsureMachine(_ context.Context, want localinfra.Machine) (localinfra.MachineStatus, error) {
	b.wanted = append(b.wanted, want)
	return b.answer, b.err
}

func (b *backend) DeleteMachine(_ context.Context, which localinfra.Machine) error {
	b.deleted, b.ids = append(b.deleted, types.NamespacedName{Namespace: which.Namespace, Name: which.Cluster}), append(b.ids, which.ID)
	return b.err
}

func (b *backend) MachineChanges(context.Context) <-chan types.NamespacedName { return b.changes }

var running = localinfra.MachineStatus{
	Stage: localinfra.Done, Message: "machine is Node m0", ProviderID: "any://ns/demo/m0",
	Addresses: clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.64.0.1"}},
}

// world is a management cluster with one reconciler, and what it wrote.
type world struct {
	t       *testing.T
	c       client.Client
	r       *Reconciler
	backend *backend
	events  *events.FakeRecorder
	writes  []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, backend: &backend{answer: running, changes: make(chan types.NamespacedName)}, events: events.NewFakeRecorder(10)}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&infrav1.LocalMachine{}, &clusterv1.Cluster{}, &clusterv1.Machine{}).
		WithInterceptorFuncs(writes.Before(func(verb string, _ client.Object) error {
			w.writes = append(w.writes, verb)
			return nil
		})).Build()
	w.r = &Reconciler{Deps: deps.Deps{Mgmt: w.c, Live: w.c, Recorder: w.events, Clock: testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))}, Backends: localinfra.Backends{Simulated: w.backend}}
	return w
}

// reconcile calls the reconciler once and returns the object afterwards, or nil if
// it was deleted.
func (w *world) reconcile() (*infrav1.LocalMachine, error) {
	w.t.Helper()
	w.writes = nil
	after, _, err := builder.Reconcile(w.t, w.c, key, w.r)
	return after, err
}

func cluster(with ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
	c.Status.Initialization.InfrastructureProvisioned = new(true)
	for _, f := range with {
		f(c)
	}
	return c
}

func machine(with ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m0", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}},
		Spec: clusterv1.MachineSpec{
			ClusterName: "demo", Version: "v1.34.2", FailureDomain: "a",
			Bootstrap:         clusterv1.Bootstrap{DataSecretName: new("m0-data")},
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachine", Name: "m0"},
		},
	}
	for _, f := range with {
		f(m)
	}
	return m
}

func data() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m0-data"},
		Data:       map[string][]byte{"value": []byte("#cloud-config"), "format": []byte("cloud-config")},
	}
}

// local is an owned LocalMachine; with changes it.
func local(with ...func(*infrav1.LocalMachine)) *infrav1.LocalMachine {
	lm := &infrav1.LocalMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "m0", UID: "lm", Finalizers: []string{infrav1.LocalMachineFinalizer},
			Labels:          map[string]string{clusterv1.ClusterNameLabel: "demo"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: "m0", UID: "m"}},
		},
		Spec: infrav1.LocalMachineSpec{Simulated: &infrav1.LocalMachineSimulated{
			VM: infrav1.SimulatedStage{StartupMilliseconds: new(int32(5))}, Faults: []infrav1.MachineFault{infrav1.MachineFaultNodeNotReady},
		}},
	}
	for _, f := range with {
		f(lm)
	}
	return lm
}

func TestReconcileProvisionsTheMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(), data(), local())
	lm, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch", "patch status of"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	want := []localinfra.Machine{{
		NamespacedName: key, ID: "lm", Cluster: "demo", FailureDomain: "a", Version: "v1.34.2", ControlPlane: true,
		BootstrapData: []byte("#cloud-config"), BootstrapFormat: "cloud-config", Spec: local().Spec,
	}}
	if diff := cmp.Diff(want, w.backend.wanted); diff != "" {
		t.Errorf("asked the infrastructure for (-want +got):\n%s", diff)
	}
	if lm.Spec.ProviderID != "any://ns/demo/m0" || !ptr.Deref(lm.Status.Initialization.Provisioned, false) || len(lm.Status.Addresses) != 1 || lm.Status.FailureDomain != "a" {
		t.Errorf("spec %+v, status %+v", lm.Spec, lm.Status)
	}
	for _, c := range []string{clusterv1.ReadyCondition, infrav1.VMProvisionedCondition, infrav1.BootstrapExecSucceededCondition} {
		if !conditions.IsTrue(lm, c) {
			t.Errorf("%s is not true: %+v", c, conditions.Get(lm, c))
		}
	}
	if len(w.events.Events) > 0 {
		t.Errorf("event %q, which the conditions report already", <-w.events.Events)
	}
	if err := w.c.Delete(t.Context(), data()); err != nil {
		t.Fatal(err)
	}
	// The API server counts the change of the spec, which the status is about.
	lm.Generation++
	if err := w.c.Update(t.Context(), lm); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile(); err != nil || len(w.writes) > 0 {
		t.Errorf("in steady state, its bootstrap data gone: writes %v, error %v, want none", w.writes, err)
	}
}

func TestReconcileSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	noData := func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = nil }
	theirs, others := data(), data()
	theirs.Labels = map[string]string{clusterv1.ClusterNameLabel: "prod"}
	others.OwnerReferences = []metav1.OwnerReference{{APIVersion: "bootstrap.cluster.x-k8s.io/v1beta2", Kind: "KubeadmConfig", Name: "m1", Controller: new(true)}}
	tests := map[string]struct {
		cluster *clusterv1.Cluster
		machine *clusterv1.Machine
		reason  string
		message string
		secret  *corev1.Secret // nil: that of the machine
	}{
		"for data that is not another cluster's": {
			cluster: cluster(), machine: machine(), secret: theirs,
			reason: infrav1.VMWaitingForBootstrapDataReason, message: "Secret m0-data, named by spec.bootstrap.dataSecretName of Machine m0, is held by Cluster prod, by its label cluster.x-k8s.io/cluster-name: name another Secret",
		},
		"for data that is not another machine's": {
			cluster: cluster(), machine: machine(), secret: others,
			reason: infrav1.VMWaitingForBootstrapDataReason, message: "Secret m0-data, named by spec.bootstrap.dataSecretName of Machine m0, is held by KubeadmConfig m1: name another Secret",
		},
		"for the network": {
			cluster(func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = nil }), machine(),
			infrav1.VMWaitingForClusterInfrastructureReason, "Waiting for the infrastructure of Cluster demo to be provisioned", nil,
		},
		"a worker for the control plane": {
			cluster(), machine(noData, func(m *clusterv1.Machine) { m.Labels = nil }),
			infrav1.VMWaitingForControlPlaneInitializedReason, "Waiting for the control plane of Cluster demo to be initialized", nil,
		},
		"for bootstrap data": {
			cluster(), machine(noData),
			infrav1.VMWaitingForBootstrapDataReason, "Waiting for spec.bootstrap.dataSecretName of Machine m0", nil,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.secret == nil {
				tc.secret = data()
			}
			w := newWorld(t, tc.cluster, tc.machine, tc.secret, local())
			lm, err := w.reconcile()
			if err != nil || len(w.backend.wanted) > 0 {
				t.Fatalf("error %v, asked for %v", err, w.backend.wanted)
			}
			c := conditions.Get(lm, infrav1.VMProvisionedCondition)
			if c == nil || c.Status != metav1.ConditionFalse || c.Reason != tc.reason || c.Message != tc.message {
				t.Errorf("condition %+v, want %s: %s", c, tc.reason, tc.message)
			}
			if !conditions.IsFalse(lm, clusterv1.ReadyCondition) {
				t.Errorf("ready %+v", conditions.Get(lm, clusterv1.ReadyCondition))
			}
		})
	}
}

func TestReconcileReportsHowFarTheMachineIs(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		seen            localinfra.MachineStatus
		vm, bootstrap   metav1.ConditionStatus
		reason, message string
		event           string
	}{
		"booting": {
			localinfra.MachineStatus{Stage: localinfra.Booting, Message: "the machine to boot"}, metav1.ConditionFalse, "", "", "", "",
		},
		"joining": {
			localinfra.MachineStatus{Stage: localinfra.Bootstrapping, Message: "the cluster to be found: no route"}, metav1.ConditionTrue, metav1.ConditionFalse,
			infrav1.BootstrapExecRunningReason, "Waiting for the cluster to be found: no route", "",
		},
		"failed": {
			localinfra.MachineStatus{Stage: localinfra.Failed, Message: "kubeadm join: token has expired"}, metav1.ConditionTrue, metav1.ConditionFalse,
			infrav1.BootstrapExecFailedReason, "kubeadm join: token has expired", "Warning BootstrapFailed kubeadm join: token has expired",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), machine(), data(), local())
			w.backend.answer = tc.seen
			lm, err := w.reconcile()
			if err != nil || ptr.Deref(lm.Status.Initialization.Provisioned, false) || lm.Spec.ProviderID != "" {
				t.Fatalf("error %v, status %+v", err, lm.Status)
			}
			if c := conditions.Get(lm, infrav1.VMProvisionedCondition); c == nil || c.Status != tc.vm || tc.bootstrap == "" && c.Message != "Waiting for the machine to boot" {
				t.Errorf("VMProvisioned %+v, want %s", c, tc.vm)
			}
			c := conditions.Get(lm, infrav1.BootstrapExecSucceededCondition)
			if tc.bootstrap == "" {
				if c != nil {
					t.Errorf("BootstrapExecSucceeded %+v, want none", c)
				}
			} else if c == nil || c.Status != tc.bootstrap || c.Reason != tc.reason || c.Message != tc.message {
				t.Errorf("BootstrapExecSucceeded %+v, want %s: %s", c, tc.reason, tc.message)
			}
			if tc.message != "" && !strings.Contains(conditions.Message(lm, clusterv1.ReadyCondition), tc.message) {
				t.Errorf("ready says %q, want why", conditions.Message(lm, clusterv1.ReadyCondition))
			}
			if _, err := w.reconcile(); err != nil || len(w.writes) > 0 {
				t.Errorf("again: writes %v, error %v, want none", w.writes, err)
			}
			close(w.events.Events)
			if got := <-w.events.Events; got != tc.event {
				t.Errorf("event %q, want %q", got, tc.event)
			}
		})
	}
}

func TestAMachineThatDoesNotRunAnyMoreSaysWhy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"its files are lost":     {errors.New("objects.jsonl: the file is damaged"), "The machine does not run: objects.jsonl: the file is damaged"},
		"its cluster is gone":    {localinfra.ErrNoCluster, "The machine does not run: " + localinfra.ErrNoCluster.Error()},
		"the process is stopped": {localinfra.ErrClosed, ""},
	} {
		w := newWorld(t, cluster(), machine(), data(), local())
		lm, err := w.reconcile()
		if err != nil || !conditions.IsTrue(lm, clusterv1.ReadyCondition) {
			t.Fatalf("conditions %v, error %v", lm.Status.Conditions, err)
		}
		w.backend.err = tc.err
		lm, err = w.reconcile()
		if got := conditions.Message(lm, infrav1.VMProvisionedCondition); err == nil || got != tc.want {
			t.Errorf("%s: VMProvisioned says %q, want %q; error %v", name, got, tc.want, err)
		}
		if got := conditions.IsTrue(lm, clusterv1.ReadyCondition); got != (tc.want == "") {
			t.Errorf("%s: Ready %v", name, got)
		}
		w.backend.err = nil
		if lm, err = w.reconcile(); err != nil || !conditions.IsTrue(lm, clusterv1.ReadyCondition) {
			t.Errorf("%s, and runs again: conditions %v, error %v", name, lm.Status.Conditions, err)
		}
		if !w.backend.wanted[2].Provisioned {
			t.Errorf("%s: the machine may be started again", name)
		}
	}
}

func TestAMachineOfAClusterThatIsBeingOpenedStaysAsItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(), data(), local())
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.writes = nil
	w.backend.err = fmt.Errorf("simulated machine: %w", localinfra.ErrOpening)
	if lm, err := w.reconcile(); err != nil || len(w.writes) > 0 || !conditions.IsTrue(lm, clusterv1.ReadyCondition) {
		t.Errorf("conditions %v, writes %v, error %v", lm.Status.Conditions, w.writes, err)
	}
}

func TestReconcileReportsUnusableData(t *testing.T) {
	t.Parallel()
	empty := data()
	empty.Data = nil
	tests := map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"the Secret is missing":   {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other"}}, "get Secret ns/m0-data named by Machine m0"},
		"the Secret has no value": {empty, `has no bootstrap data under the key "value"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), machine(), tc.secret, local())
			lm, err := w.reconcile()
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(conditions.Message(lm, infrav1.VMProvisionedCondition), tc.want) {
				t.Errorf("error %v, conditions %+v, want %s", err, lm.Status.Conditions, tc.want)
			}
		})
	}
}

func TestReconcileIgnoresUnownedObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		machine *clusterv1.Machine
		change  func(*infrav1.LocalMachine)
	}{
		"without an owner":                    {machine(), func(lm *infrav1.LocalMachine) { lm.OwnerReferences, lm.Finalizers = nil, nil }},
		"whose owner does not refer to it":    {machine(func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Name = "m1" }), func(*infrav1.LocalMachine) {}},
		"whose owner refers to another thing": {machine(func(m *clusterv1.Machine) { m.Spec.InfrastructureRef.Kind = "Other" }), func(*infrav1.LocalMachine) {}},
	} {
		w := newWorld(t, cluster(), tc.machine, data(), local(tc.change))
		if _, err := w.reconcile(); err != nil || len(w.writes) > 0 || len(w.backend.wanted) > 0 {
			t.Errorf("%s: writes %v, asked for %v, error %v", name, w.writes, w.backend.wanted, err)
		}
	}
}

func TestReconcileSaysThatItIsPaused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(), data(), local(func(lm *infrav1.LocalMachine) {
		lm.Annotations, lm.Finalizers = map[string]string{clusterv1.PausedAnnotation: ""}, nil
	}))
	lm, err := w.reconcile()
	if err != nil || len(w.backend.wanted) > 0 || !conditions.IsTrue(lm, clusterv1.PausedCondition) || len(lm.Finalizers) != 1 {
		t.Errorf("conditions %v, finalizers %v, asked for %v, error %v", lm.Status.Conditions, lm.Finalizers, w.backend.wanted, err)
	}
}

func TestDeletionWaitsForNothing(t *testing.T) {
	t.Parallel()
	deleted := func(lm *infrav1.LocalMachine) { lm.DeletionTimestamp = new(metav1.Now()) }
	tests := map[string]struct {
		others []client.Object
		err    error
		gone   bool
	}{
		"with everything there":    {[]client.Object{cluster(), machine(), data()}, nil, true},
		"with everything gone":     {nil, nil, true},
		"before bootstrap data":    {[]client.Object{cluster(), machine(func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = nil })}, nil, true},
		"except after an error":    {[]client.Object{cluster(), machine()}, errors.New("busy"), false},
		"with the network not yet": {[]client.Object{cluster(func(c *clusterv1.Cluster) { c.Status.Initialization = clusterv1.ClusterInitializationStatus{} }), machine()}, nil, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(tc.others, local(deleted))...)
			w.backend.err = tc.err
			lm, err := w.reconcile()
			if (err != nil) != (tc.err != nil) || (lm == nil) != tc.gone {
				t.Errorf("LocalMachine %v, error %v", lm, err)
			}
			if diff := cmp.Diff([]types.NamespacedName{{Namespace: "ns", Name: "demo"}}, w.backend.deleted); diff != "" {
				t.Errorf("deleted in cluster (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAFormerFinalizerIsReplaced(t *testing.T) {
	t.Parallel()
	former := local()
	former.Finalizers = []string{formerFinalizer}
	w := newWorld(t, cluster(), machine(), data(), former)
	lm, err := w.reconcile()
	if diff := cmp.Diff([]string{"infrastructure.capstan.dev/localmachine"}, lm.Finalizers); diff != "" || err != nil {
		t.Errorf("error %v, finalizers (-want +got):\n%s", err, diff)
	}
	former = local()
	former.Finalizers, former.DeletionTimestamp = []string{formerFinalizer}, new(metav1.Now())
	w = newWorld(t, cluster(), machine(), data(), former)
	if lm, err := w.reconcile(); err != nil || lm != nil || len(w.backend.deleted) != 1 {
		t.Errorf("of a deleted one: %v, deleted %v, error %v", lm, w.backend.deleted, err)
	}
}

func TestAMachineThatWentWithoutItsFinalizerIsRemoved(t *testing.T) {
	t.Parallel()
	lm := local()
	w := newWorld(t)
	w.r.removed(t.Context(), lm, false)
	if len(w.backend.ids) > 0 {
		t.Errorf("removed %v without a request", w.backend.ids)
	}
	w.r.removed(t.Context(), lm, true)
	if diff := cmp.Diff([]localinfra.ID{"lm"}, w.backend.ids); diff != "" || w.backend.deleted[0].Name != "demo" {
		t.Errorf("removed from %v (-want +got):\n%s", w.backend.deleted, diff)
	}
}

func TestAMachineThatWasMovedIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	lc := &infrav1.LocalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "infra", UID: "new"}, Spec: infrav1.LocalClusterSpec{Identity: "abc"}}
	here := cluster(func(c *clusterv1.Cluster) {
		c.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalCluster", Name: "infra"}
		c.Status.Initialization.InfrastructureProvisioned = nil
	})
	ran := machine(func(m *clusterv1.Machine) { m.Spec.ProviderID = "any://ns/demo/m0" })
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"that runs here":      {nil, ""},
		"that runs elsewhere": {&localinfra.HeldError{Holder: "the plane on /a"}, "The machine does not run: its infrastructure is held by the plane on /a"},
		"that is not here":    {fmt.Errorf("%w: no file", localinfra.ErrNotHere), "The machine does not run: its infrastructure is not on this host: no file"},
	} {
		w := newWorld(t, here, lc, ran, local(func(lm *infrav1.LocalMachine) { lm.Spec.ProviderID = ran.Spec.ProviderID }))
		w.backend.err = tc.err
		lm, err := w.reconcile()
		if err != nil || len(w.backend.wanted) != 1 || !w.backend.wanted[0].Provisioned || w.backend.wanted[0].ClusterID != "abc" {
			t.Errorf("%s: asked for %+v, error %v", name, w.backend.wanted, err)
		}
		if got := conditions.Message(lm, infrav1.VMProvisionedCondition); got != tc.want {
			t.Errorf("%s: VMProvisioned says %q, want %q", name, got, tc.want)
		}
	}
	w := newWorld(t, cluster(), machine(), data(), local())
	w.backend.err = &localinfra.HeldError{Holder: "the plane on /a"}
	lm, err := w.reconcile()
	if got := conditions.Message(lm, infrav1.VMProvisionedCondition); err != nil || got != "Waiting for the machine to be started: its infrastructure is held by the plane on /a" {
		t.Errorf("one that was not started yet: %q, error %v", got, err)
	}
	w = newWorld(t, cluster(), machine(), data(), local())
	w.backend.err = fmt.Errorf("%w: start the plane with --x", localinfra.ErrNotAllowed)
	lm, err = w.reconcile()
	if got := conditions.Message(lm, infrav1.VMProvisionedCondition); err != nil || got != "container machines are not allowed in this namespace: start the plane with --x" {
		t.Errorf("one that is not allowed: %q, error %v", got, err)
	}
}

func TestAKindOfMachinesThatIsNotHereIsNamed(t *testing.T) {
	t.Parallel()
	const want = "spec.simulated asks for machines that cannot run here: choose another kind, or have a manager reconcile this that runs them"
	deleted := func(lm *infrav1.LocalMachine) { lm.DeletionTimestamp = new(metav1.Now()) }
	for name, tc := range map[string]struct {
		local  *infrav1.LocalMachine
		reason string
	}{
		"to start it":  {local(), infrav1.VMNotProvisionedReason},
		"to run it on": {local(func(lm *infrav1.LocalMachine) { lm.Status.Initialization.Provisioned = new(true) }), infrav1.VMNotProvisionedReason},
		"to delete it": {local(deleted), infrav1.VMDeletingReason},
	} {
		w := newWorld(t, cluster(), machine(), data(), tc.local)
		w.r.Backends = localinfra.Backends{}
		lm, err := w.reconcile()
		if err != nil || lm == nil {
			t.Fatalf("%s: LocalMachine %v, error %v", name, lm, err)
		}
		if c := conditions.Get(lm, infrav1.VMProvisionedCondition); c == nil || c.Status != metav1.ConditionFalse || c.Reason != tc.reason || c.Message != want {
			t.Errorf("%s: VMProvisioned %+v, want %s: %s", name, c, tc.reason, want)
		}
		if !conditions.IsFalse(lm, clusterv1.ReadyCondition) {
			t.Errorf("%s: ready %+v", name, conditions.Get(lm, clusterv1.ReadyCondition))
		}
	}
	w := newWorld(t, cluster(), machine(), data(), local(deleted, func(lm *infrav1.LocalMachine) { lm.Spec.Simulated = nil }))
	if lm, err := w.reconcile(); err != nil || lm != nil || len(w.backend.deleted) > 0 {
		t.Errorf("of no kind: LocalMachine %v, error %v, deleted from %v, want it gone", lm, err, w.backend.deleted)
	}
}

// TestAMachineOfAPoolNeedsNoMachine checks that it runs as its MachinePool defines,
// and as its pool has recorded on it.
func TestAMachineOfAPoolNeedsNoMachine(t *testing.T) {
	t.Parallel()
	ref := func(name string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachinePool", Name: name}
	}
	mp := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "mp"}}
	mp.Spec.ClusterName, mp.Spec.Template.Spec.Bootstrap.DataSecretName, mp.Spec.Template.Spec.InfrastructureRef = "demo", new("m0-data"), ref("pool")
	pool := &infrav1.LocalMachinePool{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "pool", OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: "mp"}},
	}}
	ofPool := local(func(lm *infrav1.LocalMachine) {
		lm.OwnerReferences = []metav1.OwnerReference{{APIVersion: infrav1.GroupVersion().String(), Kind: "LocalMachinePool", Name: "pool"}}
		lm.Annotations = map[string]string{infrav1.PoolVersionAnnotation: "v1.36.0", infrav1.PoolFailureDomainAnnotation: "b"}
	})
	w := newWorld(t, cluster(), mp, pool, data(), ofPool)
	lm, err := w.reconcile()
	if err != nil || len(w.backend.wanted) != 1 {
		t.Fatalf("error %v, asked for %v", err, w.backend.wanted)
	}
	if got := w.backend.wanted[0]; got.Version != "v1.36.0" || got.FailureDomain != "b" || string(got.BootstrapData) != "#cloud-config" || got.Cluster != "demo" {
		t.Errorf("asked for %+v", got)
	}
	if !ptr.Deref(lm.Status.Initialization.Provisioned, false) || lm.Status.FailureDomain != "b" {
		t.Errorf("status %+v", lm.Status)
	}
	mp.Spec.Template.Spec.InfrastructureRef = ref("other")
	w = newWorld(t, cluster(), mp, pool, data(), ofPool)
	if _, err := w.reconcile(); err != nil || len(w.backend.wanted) > 0 || len(w.writes) > 0 {
		t.Errorf("of a pool that its MachinePool does not name: error %v, asked for %v, writes %v", err, w.backend.wanted, w.writes)
	}
}
