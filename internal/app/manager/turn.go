// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"
)

// turnPeriod is how often the lock is renewed while it is held: a renewal is only a
// function call, and nothing waits for it.
const turnPeriod = time.Hour

// waitFor makes controllers wait for Leads, with caches and queues filled
// meanwhile.
func (o Options) waitFor(opts *ctrlmanager.Options) {
	lease, renew, retry := 3*turnPeriod, 2*turnPeriod, turnPeriod
	opts.LeaderElection, opts.LeaderElectionReleaseOnCancel = true, false
	opts.LeaderElectionResourceLockInterface = &turn{leads: o.Leads}
	opts.LeaseDuration, opts.RenewDeadline, opts.RetryPeriod = &lease, &renew, &retry
	opts.Controller.EnableWarmup = new(true)
}

// turn is a lock that its only holder acquires once leads is closed.
type turn struct {
	leads <-chan struct{}

	mu   sync.Mutex // guards held
	held *resourcelock.LeaderElectionRecord
}

// Get implements resourcelock.Interface. It waits for leads.
func (t *turn) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	select {
	case <-t.leads:
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{}, "turn")
	}
	return t.held, nil, nil
}

// Create implements resourcelock.Interface.
func (t *turn) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return t.Update(ctx, r)
}

// Update implements resourcelock.Interface.
func (t *turn) Update(_ context.Context, r resourcelock.LeaderElectionRecord) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held = &r
	return nil
}

// RecordEvent implements resourcelock.Interface.
func (t *turn) RecordEvent(string) {}

// Identity implements resourcelock.Interface.
func (t *turn) Identity() string { return "this manager" }

// Describe implements resourcelock.Interface.
func (t *turn) Describe() string { return "its turn" }
