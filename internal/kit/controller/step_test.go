// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// scripted returns the given result, and counts the calls of Reconcile and Forget.
type scripted struct {
	res         reconcile.Result
	err         error
	ran, forgot int
}

func (s *scripted) Reconcile(context.Context, *corev1.Node) (reconcile.Result, error) {
	s.ran++
	return s.res, s.err
}

func (s *scripted) Forget(client.ObjectKey) { s.forgot++ }

func TestAStepSaysWhenToComeBackAsAQueueWould(t *testing.T) {
	t.Parallel()
	broken := errors.New("quota")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n", errors.New("changed"))
	tests := map[string]struct {
		after time.Duration
		err   error
		want  []time.Duration // of one step after the other
		fails bool
	}{
		"in steady state":                               {want: []time.Duration{0, 0}},
		"a timer":                                       {after: time.Hour, want: []time.Duration{time.Hour, time.Hour}},
		"a failure is retried, ever later":              {err: broken, want: []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}, fails: true},
		"a failure with a timer that comes first":       {after: time.Millisecond, err: broken, want: []time.Duration{time.Millisecond, time.Millisecond}, fails: true},
		"what only a change can correct is not retried": {err: reconcile.TerminalError(broken), want: []time.Duration{0}, fails: true},
		"a conflict is no failure":                      {err: conflict, want: []time.Duration{20 * time.Millisecond, 40 * time.Millisecond}},
		"a delayed status":                              {err: &patch.PostponedError{After: time.Second}, want: []time.Duration{time.Second}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			r := &scripted{res: reconcile.Result{RequeueAfter: tc.after}, err: tc.err}
			step := Step("node", &corev1.Node{}, r, fake.NewClientBuilder().WithObjects(node).Build(), testclock.NewFakePassiveClock(time.Now()))
			for i, want := range tc.want {
				if after, err := step(t.Context(), client.ObjectKeyFromObject(node)); after != want || (err != nil) != tc.fails {
					t.Errorf("step %d: again after %s, %v; want %s, failure %t", i+1, after, err, want, tc.fails)
				}
			}
		})
	}
}

func TestAStepForgetsWhatHasGone(t *testing.T) {
	t.Parallel()
	r := &scripted{err: errors.New("it is not there to be reconciled")}
	step := Step("node", &corev1.Node{}, r, fake.NewClientBuilder().Build(), testclock.NewFakePassiveClock(time.Now()))
	if after, err := step(t.Context(), client.ObjectKey{Name: "gone"}); after != 0 || err != nil || r.forgot != 1 {
		t.Errorf("again after %s, %v, forgot %d times", after, err, r.forgot)
	}
}
