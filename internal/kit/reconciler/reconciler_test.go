// SPDX-License-Identifier: Apache-2.0

package reconciler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

const mine = "tests.capstan.dev/mine"

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// state is the state of a test's reconcile, and a log of what it did.
type state struct {
	object  *clusterv1.Machine
	cluster *clusterv1.Cluster
	quiet   bool
	did     []string
}

// with creates an object that has its finalizer.
func with(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Finalizers: []string{mine}}}
	for _, c := range change {
		c(m)
	}
	return m
}

func bare(m *clusterv1.Machine)  { m.Finalizers = nil }
func going(m *clusterv1.Machine) { m.DeletionTimestamp = new(metav1.NewTime(now)) }
func paused(m *clusterv1.Machine) {
	m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
}

// written describes which of the writes are stored.
func written(m *clusterv1.Machine) string {
	text := "write"
	for _, f := range m.Finalizers {
		text += " " + f
	}
	if conditions.IsTrue(m, clusterv1.PausedCondition) {
		text += " paused"
	}
	return text
}

func TestAReconcileGoesThroughItsStagesInOrder(t *testing.T) {
	t.Parallel()
	broken := errors.New("quota")
	tests := map[string]struct {
		object *clusterv1.Machine
		flow   func(*Flow[*clusterv1.Machine, state])
		stray  bool // its Cluster is not there
		quiet  bool
		want   []string
		after  time.Duration
		err    string
	}{
		"one that lives": {object: with(), want: []string{"live", "report", "write " + mine}},
		"a new one gets its finalizer before anything happens": {
			object: with(bare), want: []string{"write " + mine},
		},
		"one under a former finalizer gets the new name": {
			object: with(func(m *clusterv1.Machine) { m.Finalizers = []string{"former"} }),
			flow:   func(f *Flow[*clusterv1.Machine, state]) { f.Former = []string{"former"} },
			want:   []string{"write " + mine},
		},
		"a paused object is reported, and has its finalizer anyway": {
			object: with(bare, paused), want: []string{"write " + mine + " paused"},
		},
		"another condition may report a pause": {
			object: with(paused),
			flow: func(f *Flow[*clusterv1.Machine, state]) {
				f.Paused = func(s *state) { s.did = append(s.did, "paused") }
			},
			want: []string{"paused", "write " + mine},
		},
		"what runs keeps running while it is paused": {
			object: with(paused),
			flow: func(f *Flow[*clusterv1.Machine, state]) {
				f.WhilePaused = InOrder(Do("keep", func(_ context.Context, s *state) (Next, error) {
					s.did = append(s.did, "kept")
					return Continue(), broken
				}))
			},
			want: []string{"kept", "write " + mine + " paused"}, err: "keep: quota",
		},
		"one whose dependents a client keeps is only released": {
			object: with(going, func(m *clusterv1.Machine) { m.Finalizers = append(m.Finalizers, metav1.FinalizerOrphanDependents) }),
			flow:   func(f *Flow[*clusterv1.Machine, state]) { f.Orphans = true }, want: []string{"write orphan"},
		},
		"one that has more than dependents is ended anyway": {
			object: with(going, func(m *clusterv1.Machine) { m.Finalizers = append(m.Finalizers, metav1.FinalizerOrphanDependents) }),
			want:   []string{"end", "report", "write " + mine + " orphan"},
		},
		"one that is going while paused stays as it is":            {object: with(going, paused), want: []string{"write " + mine + " paused"}},
		"one that is going gets no finalizer, and is ended":        {object: with(bare, going), want: []string{"end", "report", "write"}},
		"one without its Cluster is reported, at once":             {object: with(bare), stray: true, want: []string{"report", "write " + mine}},
		"one without its Cluster is ended nevertheless":            {object: with(going), stray: true, want: []string{"end", "report", "write " + mine}},
		"one whose needs are about to come is not even written":    {object: with(bare), stray: true, quiet: true, want: nil},
		"one that needs no finalizer is acted upon from the start": {object: with(bare), flow: func(f *Flow[*clusterv1.Machine, state]) { f.Finalizer = "" }, want: []string{"live", "report", "write"}},
		"what has to be prepared is stored first": {
			object: with(),
			flow:   func(f *Flow[*clusterv1.Machine, state]) { f.Prepare = func(*state) bool { return true } },
			want:   []string{"write " + mine},
		},
		"a failure is reported, written in addition, and returned": {
			object: with(),
			flow:   func(f *Flow[*clusterv1.Machine, state]) { f.Normal = failing(broken, false) },
			want:   []string{"report quota", "write " + mine}, err: "act: quota",
		},
		"the report for clients of v1beta1 is last": {
			object: with(), want: []string{"live", "report", "deprecated", "write " + mine},
			flow: func(f *Flow[*clusterv1.Machine, state]) { f.Deprecated = If(true, deprecated) },
		},
		"the report for clients of v1beta1 is empty if not needed": {
			object: with(), want: []string{"live", "report", "write " + mine},
			flow: func(f *Flow[*clusterv1.Machine, state]) { f.Deprecated = If(false, deprecated) },
		},
		"what becomes quiet is not reported": {
			object: with(),
			flow:   func(f *Flow[*clusterv1.Machine, state]) { f.Normal = failing(nil, true) },
			want:   []string{"write " + mine},
		},
		"what becomes quiet is reported if it fails": {
			object: with(),
			flow:   func(f *Flow[*clusterv1.Machine, state]) { f.Normal = failing(broken, true) },
			want:   []string{"report quota", "write " + mine}, err: "act: quota",
		},
		"the deadline comes before a later timer, after a failure too": {
			object: with(),
			flow: func(f *Flow[*clusterv1.Machine, state]) {
				f.Normal = InOrder(Do("act", func(context.Context, *state) (Next, error) { return RequeueAfter(time.Hour), broken }))
				f.Deadline = func(*state) time.Time { return now.Add(time.Second) }
			},
			want: []string{"report quota", "write " + mine}, after: time.Second, err: "act: quota",
		},
		"a deadline that has passed is due at once": {
			object: with(bare), quiet: true,
			flow: func(f *Flow[*clusterv1.Machine, state]) {
				f.Deadline = func(*state) time.Time { return now.Add(-time.Hour) }
			},
			after: time.Millisecond,
		},
		"one about which nothing is known yet": {
			object: with(bare),
			flow: func(f *Flow[*clusterv1.Machine, state]) {
				f.Observe = func(context.Context, *clusterv1.Machine) (*state, error) { return nil, nil }
			},
		},
		"one that cannot be observed": {
			object: with(bare),
			flow: func(f *Flow[*clusterv1.Machine, state]) {
				f.Observe = func(context.Context, *clusterv1.Machine) (*state, error) { return nil, broken }
			},
			err: "quota",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{object: tc.object, quiet: tc.quiet}
			if !tc.stray {
				s.cluster = &clusterv1.Cluster{}
			}
			f := flow(s)
			if tc.flow != nil {
				tc.flow(&f)
			}
			res, err := f.Reconcile(t.Context(), tc.object)
			if diff := cmp.Diff(tc.want, s.did); diff != "" {
				t.Errorf("did (-want +got):\n%s", diff)
			}
			if text := message(err); text != tc.err || (res != reconcile.Result{RequeueAfter: tc.after}) {
				t.Errorf("got %v, error %q; want %s, %q", res, text, tc.after, tc.err)
			}
		})
	}
}

func TestFailedWriteIsJoinedToFailure(t *testing.T) {
	t.Parallel()
	f := flow(&state{object: with(), cluster: &clusterv1.Cluster{}})
	f.Normal = failing(errors.New("quota"), false)
	f.Snapshot = func(*state) patch.Commit { return func(context.Context) error { return errors.New("conflict") } }
	if _, err := f.Reconcile(t.Context(), with()); message(err) != "act: quota\nconflict" {
		t.Errorf("error %v", err)
	}
}

// flow only records what it does.
func flow(s *state) Flow[*clusterv1.Machine, state] {
	note := func(what string) Steps[*state] {
		return func(_ context.Context, s *state) (reconcile.Result, error) {
			s.did = append(s.did, what)
			return reconcile.Result{}, nil
		}
	}
	return Flow[*clusterv1.Machine, state]{
		Clock:   testclock.NewFakePassiveClock(now),
		Observe: func(context.Context, *clusterv1.Machine) (*state, error) { return s, nil },
		Snapshot: func(s *state) patch.Commit {
			return func(context.Context) error { s.did = append(s.did, written(s.object)); return nil }
		},
		Finalizer: mine,
		Cluster:   func(s *state) *clusterv1.Cluster { return s.cluster },
		Suppress:  func(s *state) bool { return s.quiet },
		Normal:    note("live"),
		Delete:    note("end"),
		Report: func(s *state, failed error) {
			what := "report"
			if failed != nil {
				what += " " + errors.Unwrap(failed).Error()
			}
			s.did = append(s.did, what)
		},
	}
}

func deprecated(s *state, _ error) { s.did = append(s.did, "deprecated") }

// failing is a step that ends with err, and may become quiet.
func failing(err error, quiet bool) Steps[*state] {
	return InOrder(Do("act", func(_ context.Context, s *state) (Next, error) {
		s.quiet = quiet
		return Continue(), err
	}))
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
