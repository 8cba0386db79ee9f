// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// gaugePeriod is how often a queue checks whether a reconcile takes long, for two
// gauges that monitoring reads every 15 s or more rarely. The default is twice a
// second, and sixteen queues would cost a process in steady state for it.
const gaugePeriod = 15 * time.Second

// newQueue returns a function that creates the queues of controllers, with a clock.
func newQueue(c clock.WithTicker) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, Clock: slowTickers{c}})
	}
}

// slowTickers is a clock whose tickers tick every gaugePeriod at most. Delayed
// additions to a queue use separate timers.
type slowTickers struct{ clock.WithTicker }

// NewTicker implements clock.WithTicker.
func (c slowTickers) NewTicker(d time.Duration) clock.Ticker {
	return c.WithTicker.NewTicker(max(d, gaugePeriod))
}
