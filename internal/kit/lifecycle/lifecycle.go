// SPDX-License-Identifier: Apache-2.0

// Package lifecycle undoes, in reverse order, what a server started, and waits.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// StopTimeout is how long a plane may take to stop; it needs about a second.
const StopTimeout = 20 * time.Second

// DeposedTimeout is how long the stop of a plane may take that lost contact with
// etcd: calls to it hang until their own timeout, which the API server sets to a
// minute. Nothing waits for it, and only what has ended can be started again.
const DeposedTimeout = 2 * time.Minute

// ErrDeposed ends a plane that has led the members of its store, and cannot be sure
// that it still does. It may be started again immediately, and waits to become
// leader.
var ErrDeposed = errors.New("this plane heard nothing of etcd for so long that another one may lead now")

// Sleep returns after a duration, or the cause of the end of ctx before.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takingBack is the context key that marks a rollback.
type takingBack struct{}

// TakesBack reports whether a context is that of an undo step of a Stack.
func TakesBack(ctx context.Context) bool { return ctx.Value(takingBack{}) != nil }

// Stack holds named undo steps. The zero value is ready to use.
type Stack struct{ steps []step }

type step struct {
	name string
	undo func(context.Context) error
}

// Push adds a step that Unwind will run before all earlier ones.
func (s *Stack) Push(name string, undo func(context.Context) error) {
	s.steps = append(s.steps, step{name, undo})
}

// When calls do with the first value of a channel, or at its close, unless the stack is
// unwound before.
func When[T any](s *Stack, name string, c <-chan T, do func(T)) {
	done, ended := make(chan struct{}), make(chan struct{})
	go recovery.Func(context.Background(), func() {
		defer close(ended)
		select {
		case v := <-c:
			do(v)
		case <-done:
		}
	})()
	s.Push(name, func(context.Context) error { close(done); <-ended; return nil })
}

// Unwind runs every step, last pushed first, and empties the stack, so that a
// second call does nothing. A failing step does not stop the others.
func (s *Stack) Unwind(ctx context.Context) error {
	ctx = context.WithValue(ctx, takingBack{}, true)
	var errs []error
	for i := len(s.steps) - 1; i >= 0; i-- {
		if err := s.steps[i].undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("stop %s: %w", s.steps[i].name, err))
		}
	}
	s.steps = nil
	return errors.Join(errs...)
}
