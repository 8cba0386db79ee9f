// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"
	"time"

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
