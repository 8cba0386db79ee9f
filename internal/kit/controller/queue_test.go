// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

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
