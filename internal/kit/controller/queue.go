// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// gaugePeriod is how often a queue looks whether a reconcile takes long, for two
// gauges that monitoring reads every 15 s or more rarely. By itself a queue does
// so twice a second, and sixteen of them wake a process at rest for it.
const gaugePeriod = 15 * time.Second

// newQueue makes the queues of controllers that go by a clock.
func newQueue(c clock.WithTicker) func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, Clock: slowTickers{c}})
	}
}

// slowTickers is a clock whose tickers tick every gaugePeriod at most. What a
// queue adds later has a timer of its own.
type slowTickers struct{ clock.WithTicker }

// NewTicker implements clock.WithTicker.
func (c slowTickers) NewTicker(d time.Duration) clock.Ticker {
	return c.WithTicker.NewTicker(max(d, gaugePeriod))
}
