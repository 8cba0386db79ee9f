// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestStatusDebounce(t *testing.T) {
	set := func(m *clusterv1.Machine, conditionType string, status metav1.ConditionStatus) {
		conditions.Set(m, time.Unix(0, 0), metav1.Condition{Type: conditionType, Status: status})
	}
	tests := map[string]struct {
		change   func(*clusterv1.Machine)
		deleting bool
		// lookedAfter means that it was not paused before.
		lookedAfter bool
		postponed   bool
	}{
		"a condition that got worse can wait": {change: func(m *clusterv1.Machine) { set(m, "Ready", metav1.ConditionFalse) }, postponed: true},
		"a counter of time can wait":          {change: func(m *clusterv1.Machine) { m.Status.Phase = "Pending" }, postponed: true},
		"that it became ready cannot":         {change: func(m *clusterv1.Machine) { set(m, "Ready", metav1.ConditionTrue) }},
		"that its Machines are ready cannot": {change: func(m *clusterv1.Machine) {
			conditions.Set(m, time.Unix(0, 0), metav1.Condition{Type: "MachinesReady", Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason})
		}},
		"that it is available before its Machines are ready can wait": {change: func(m *clusterv1.Machine) {
			set(m, "Available", metav1.ConditionTrue)
			conditions.Set(m, time.Unix(0, 0), metav1.Condition{Type: "MachinesReady", Status: metav1.ConditionUnknown, Reason: clusterv1.ReadyUnknownReason})
		}, postponed: true},
		"that it has no Machines can wait": {change: func(m *clusterv1.Machine) {
			conditions.Set(m, time.Unix(0, 0), metav1.Condition{Type: "MachinesReady", Status: metav1.ConditionTrue, Reason: clusterv1.NoReplicasReason})
		}, postponed: true},
		"reports to clients of v1beta1 can wait": {change: func(m *clusterv1.Machine) {
			m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{FailureReason: new("x")}}
		}, postponed: true},
		"what others act on cannot":                {change: func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "n" }},
		"with a change of the spec it can wait":    {change: func(m *clusterv1.Machine) { m.Spec.ProviderID = "x"; m.Status.Phase = "Pending" }, postponed: true},
		"what only informs for this kind can wait": {change: func(m *clusterv1.Machine) { m.Status.Addresses = clusterv1.MachineAddresses{{Address: "a"}} }, postponed: true},
		"how far a deletion has come can wait":     {change: func(m *clusterv1.Machine) { m.Status.Phase = "Deleting" }, deleting: true, postponed: true},
		"that a deletion waits for a hook cannot": {change: func(m *clusterv1.Machine) {
			conditions.Set(m, time.Unix(0, 0), metav1.Condition{Type: "Deleting", Status: metav1.ConditionTrue, Reason: clusterv1.MachineDeletingWaitingForPreTerminateHookReason})
		}, deleting: true},
		"that a pause is noticed cannot":               {change: func(m *clusterv1.Machine) { set(m, "Paused", metav1.ConditionTrue) }, lookedAfter: true},
		"that what was made paused is paused can wait": {change: func(m *clusterv1.Machine) { set(m, "Paused", metav1.ConditionTrue) }, postponed: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
			if tc.lookedAfter {
				set(m, "Paused", metav1.ConditionFalse)
			}
			if tc.deleting {
				m.DeletionTimestamp, m.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"a.b/c"}
			}
			c, writes := counting(t, m)
			clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
			d := NewStatusDebounce(time.Second, clock)
			reconcile := func() error {
				live := &clusterv1.Machine{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), live); err != nil {
					t.Fatal(err)
				}
				commit := Snapshot(c, live, Debounced(d, "addresses"))
				tc.change(live)
				return commit(t.Context())
			}
			err := reconcile()
			later, postponed := errors.AsType[*PostponedError](err)
			if postponed != tc.postponed || (err != nil && !postponed) {
				t.Fatalf("error %v, want it postponed: %v", err, tc.postponed)
			}
			if !postponed {
				return
			}
			if later.After != time.Second || *writes != 0 {
				t.Errorf("come again after %s, %d writes; want one second and none", later.After, *writes)
			}
			clock.SetTime(time.Unix(1, 0))
			if err := reconcile(); err != nil || *writes != 1 {
				t.Errorf("when it is due: error %v, %d writes; want one write", err, *writes)
			}
		})
	}
}

// counting creates a client with m in it that counts writes.
func counting(t *testing.T, m *clusterv1.Machine) (client.Client, *int) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	writes := 0
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).WithStatusSubresource(m).WithInterceptorFuncs(interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes++
			return c.SubResource(sub).Patch(ctx, obj, p, opts...)
		},
	}).Build(), &writes
}

func TestUnderLoadWritesWaitLonger(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	d := NewStatusDebounce(time.Second, clock)
	tests := []struct {
		others int
		want   time.Duration
	}{{0, time.Second}, {20, 2 * time.Second}, {60, 4 * time.Second}, {5000, time.Minute}}
	for _, tc := range tests {
		for i := len(d.of); i < tc.others; i++ {
			d.postpone(types.UID(fmt.Sprint(i)), nil)
		}
		if got := d.postpone("one", nil); got != tc.want {
			t.Errorf("with %d others: wait %s, want %s", tc.others, got, tc.want)
		}
		d.done("one")
	}
	d.postpone("one", nil)
	clock.SetTime(time.Unix(60, 0))
	if got := d.postpone("one", nil); got != 0 {
		t.Errorf("after a minute: wait %s, want none", got)
	}
	clock.SetTime(time.Unix(1000, 0)) // the others were deleted before they were written
	if got := d.postpone("two", nil); got != time.Second || len(d.of) != 1 {
		t.Errorf("long after them: wait %s with %d, want a second with one", got, len(d.of))
	}
}

func TestAWriteWaitsAsLongAsItWasOnceToWait(t *testing.T) {
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	d := NewStatusDebounce(time.Second, clock)
	d.postpone("one", nil)
	for i := range 40 {
		d.postpone(types.UID(fmt.Sprint(i)), nil)
	}
	steps := []struct {
		at   int64
		rest bool // of the others
		want time.Duration
	}{{at: 1, want: 2 * time.Second}, {at: 2, rest: true, want: time.Second}, {at: 3}}
	for _, step := range steps {
		clock.SetTime(time.Unix(step.at, 0))
		if step.rest {
			for i := range 40 {
				d.done(types.UID(fmt.Sprint(i)))
			}
		}
		if got := d.postpone("one", nil); got != step.want {
			t.Errorf("after %d s: wait %s more, want %s", step.at, got, step.want)
		}
	}
}

// TestTwoWritersDelaySeparately: a write of one of them does not restart the delay
// of the other.
func TestTwoWritersDelaySeparately(t *testing.T) {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
	c, writes := counting(t, m)
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	one := NewStatusDebounce(time.Second, clock)
	other := one.Sibling()
	reconcile := func(d *StatusDebounce, phase string) error {
		live := &clusterv1.Machine{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), live); err != nil {
			t.Fatal(err)
		}
		commit := Snapshot(c, live, Debounced(d))
		live.Status.Phase = phase
		return commit(t.Context())
	}
	if err := errors.Join(reconcile(one, "Pending"), reconcile(other, "Running")); *writes != 0 {
		t.Fatalf("%d writes, error %v; want both delayed", *writes, err)
	}
	clock.SetTime(time.Unix(1, 0))
	if err := errors.Join(reconcile(one, "Pending"), reconcile(other, "Running")); err != nil || *writes != 2 {
		t.Errorf("when they are due: error %v, %d writes; want two", err, *writes)
	}
	var none *StatusDebounce
	if none.Sibling() != nil {
		t.Error("who puts nothing off has another that does")
	}
}

// TestAnotherWriterTakesAlongWhatIsCarried: one request writes what both report,
// and the one whose part it was has nothing left to write.
func TestAnotherWriterTakesAlongWhatIsCarried(t *testing.T) {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u"}}
	c, writes := counting(t, m)
	clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
	one := NewStatusDebounce(time.Second, clock)
	other := one.Sibling()
	carry := func(from, to client.Object) {
		to.(*clusterv1.Machine).Status.Phase = from.(*clusterv1.Machine).Status.Phase
	}
	reconcile := func(change func(*clusterv1.Machine), opts ...Option) error {
		live := &clusterv1.Machine{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), live); err != nil {
			t.Fatal(err)
		}
		commit := Snapshot(c, live, opts...)
		change(live)
		return commit(t.Context())
	}
	phase := func(is string) error {
		return reconcile(func(m *clusterv1.Machine) { m.Status.Phase = is }, Debounced(other), Carried(carry))
	}
	node := func(name string) error {
		return reconcile(func(m *clusterv1.Machine) { m.Status.NodeRef.Name = name }, Debounced(one))
	}
	look := func(wantPhase string, wantWrites int) {
		t.Helper()
		live := &clusterv1.Machine{}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(m), live); err != nil {
			t.Fatal(err)
		}
		if live.Status.Phase != wantPhase || *writes != wantWrites {
			t.Errorf("phase %q after %d writes, want %q after %d", live.Status.Phase, *writes, wantPhase, wantWrites)
		}
	}
	for _, is := range []string{"Pending", "Running"} { // the last of the delayed writes counts
		if _, later := errors.AsType[*PostponedError](phase(is)); !later {
			t.Fatal("it is not delayed")
		}
	}
	if err := node("n"); err != nil {
		t.Fatal(err)
	}
	look("Running", 1)
	clock.SetTime(time.Unix(1, 0))
	if err := phase("Running"); err != nil {
		t.Fatal(err)
	}
	look("Running", 1)
	// What was written is no longer included in another write.
	if err := reconcile(func(m *clusterv1.Machine) { m.Status.Phase = "Failed" }); err != nil {
		t.Fatal(err)
	}
	if err := node("other"); err != nil {
		t.Fatal(err)
	}
	look("Failed", 3)
}
