// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// pace keeps the reconciles of one object apart. The zero value does not.
type pace struct {
	every time.Duration

	mu    sync.Mutex // guards began
	began map[reconcile.Request]time.Time
}

// wait returns how long to put a reconcile off.
func (p *pace) wait(req reconcile.Request, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	began, ok := p.began[req]
	if !ok {
		return 0
	}
	return began.Add(p.every).Sub(now)
}

// begin records the start of a reconcile.
func (p *pace) begin(req reconcile.Request, now time.Time) {
	if p.every == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.began == nil {
		p.began = map[reconcile.Request]time.Time{}
	}
	p.began[req] = now
}

func (p *pace) forget(req reconcile.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.began, req)
}

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
