// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestAPaceJoinsWhatComesCloseTogether: only the first of many is reconciled
// immediately.
func TestAPaceJoinsWhatComesCloseTogether(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	store, r, clock := fake.NewClientBuilder().WithObjects(node).Build(), &scripted{}, testclock.NewFakePassiveClock(time.Unix(2, 0))
	w := newRunner("node", &corev1.Node{}, r, newPending(store, store, clock))
	w.pace.every = time.Second
	for _, step := range []struct {
		passes, after time.Duration
		other         bool
		ran           int
	}{
		{ran: 1},
		{passes: 0, after: time.Second, ran: 1},
		{passes: 300 * time.Millisecond, after: 700 * time.Millisecond, ran: 1},
		{other: true, ran: 1}, // which is not there
		{passes: 700 * time.Millisecond, ran: 2},
		{passes: 0, after: time.Second, ran: 2},
		{passes: time.Hour, ran: 3},
	} {
		clock.SetTime(clock.Now().Add(step.passes))
		req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)}
		if step.other {
			req.Name = "other"
		}
		res, err := w.Reconcile(t.Context(), req)
		if err != nil || res.RequeueAfter != step.after || r.ran != step.ran {
			t.Fatalf("%+v: reconciled %d times, again after %s, error %v", step, r.ran, res.RequeueAfter, err)
		}
	}
	if err := store.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	clock.SetTime(clock.Now().Add(time.Hour))
	if _, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)}); err != nil || len(w.pace.began) > 0 {
		t.Errorf("error %v; of an object that has gone %v is known", err, w.pace.began)
	}
}

// TestDelayedRetryRemainsFailure: its backoff still doubles.
func TestDelayedRetryRemainsFailure(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	store, clock := fake.NewClientBuilder().WithObjects(node).Build(), testclock.NewFakePassiveClock(time.Unix(2, 0))
	w := newRunner("node", &corev1.Node{}, &scripted{err: errors.New("quota")}, newPending(store, store, clock))
	w.pace.every = 500 * time.Millisecond
	req := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)}
	for _, want := range []time.Duration{20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond} {
		if _, err := w.Reconcile(t.Context(), req); err == nil {
			t.Fatal("no failure")
		}
		if got := w.backoff.When(req); got != want {
			t.Errorf("retried after %s, want %s", got, want)
		}
		clock.SetTime(clock.Now().Add(want))
		res, err := w.Reconcile(t.Context(), req)
		if err != nil || res.RequeueAfter != w.pace.every-want {
			t.Fatalf("delayed for %s, error %v", res.RequeueAfter, err)
		}
		w.backoff.Forget(req) // as the queue does
		clock.SetTime(clock.Now().Add(res.RequeueAfter))
	}
	w.backoff.Forget(req) // it went well
	if got := w.backoff.When(req); got != 20*time.Millisecond {
		t.Errorf("after a success, retried after %s", got)
	}
}

// tickers are the periods of the requested tickers.
type tickers struct {
	clock.WithTicker
	periods chan time.Duration
}

func (c tickers) NewTicker(d time.Duration) clock.Ticker {
	c.periods <- d
	return c.WithTicker.NewTicker(d)
}

func TestAQueueTicksSeldomAndIsOnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := tickers{clock.RealClock{}, make(chan time.Duration, 10)}
		q := newQueue(c)("seldom", workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer q.ShutDown()
		req, began := reconcile.Request{NamespacedName: client.ObjectKey{Name: "later"}}, time.Now()
		q.AddAfter(req, 3*time.Second)
		if got, _ := q.Get(); got != req || time.Since(began) != 3*time.Second {
			t.Errorf("%s after %s, want %s after 3s", got, time.Since(began), req)
		}
		q.Done(req)
		synctest.Wait()
		if n := len(c.periods); n != 2 { // for gauges, and for delays in case a timer is lost
			t.Errorf("%d tickers, want 2", n)
		}
		for range len(c.periods) {
			if d := <-c.periods; d < 15*time.Second {
				t.Errorf("a ticker of %s, want 15s or more", d)
			}
		}
	})
}
