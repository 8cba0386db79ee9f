// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

var request = reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: "set"}}

// lagging is a cache that can be behind the API server.
type lagging struct {
	client.Reader
	behind bool
	old    client.Reader
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if l.behind {
		return l.old.Get(ctx, key, obj, opts...)
	}
	return l.Reader.Get(ctx, key, obj, opts...)
}

func TestAReconcileWaitsUntilTheCacheShowsWhatTheLastOneWrote(t *testing.T) {
	machine := func() *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	}
	finalized := machine()
	finalized.Finalizers = []string{"a.b/c"}
	tests := map[string]struct {
		before *clusterv1.Machine // nil: not there
		write  func(context.Context, client.Client) error
		waits  bool
	}{
		"a create": {nil, func(ctx context.Context, c client.Client) error { return c.Create(ctx, machine()) }, true},
		"a patch": {machine(), func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, machine(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"providerID":"x"}}`)))
		}, true},
		"applies, the first of which makes the object": {nil, func(ctx context.Context, c client.Client) error {
			for _, id := range []string{"x", "y"} { // the second, since the fake server gives a first one no resourceVersion
				body := fmt.Sprintf(`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":{"namespace":"ns","name":"m"},"spec":{"providerID":%q}}`, id)
				if err := c.Patch(ctx, machine(), client.RawPatch("application/apply-patch+yaml", []byte(body)), client.FieldOwner("a")); err != nil {
					return err
				}
			}
			return nil
		}, true},
		"a status patch": {machine(), func(ctx context.Context, c client.Client) error {
			return c.Status().Patch(ctx, machine(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`)))
		}, true},
		"a delete that a finalizer holds": {finalized, func(ctx context.Context, c client.Client) error { return c.Delete(ctx, machine()) }, true},
		"a delete":                        {machine(), func(ctx context.Context, c client.Client) error { return c.Delete(ctx, machine()) }, true},
		"a Secret is not tracked": {nil, func(ctx context.Context, c client.Client) error {
			return c.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}})
		}, false},
		"a failed write": {nil, func(ctx context.Context, c client.Client) error {
			if err := c.Delete(ctx, machine()); !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete: %w, want NotFound", err)
			}
			return nil
		}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			build := func() client.Client {
				b := fake.NewClientBuilder().WithScheme(scheme(t)).WithStatusSubresource(machine())
				if tc.before != nil {
					b = b.WithObjects(tc.before.DeepCopy())
				}
				return b.Build()
			}
			server, old := build(), build()
			cache := &lagging{Reader: server, old: old, behind: true}
			clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
			p := newPending(cache, server, clock)
			if err := tc.write(p.recording(t.Context(), request), Recording(server)); err != nil {
				t.Fatal(err)
			}
			for _, later := range []time.Duration{0, time.Second, time.Hour} {
				clock.SetTime(time.Unix(0, 0).Add(later))
				if after := p.wait(t.Context(), request); (after > 0) != tc.waits {
					t.Errorf("%s later, with the cache behind: wait %s, want to wait: %v", later, after, tc.waits)
				}
			}
			cache.behind = false
			if after := p.wait(t.Context(), request); after != 0 {
				t.Errorf("wait %s although the cache has caught up", after)
			}
		})
	}
}

// TestCoreKindsAreReadByTheirTypes, with any type that they were written as: no
// other cache of them is filled.
func TestCoreKindsAreReadByTheirTypes(t *testing.T) {
	for kind, want := range map[schema.GroupVersionKind]string{
		clusterv1.GroupVersion().WithKind("Machine"):       "*v1beta2.Machine",
		{Group: "x.io", Version: "v1", Kind: "NetCluster"}: "*unstructured.Unstructured",
	} {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		if got := empty(scheme(t), u); fmt.Sprintf("%T", got) != want {
			t.Errorf("%s is read as %T, want %s", kind, got, want)
		}
	}
}

func TestNothingIsWaitedForThatHasGoneAgain(t *testing.T) {
	machine := func() *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m"}}
	}
	tests := map[string]struct {
		before *clusterv1.Machine
		write  func(context.Context, client.Client) error
		after  func(context.Context, client.Client) error // what another client does
	}{
		"made, and deleted before the cache showed it": {
			nil,
			func(ctx context.Context, c client.Client) error { return c.Create(ctx, machine()) },
			func(ctx context.Context, c client.Client) error { return c.Delete(ctx, machine()) },
		},
		"deleted, and created again": {
			machine(),
			func(ctx context.Context, c client.Client) error { return c.Delete(ctx, machine()) },
			func(ctx context.Context, c client.Client) error { return c.Create(ctx, machine()) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			build := func() client.Client {
				b := fake.NewClientBuilder().WithScheme(scheme(t))
				if tc.before != nil {
					b = b.WithObjects(tc.before.DeepCopy())
				}
				return b.Build()
			}
			server := build()
			clock := testclock.NewFakePassiveClock(time.Unix(0, 0))
			p := newPending(build(), server, clock)
			if err := errors.Join(tc.write(p.recording(t.Context(), request), Recording(server)), tc.after(t.Context(), server)); err != nil {
				t.Fatal(err)
			}
			if p.wait(t.Context(), request) == 0 {
				t.Error("a stale cache is acted on at once")
			}
			clock.SetTime(time.Unix(0, 0).Add(liveReadAfter))
			if after := p.wait(t.Context(), request); after != 0 {
				t.Errorf("wait %s for what will never come", after)
			}
		})
	}
}

func TestOnlyConflicts(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m", errors.New("changed"))
	tests := map[string]struct {
		err  error
		want bool
	}{
		"a conflict":                            {conflict, true},
		"a wrapped conflict":                    {fmt.Errorf("patch status: %w", conflict), true},
		"conflicts joined":                      {errors.Join(conflict, fmt.Errorf("x: %w", conflict)), true},
		"a conflict next to a real error":       {errors.Join(conflict, errors.New("quota")), false},
		"an object that another client created": {apierrors.NewAlreadyExists(schema.GroupResource{}, "m"), false},
		"another error":                         {errors.New("quota"), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := OnlyConflicts(tc.err); got != tc.want {
				t.Errorf("OnlyConflicts = %v, want %v", got, tc.want)
			}
		})
	}
}

func scheme(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(s), corev1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAPostponedWriteBringsTheObjectBack(t *testing.T) {
	postponed := &patch.PostponedError{After: time.Second}
	quota := errors.New("quota")
	tests := map[string]struct {
		err       error
		wantAfter time.Duration
		wantErr   error
	}{
		"alone":                      {postponed, time.Second, nil},
		"wrapped":                    {fmt.Errorf("commit: %w", postponed), time.Second, nil},
		"the first of several":       {errors.Join(&patch.PostponedError{After: time.Minute}, nil, postponed), time.Second, nil},
		"next to a real error":       {errors.Join(postponed, quota), time.Second, quota},
		"with one, wrapped together": {fmt.Errorf("commit: %w", errors.Join(postponed, quota)), time.Second, quota},
		"none":                       {quota, 0, quota},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			after, err := takePostponed(tc.err)
			if after != tc.wantAfter || !errors.Is(err, tc.wantErr) || (err == nil) != (tc.wantErr == nil) {
				t.Errorf("putOff = %s, %v; want %s, %v", after, err, tc.wantAfter, tc.wantErr)
			}
		})
	}
}

func TestWhatFailsAsTheManagerEndsIsNoError(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancelLate := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancelLate()
	quota := errors.New("quota")
	for name, tc := range map[string]struct {
		ctx  context.Context
		want error
	}{
		"the manager ends":              {ended, nil},
		"the reconcile's time has come": {late, quota},
		"nothing ends":                  {t.Context(), quota},
	} {
		w := &runner[*clusterv1.MachineSet]{retries: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Second)}
		if _, err := w.settle(tc.ctx, request, reconcile.Result{}, quota); !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}

func TestAFailureKeepsItsTimerAndIsGivenUpOnlyIfNothingCanGoBetter(t *testing.T) {
	t.Parallel()
	quota, refused := errors.New("quota"), reconcile.TerminalError(errors.New("spec"))
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "m", errors.New("changed"))
	tests := map[string]struct {
		err      error
		after    time.Duration // the requested requeue
		before   int           // failures before this one
		terminal bool
		want     time.Duration // until the next reconcile, where there is one
	}{
		"a failure":                             {err: quota, want: firstRetry},
		"the third in a row":                    {err: quota, before: 2, want: 4 * firstRetry},
		"with a timer that comes first":         {err: quota, before: 20, after: time.Second, want: time.Second},
		"with a timer that comes last":          {err: quota, after: time.Hour, want: firstRetry},
		"what a user must correct":              {err: refused, terminal: true},
		"what a user must correct, wrapped":     {err: fmt.Errorf("make: %w", refused), terminal: true},
		"two errors that a user must correct":   {err: errors.Join(refused, refused), terminal: true},
		"what a user must correct, and a timer": {err: refused, before: 2, after: time.Hour, want: time.Hour},
		"next to what a retry may correct":      {err: errors.Join(refused, quota), want: firstRetry},
		"next to a write that was too late":     {err: errors.Join(refused, conflict), want: firstRetry},
		"next to a status that is written soon": {err: errors.Join(refused, &patch.PostponedError{After: time.Second}), want: time.Second},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &runner[*clusterv1.MachineSet]{backoff: newBackoff()}
			for range tc.before {
				w.backoff.When(request)
			}
			res, err := w.settle(t.Context(), request, reconcile.Result{RequeueAfter: tc.after}, tc.err)
			if err == nil || res.RequeueAfter != 0 || errors.Is(err, reconcile.TerminalError(nil)) != tc.terminal {
				t.Fatalf("result %v, error %v; want an error, terminal: %v", res, err, tc.terminal)
			}
			if tc.terminal {
				return // no retry is requested
			}
			if got := w.backoff.When(request); got != tc.want {
				t.Errorf("retried after %s, want %s", got, tc.want)
			}
			if got := w.backoff.When(request); got == time.Hour {
				t.Error("the timer holds for the failure after it too")
			}
		})
	}
}

func TestWhatAFeatureThatIsOffHasMadeIsOnlyTakenAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		finishing, deleted bool
		want               int
	}{
		"there":                           {want: 1},
		"there, and the feature off":      {finishing: true},
		"deleted":                         {deleted: true, want: 1},
		"deleted, and the feature is off": {finishing: true, deleted: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Finalizers: []string{"a.b/c"}}}
			if tc.deleted {
				node.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			}
			c, r := fake.NewClientBuilder().WithObjects(node).Build(), &scripted{}
			w := newRunner("node", &corev1.Node{}, r, newPending(c, c, testclock.NewFakePassiveClock(time.Unix(2, 0))))
			w.finishing = tc.finishing
			if _, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)}); err != nil || r.ran != tc.want {
				t.Errorf("reconciled %d times, error %v, want %d", r.ran, err, tc.want)
			}
		})
	}
}
