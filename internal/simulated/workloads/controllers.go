// SPDX-License-Identifier: Apache-2.0

// Package workloads simulates what runs next to the API server of a simulated
// cluster: the scheduler, the controllers of a control plane and the kubelets of
// its nodes, as far as Pods and their controllers are concerned.
//
// A write to the cluster's objects starts one worker, which continues until nothing
// is left to do and ends; one timer exists while something is due. A cluster in
// steady state has neither. Package podplan makes the decisions.
package workloads

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/podplan"
)

// Options is what Controllers need. Store, Clock and Log are required.
type Options struct {
	Store *objects.Store
	Clock clock.WithDelayedExecution
	Log   logr.Logger
	// CA is the cluster's. Without it no namespace gets it in a ConfigMap, and
	// without its key nothing is signed.
	CA certs.Pair
	// Inline means that the goroutine that writes does all the work before its
	// write returns. The caller calls Reconcile when time has advanced, instead of
	// waiting for the clock.
	Inline bool
}

// Controllers are those of one cluster.
type Controllers struct {
	store  *objects.Store
	clock  clock.WithDelayedExecution
	log    logr.Logger
	ctx    context.Context // with log
	ca     certs.Pair
	inline bool
	worker sync.WaitGroup

	mu      sync.Mutex // guards all below
	changed map[store.Key]bool
	due     map[store.Key]time.Time // when to reconcile objects though they will not have changed
	timer   clock.Timer
	works   bool
	closed  bool

	// Of the worker alone.
	view    view
	todo    map[store.Key]bool
	leftOut map[store.Key]uint64 // versions that caused a panic
}

// reconcilers reconcile one object each, which may be deleted.
var reconcilers = map[schema.GroupResource]func(*Controllers, store.Key) (again time.Time, err error){
	pods:            (*Controllers).pod,
	nodes:           (*Controllers).node,
	deployments:     (*Controllers).deployment,
	replicaSets:     (*Controllers).replicaSet,
	daemonSets:      (*Controllers).daemonSet,
	services:        (*Controllers).service,
	budgets:         (*Controllers).budget,
	namespaces:      (*Controllers).namespace,
	clusterRoles:    (*Controllers).clusterRole,
	signingRequests: (*Controllers).signingRequest,
}

var (
	pods        = schema.GroupResource{Resource: "pods"}
	services    = schema.GroupResource{Resource: "services"}
	nodes       = schema.GroupResource{Resource: "nodes"}
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
	replicaSets = schema.GroupResource{Group: "apps", Resource: "replicasets"}
	daemonSets  = schema.GroupResource{Group: "apps", Resource: "daemonsets"}
)

// Start starts controllers for the objects of a store, first for the existing ones.
func Start(o Options) *Controllers {
	c := &Controllers{
		store: o.Store, clock: o.Clock, log: o.Log, ctx: logr.NewContext(context.Background(), o.Log), ca: o.CA, inline: o.Inline,
		changed: map[store.Key]bool{}, due: map[store.Key]time.Time{}, todo: map[store.Key]bool{}, view: newView(), leftOut: map[store.Key]uint64{},
	}
	o.Store.Entries().Observe(c.observe)
	c.mu.Lock()
	for resource := range reconcilers {
		entries, _ := o.Store.Entries().List(resource, "")
		for _, e := range entries {
			if !e.Born && (resource != clusterRoles || len(e.Labels) > 0) { // no other role is gathered
				c.changed[e.Key] = true
			}
		}
	}
	c.mu.Unlock()
	c.Reconcile()
	return c
}

// Close ends them. They write nothing after it.
func (c *Controllers) Close() {
	c.store.Entries().Observe(nil)
	c.mu.Lock()
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Unlock()
	c.worker.Wait()
}

func (c *Controllers) observe(key store.Key) {
	if namespace, is := defaultOf(key); is {
		key = namespace
	}
	if reconcilers[key.Resource] == nil {
		return
	}
	c.mu.Lock()
	c.changed[key] = true
	c.mu.Unlock()
	c.Reconcile()
}

// Reconcile reconciles what has changed or become due.
func (c *Controllers) Reconcile() {
	if c.starts() {
		c.work()
	}
}

// starts starts the worker if there is something to do; it returns true if the
// caller must do the work.
func (c *Controllers) starts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.works || c.closed || len(c.changed)+len(c.todo) == 0 && !c.isDue(c.clock.Now()) {
		return false
	}
	c.works = true
	if !c.inline {
		c.worker.Go(recovery.Func(c.ctx, c.work))
	}
	return c.inline
}

func (c *Controllers) isDue(now time.Time) bool {
	for _, at := range c.due {
		if !now.Before(at) {
			return true
		}
	}
	return false
}

// work continues until nothing is left to do. If it panics itself, the next change
// starts it again, or a timer after a while.
func (c *Controllers) work() {
	err := recovery.Call(c.ctx, func() error {
		for c.next() {
			for _, key := range inOrder(c.todo) {
				if c.todo[key] {
					c.reconcile(key)
					c.takeAll(c.takeChanged())
				}
			}
		}
		return nil
	})
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.works = false
	if !c.closed {
		c.setTimer(retry)
	}
}

// next takes what changed or became due. It is false if there is nothing: the worker
// ends then.
func (c *Controllers) next() bool {
	c.takeAll(c.takeChanged())
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	for key, at := range c.due {
		if !now.Before(at) {
			delete(c.due, key)
			c.todo[key] = true
		}
	}
	if c.closed || len(c.changed)+len(c.todo) == 0 {
		c.works = false
		c.sleep(now)
		return false
	}
	return true
}

func (c *Controllers) takeChanged() map[store.Key]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.changed
	c.changed = map[store.Key]bool{}
	return changed
}

// setTimer sets the timer. Reconcile gets a separate goroutine: a clock may call this
// synchronously.
func (c *Controllers) setTimer(d time.Duration) {
	c.timer = c.clock.AfterFunc(d, recovery.Func(c.ctx, func() { go recovery.Func(c.ctx, c.Reconcile)() }))
}

// sleep sets the timer to when something is due next; the lock must be held.
func (c *Controllers) sleep(now time.Time) {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	var next time.Time
	for _, at := range c.due {
		next = podplan.Sooner(next, at)
	}
	if !next.IsZero() && !c.closed {
		c.setTimer(next.Sub(now))
	}
}

// inOrder sorts the objects to reconcile: owners after what they own, and by name,
// so that the same happens each time.
func inOrder(todo map[store.Key]bool) []store.Key {
	return slices.SortedFunc(maps.Keys(todo), func(a, b store.Key) int {
		return cmp.Or(cmp.Compare(rank[a.Resource], rank[b.Resource]), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// rank orders Nodes before Pods, and Pods before the objects that count them, so
// that counts are written once.
var rank = map[schema.GroupResource]int{nodes: 1, pods: 2, replicaSets: 3, daemonSets: 3, deployments: 4, services: 5, budgets: 5}

func (c *Controllers) takeAll(changed map[store.Key]bool) {
	for key := range changed {
		_ = c.handle(key, func() error { // a panic is reported; there are no other errors
			c.take(key)
			return nil
		})
	}
}

func (c *Controllers) reconcile(key store.Key) {
	delete(c.todo, key)
	var again time.Time
	err := c.handle(key, func() (err error) {
		again, err = reconcilers[key.Resource](c, key)
		return err
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		c.log.Error(err, "Looking after an object of a simulated cluster", "resource", key.Resource.String(), "namespace", key.Namespace, "name", key.Name)
		again = podplan.Sooner(again, c.clock.Now().Add(retry))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.due, key)
	if now := c.clock.Now(); !again.IsZero() && !again.After(now) { // or the worker would never end
		again = now.Add(retry)
	}
	if !again.IsZero() {
		c.due[key] = again
	}
}

// retry is the delay before retrying what could not be done, because of a full disk
// or an object that a user wrote and that is invalid.
const retry = time.Minute
