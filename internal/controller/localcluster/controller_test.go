// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

var key = client.ObjectKey{Namespace: "ns", Name: "demo-infra"}

// backend records its calls.
type backend struct {
	localinfra.Backend // no other method is called

	wanted   []localinfra.Cluster
	resumed  []localinfra.Cluster
	deleted  []localinfra.ID
	released []localinfra.ID
	err      error
	refuses  error
	panics   bool
}

func (b *backend) EnsureCluster(_ context.Context, want localinfra.Cluster) (clusterv1.APIEndpoint, error) {
	b.wanted = append(b.wanted, want)
	if b.panics {
		panic("index out of range")
	}
	return clusterv1.APIEndpoint{Host: "127.64.0.1", Port: 6443}, b.err
}

func (b *backend) CheckEndpoint(clusterv1.APIEndpoint) error { return b.refuses }

func (b *backend) DeleteCluster(_ context.Context, which localinfra.Cluster) error {
	b.deleted = append(b.deleted, which.ID)
	return b.err
}

func (b *backend) ReleaseCluster(_ context.Context, which localinfra.Cluster) error {
	b.released = append(b.released, which.ID)
	return b.err
}

func (b *backend) ResumeCluster(_ context.Context, want localinfra.Cluster) error {
	b.resumed = append(b.resumed, want)
	return b.err
}

// world is a management cluster with one reconciler, and what it wrote.
type world struct {
	t       *testing.T
	c       client.Client
	r       *Reconciler
	backend *backend
	writes  []string
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, backend: &backend{}}
	w.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&infrav1.LocalCluster{}, &clusterv1.Cluster{}).
		WithIndex(&infrav1.LocalCluster{}, Identity, OfIdentity).
		WithInterceptorFuncs(writes.Before(func(verb string, _ client.Object) error {
			w.writes = append(w.writes, verb)
			return nil
		})).Build()
	w.r = &Reconciler{Deps: deps.Deps{Mgmt: w.c, Clock: testclock.NewFakePassiveClock(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC))}, Backends: localinfra.Backends{Simulated: w.backend}}
	return w
}

// reconcile calls the reconciler once and returns the object afterwards, or nil if
// it was deleted.
func (w *world) reconcile() (*infrav1.LocalCluster, error) {
	w.t.Helper()
	w.writes = nil
	after, _, err := builder.Reconcile(w.t, w.c, key, w.r)
	return after, err
}

func cluster() *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "c"},
		Spec:       clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalCluster", Name: key.Name}},
	}
}

// local is an owned LocalCluster; with changes it.
func local(with ...func(*infrav1.LocalCluster)) *infrav1.LocalCluster {
	lc := &infrav1.LocalCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: "lc", Finalizers: []string{infrav1.LocalClusterFinalizer},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "demo", UID: "c"}},
		},
		Spec: infrav1.LocalClusterSpec{
			FailureDomains: []clusterv1.FailureDomain{{Name: "a", ControlPlane: new(true)}},
			Simulated:      &infrav1.LocalClusterSimulated{Faults: []infrav1.ClusterFault{infrav1.ClusterFaultAPIServerHangs}},
		},
	}
	for _, f := range with {
		f(lc)
	}
	return lc
}

func TestReconcileProvidesTheEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), local(func(lc *infrav1.LocalCluster) { lc.Finalizers = nil }))
	lc, err := w.reconcile()
	if err != nil || len(w.backend.wanted) > 0 || len(lc.Finalizers) != 1 {
		t.Fatalf("finalizers %v, asked for %v, error %v: the finalizer must be stored first", lc.Finalizers, w.backend.wanted, err)
	}
	if lc, err = w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch", "patch status of"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	want := []localinfra.Cluster{{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "demo"}, ID: "lc", Object: key, UID: "lc", Spec: local().Spec}}
	if diff := cmp.Diff(want, w.backend.wanted); diff != "" {
		t.Errorf("asked the infrastructure for (-want +got):\n%s", diff)
	}
	if lc.Spec.ControlPlaneEndpoint.String() != "127.64.0.1:6443" || lc.Spec.Identity != "lc" || !provisioned(lc) || len(lc.Status.FailureDomains) != 1 {
		t.Errorf("endpoint %v, status %+v", lc.Spec.ControlPlaneEndpoint, lc.Status)
	}
	for _, c := range []string{clusterv1.ReadyCondition, clusterv1.DeletingCondition, clusterv1.PausedCondition} {
		if is := conditions.IsTrue(lc, c); is != (c == clusterv1.ReadyCondition) {
			t.Errorf("%s is %t", c, is)
		}
	}
	// The API server counts the change of the spec, which the status is about.
	lc.Generation++
	if err := w.c.Update(t.Context(), lc); err != nil {
		t.Fatal(err)
	}
	if _, err := w.reconcile(); err != nil || len(w.writes) > 0 {
		t.Errorf("in steady state: writes %v, error %v, want none", w.writes, err)
	}
}

func TestReconcileLeavesAlone(t *testing.T) {
	t.Parallel()
	tests := map[string]*infrav1.LocalCluster{
		"what is managed from outside": local(func(lc *infrav1.LocalCluster) {
			lc.Annotations = map[string]string{clusterv1.ManagedByAnnotation: "them"}
		}),
		"what no Cluster owns":          local(func(lc *infrav1.LocalCluster) { lc.OwnerReferences = nil }),
		"what an unrelated object owns": local(func(lc *infrav1.LocalCluster) { lc.OwnerReferences[0].APIVersion = "example.com/v1" }),
		"what a lost Cluster owns":      local(func(lc *infrav1.LocalCluster) { lc.OwnerReferences[0].Name = "lost" }),
	}
	for name, lc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), lc)
			if _, err := w.reconcile(); err != nil || len(w.writes) > 0 || len(w.backend.wanted) > 0 {
				t.Errorf("writes %v, asked for %v, error %v", w.writes, w.backend.wanted, err)
			}
		})
	}
}

func TestReconcileSaysThatItIsPaused(t *testing.T) {
	t.Parallel()
	c := cluster()
	c.Spec.Paused = new(true)
	w := newWorld(t, c, local(func(lc *infrav1.LocalCluster) { lc.Finalizers = nil }))
	lc, err := w.reconcile()
	if err != nil || len(w.backend.wanted) > 0 || !conditions.IsTrue(lc, clusterv1.PausedCondition) || len(lc.Finalizers) != 1 {
		t.Errorf("conditions %v, finalizers %v, asked for %v, error %v", lc.Status.Conditions, lc.Finalizers, w.backend.wanted, err)
	}
}

func TestReconcileSaysWhyThereIsNoEndpoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), local())
	w.backend.err = errors.New("no free address")
	lc, err := w.reconcile()
	if err == nil || provisioned(lc) || conditions.Message(lc, clusterv1.ReadyCondition) != "Waiting for the control plane endpoint: endpoint: no free address" {
		t.Errorf("conditions %v, error %v", lc.Status.Conditions, err)
	}
}

func TestOnlyAnEndpointThatCannotBeIsAFailureThatLasts(t *testing.T) {
	t.Parallel()
	chosen := func(lc *infrav1.LocalCluster) {
		lc.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "0.0.0.0", Port: 6443}
	}
	everybodys := errors.New("0.0.0.0 is all addresses")
	for name, tc := range map[string]struct {
		lc      *infrav1.LocalCluster
		refuses error
		want    string
	}{
		"one that was asked for":  {local(chosen), everybodys, "InvalidConfiguration: 0.0.0.0 is all addresses"},
		"one that is only taken":  {local(chosen), nil, ": "},
		"one that was not chosen": {local(), everybodys, ": "},
	} {
		w := newWorld(t, cluster(), tc.lc)
		w.backend.err, w.backend.refuses = errors.New("no"), tc.refuses
		lc, err := w.reconcile()
		if err == nil {
			t.Fatal("no error")
		}
		if got := ptr.Deref(lc.Status.FailureReason, "") + ": " + ptr.Deref(lc.Status.FailureMessage, ""); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestOnlyTheClustersOwnLocalClusterIsMade(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*clusterv1.ContractVersionedObjectReference){
		"another":                    func(r *clusterv1.ContractVersionedObjectReference) { r.Name = "other" },
		"a kind of another provider": func(r *clusterv1.ContractVersionedObjectReference) { r.APIGroup = "example.com" },
		"none":                       func(r *clusterv1.ContractVersionedObjectReference) { *r = clusterv1.ContractVersionedObjectReference{} },
	} {
		c := cluster()
		change(&c.Spec.InfrastructureRef)
		w := newWorld(t, c, local())
		lc, err := w.reconcile()
		if err != nil || len(w.backend.wanted) > 0 || !strings.HasPrefix(conditions.Message(lc, clusterv1.ReadyCondition), "Waiting for spec.infrastructureRef of Cluster demo to name this LocalCluster") {
			t.Errorf("Cluster refers to %s: conditions %v, asked for %v, error %v", name, lc.Status.Conditions, w.backend.wanted, err)
		}
	}
}

func TestAFormerFinalizerIsReplaced(t *testing.T) {
	t.Parallel()
	former := func(lc *infrav1.LocalCluster) { lc.Finalizers = []string{"a.b/c", formerFinalizer} }
	w := newWorld(t, cluster(), local(former))
	lc, err := w.reconcile()
	if diff := cmp.Diff([]string{"a.b/c", "infrastructure.capstan.dev/localcluster"}, lc.Finalizers); diff != "" || err != nil {
		t.Errorf("error %v, finalizers (-want +got):\n%s", err, diff)
	}
	w = newWorld(t, cluster(), local(func(lc *infrav1.LocalCluster) {
		lc.Finalizers, lc.DeletionTimestamp = []string{formerFinalizer}, new(metav1.Now())
	}))
	if lc, err := w.reconcile(); err != nil || lc != nil || len(w.backend.deleted) != 1 {
		t.Errorf("of a deleted one: %v, deleted %v, error %v", lc, w.backend.deleted, err)
	}
}

func TestAPanicIsReportedAsAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), local())
	if lc, err := w.reconcile(); err != nil || !conditions.IsTrue(lc, clusterv1.ReadyCondition) {
		t.Fatalf("conditions %v, error %v", lc.Status.Conditions, err)
	}
	w.backend.panics = true
	lc, err := w.reconcile()
	if err == nil || conditions.Message(lc, clusterv1.ReadyCondition) != "Waiting for the control plane endpoint: endpoint: panic: index out of range" {
		t.Errorf("conditions %v, error %v", lc.Status.Conditions, err)
	}
}

func TestDeletionRemovesTheInfrastructureFirst(t *testing.T) {
	t.Parallel()
	deleted := func(lc *infrav1.LocalCluster) { lc.DeletionTimestamp = new(metav1.Now()) }
	tests := map[string]struct {
		lc   *infrav1.LocalCluster
		err  error
		want []localinfra.ID
		gone bool
	}{
		"of a Cluster":              {local(deleted), nil, []localinfra.ID{"lc"}, true},
		"of a Cluster that is gone": {local(deleted, func(lc *infrav1.LocalCluster) { lc.OwnerReferences[0].Name = "lost" }), nil, []localinfra.ID{"lc"}, true},
		"of none":                   {local(deleted, func(lc *infrav1.LocalCluster) { lc.OwnerReferences = nil }), nil, []localinfra.ID{"lc"}, true},
		"again if it fails":         {local(deleted), errors.New("busy"), []localinfra.ID{"lc"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), tc.lc)
			w.backend.err = tc.err
			lc, err := w.reconcile()
			if (err != nil) != (tc.err != nil) || (lc == nil) != tc.gone {
				t.Errorf("LocalCluster %v, error %v", lc, err)
			}
			if diff := cmp.Diff(tc.want, w.backend.deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			if lc != nil && !conditions.IsTrue(lc, clusterv1.DeletingCondition) {
				t.Errorf("conditions %v, want Deleting", lc.Status.Conditions)
			}
		})
	}
}

func TestBackendStateIsRemovedWithoutFinalizerOnRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.r.removed(t.Context(), local(), true)
	if diff := cmp.Diff([]localinfra.ID{"lc"}, w.backend.deleted); diff != "" || len(w.backend.released) > 0 {
		t.Errorf("released %v, removed (-want +got):\n%s", w.backend.released, diff)
	}
	w = newWorld(t)
	w.r.removed(t.Context(), local(), false)
	if diff := cmp.Diff([]localinfra.ID{"lc"}, w.backend.released); diff != "" || len(w.backend.deleted) > 0 {
		t.Errorf("removed %v, released (-want +got):\n%s", w.backend.deleted, diff)
	}
}

// moved makes a LocalCluster one that was created on another host.
func moved(lc *infrav1.LocalCluster) {
	lc.Spec.Identity, lc.Spec.ControlPlaneEndpoint = "abc", clusterv1.APIEndpoint{Host: "127.64.0.1", Port: 6443}
}

func TestWhatWasMadeIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"that another holds":       {&localinfra.HeldError{Holder: "the plane on /a (process 7)"}, "Waiting for the plane on /a (process 7) to release the infrastructure of this cluster"},
		"that is not allowed":      {fmt.Errorf("%w: start the plane with --x", localinfra.ErrNotAllowed), "container machines are not allowed in this namespace: start the plane with --x"},
		"that is on another host":  {fmt.Errorf("%w: there is no /b/abc", localinfra.ErrNotHere), "its infrastructure is not on this host: there is no /b/abc: put it back, or delete the Cluster"},
		"that is here and is held": {nil, ""},
	} {
		w := newWorld(t, cluster(), local(moved))
		w.backend.err = tc.err
		lc, err := w.reconcile()
		if err != nil || conditions.Message(lc, clusterv1.ReadyCondition) != tc.want || len(w.backend.wanted) != 1 || !w.backend.wanted[0].Made || w.backend.wanted[0].ID != "abc" {
			t.Errorf("%s: asked for %+v, conditions %v, error %v", name, w.backend.wanted, lc.Status.Conditions, err)
		}
	}
}

func TestWhatIsPausedRunsOn(t *testing.T) {
	t.Parallel()
	c := cluster()
	c.Spec.Paused = new(true)
	for name, tc := range map[string]struct {
		err  error
		fail bool
	}{
		"as it was":                 {},
		"as soon as it is released": {&localinfra.HeldError{Holder: "another"}, false},
		"after its correction":      {errors.New("damaged"), true},
	} {
		w := newWorld(t, c, local(moved))
		w.backend.err = tc.err
		lc, err := w.reconcile()
		if (err != nil) != tc.fail || len(w.backend.resumed) != 1 || len(w.backend.wanted) > 0 || !conditions.IsTrue(lc, clusterv1.PausedCondition) {
			t.Errorf("%s: resumed %v, asked for %v, error %v", name, w.backend.resumed, w.backend.wanted, err)
		}
	}
}

func TestACopyIsRefusedAndCostsTheFirstNothing(t *testing.T) {
	t.Parallel()
	first := local(moved, func(lc *infrav1.LocalCluster) {
		lc.Name, lc.UID, lc.CreationTimestamp = "z-first", "first", metav1.NewTime(time.Unix(1, 0))
	})
	later := func(lc *infrav1.LocalCluster) { lc.CreationTimestamp = metav1.NewTime(time.Unix(2, 0)) }
	w := newWorld(t, cluster(), first, local(moved, later))
	const want = "spec.identity is that of LocalCluster ns/z-first: delete this one, or create it again without identity and controlPlaneEndpoint"
	if lc, err := w.reconcile(); err != nil || conditions.Message(lc, clusterv1.ReadyCondition) != want || len(w.backend.wanted) > 0 {
		t.Errorf("conditions %v, error %v, asked for %v", lc.Status.Conditions, err, w.backend.wanted)
	}
	if got := w.r.copies(t.Context(), first); len(got) != 2 {
		t.Errorf("reconciled when the first goes: %v", got)
	}
	for _, asked := range []bool{true, false} {
		w.r.removed(t.Context(), local(moved, later), asked)
	}
	w = newWorld(t, cluster(), first, local(moved, later, func(lc *infrav1.LocalCluster) { lc.DeletionTimestamp = new(metav1.Now()) }))
	lc, err := w.reconcile()
	if err != nil || lc != nil || len(w.backend.deleted)+len(w.backend.released) > 0 {
		t.Errorf("LocalCluster %v, error %v, deleted %v, released %v", lc, err, w.backend.deleted, w.backend.released)
	}
}

func TestAKindOfMachinesThatIsNotHereIsNamed(t *testing.T) {
	t.Parallel()
	const want = "spec.simulated asks for machines that cannot run here: choose another kind, or have a manager reconcile this that runs them"
	deleted := func(lc *infrav1.LocalCluster) { lc.DeletionTimestamp = new(metav1.Now()) }
	for name, tc := range map[string]struct {
		lc        *infrav1.LocalCluster
		condition string
	}{
		"to make it":   {local(), clusterv1.ReadyCondition},
		"to delete it": {local(deleted), clusterv1.DeletingCondition},
	} {
		w := newWorld(t, cluster(), tc.lc)
		w.r.Backends = localinfra.Backends{}
		lc, err := w.reconcile()
		if err != nil || lc == nil || conditions.Message(lc, tc.condition) != want {
			t.Errorf("%s: LocalCluster %v, error %v, want it to say %q", name, lc, err, want)
		}
	}
	w := newWorld(t, cluster(), local(deleted, func(lc *infrav1.LocalCluster) { lc.Spec.Simulated = nil }))
	if lc, err := w.reconcile(); err != nil || lc != nil || len(w.backend.deleted) > 0 {
		t.Errorf("of no kind: LocalCluster %v, error %v, deleted %v, want it gone", lc, err, w.backend.deleted)
	}
}
