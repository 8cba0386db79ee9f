// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// The memory limits of workload clusters, for all of them together and for each. A
// response in progress counts more than its bytes: it is held raw and decoded, and
// three bytes of JSON can become a struct of a KiB.
const (
	underWay     = 64 << 20  // by all responses that are being read
	smallAnswer  = 256 << 10 // of each response that does not count: usually any single object
	largestEvent = 4 << 20   // of one event of a watch
	largest      = 24 << 20  // of one other response

	kept        = 256 << 20 // by the objects of all views
	smallView   = 2 << 20   // of each view that does not count: some hundred Nodes
	largestView = 64 << 20  // of one view: the Nodes of the largest cluster that Kubernetes supports fit

	perByte   = 4       // the cost of a byte of a response
	perStruct = 1 << 10 // the cost of a struct in a response in addition to its bytes

	firstBackoff = 50 * time.Millisecond // before a second attempt to get a share
)

// Errors that mean that a cluster exceeds its limits.
var (
	errAnswerTooLarge = fmt.Errorf("its answer is too large: it would take more than %d MiB of memory", largest>>20)
	errEventTooLarge  = fmt.Errorf("an event of its watch is too large: it would take more than %d MiB of memory", largestEvent>>20)
	errViewTooLarge   = fmt.Errorf("its Nodes or control plane Pods are too many: they would take more than %d MiB of memory", largestView>>20)
	errTooSlow        = fmt.Errorf("its answer is large, and did not end within %s", callTimeout)

	errBusy = fmt.Errorf("the answers of all workload clusters together take %d MiB of memory at the moment, and this one would take too much of the rest", underWay>>20)
	errFull = fmt.Errorf("the Nodes and control plane Pods of all workload clusters together take too much of %d MiB of memory", kept>>20)
)

// excess returns the part of err that the cluster itself causes, so that an
// immediate retry would have the same result; nil if there is none.
func excess(err error) error {
	for _, e := range []error{errAnswerTooLarge, errEventTooLarge, errViewTooLarge, errTooSlow} {
		if errors.Is(err, e) {
			return e
		}
	}
	return nil
}

// budget limits the memory of all its claims together. A claim may grow while it is
// no larger than what is then left for others: however many claims grow as far as
// they can, some of the budget is always left for the next one.
type budget struct {
	total int64
	small int64 // of each claim that does not count
	most  int64 // of one claim
	event int64 // of one event of a watch

	mu   sync.Mutex
	used int64 // by the claims, without the part of each that does not count
}

func newAnswers() *budget {
	return &budget{total: underWay, small: smallAnswer, most: largest, event: largestEvent}
}

func newViews() *budget { return &budget{total: kept, small: smallView, most: largestView} }

// claim is a share of a budget.
type claim struct {
	budget *budget
	size   int64 // guarded by the budget's mu
	closed bool  // guarded by the budget's mu
}

func (b *budget) claim() *claim { return &claim{budget: b} }

// resize sets the size of the claim, and reports whether that was possible.
// Shrinking is always possible.
func (c *claim) resize(size int64) bool {
	b := c.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	counted := max(0, size-b.small)
	used := b.used - max(0, c.size-b.small) + counted
	if size > c.size && (c.closed || counted > 0 && counted > b.total-used) {
		return false
	}
	c.size, b.used = size, used
	return true
}

func (c *claim) current() int64 {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	return c.size
}

// close returns the whole claim permanently.
func (c *claim) close() {
	c.resize(0)
	c.budget.mu.Lock()
	c.closed = true
	c.budget.mu.Unlock()
}

type claimKey struct{}

// holding calls do with a context in which the response to its request counts
// toward the budget until do returns, when it is decoded. While others use the
// budget, do is called again, for as long as a call may take.
func (b *budget) holding(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for backoff := firstBackoff; ; backoff *= 2 {
		c := b.claim()
		err := do(context.WithValue(ctx, claimKey{}, c))
		c.close()
		if !errors.Is(err, errBusy) {
			return err
		}
		if lifecycle.Sleep(ctx, backoff+rand.N(backoff)) != nil {
			return err
		}
	}
}

var timeType = reflect.TypeFor[time.Time]()

// sizeOf returns about how much memory an object takes.
func sizeOf(obj any) int64 { return referred(reflect.ValueOf(obj)) }

// referred returns the size of the values to which v refers, without v itself.
func referred(v reflect.Value) (size int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			size = int64(v.Elem().Type().Size()) + referred(v.Elem())
		}
	case reflect.Slice:
		size = int64(v.Cap()) * int64(v.Type().Elem().Size())
		if v.Type().Elem().Kind() != reflect.Uint8 {
			for i := range v.Len() {
				size += referred(v.Index(i))
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			key, value := entries.Key(), entries.Value()
			size += 2*int64(key.Type().Size()+value.Type().Size()) + referred(key) + referred(value)
		}
	case reflect.Struct:
		if v.Type() == timeType { // its location is shared
			return 0
		}
		for i := range v.NumField() {
			size += referred(v.Field(i))
		}
	}
	return size
}
