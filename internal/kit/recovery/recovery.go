// SPDX-License-Identifier: Apache-2.0

// Package recovery keeps a panic from ending the process. A goroutine that handles
// users' objects is started through it.
package recovery

import (
	"context"
	"fmt"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// Error is a panic that Call recovered.
type Error struct{ Value any }

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Call runs f. It logs a panic with its stack, by the logger of ctx, and returns it as
// an *Error.
func Call(ctx context.Context, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			for _, log := range utilruntime.PanicHandlers {
				log(ctx, v)
			}
			err = &Error{Value: v}
		}
	}()
	return f()
}

// Func returns a function for a goroutine or a timer: it runs f, and a panic ends it
// alone. f reports and restarts through Call what must not end silently.
func Func(ctx context.Context, f func()) func() {
	return func() {
		_ = Call(ctx, func() error { // it has been logged
			f()
			return nil
		})
	}
}

// Process has the goroutines of client-go, such as those of informers and controllers,
// continue after a panic, which is logged: by default it ends the process. It holds for
// the rest of the process: call it once, at its start.
func Process() { utilruntime.ReallyCrash = false }
