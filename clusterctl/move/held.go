// SPDX-License-Identifier: Apache-2.0

package move

import (
	"context"
	"errors"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capstan-dev/capstan/clusterctl/move/plan"
)

// persistent is a Plane whose requests have a timeout, and are sent again if a server is
// busy or a connection broke. All requests of a move can be repeated.
type persistent struct {
	Plane
	clock clock.Clock
	// hold renews the claim in the journal before each write, and fails if this process
	// no longer holds the move. It is nil for the journal itself.
	hold func(context.Context) error
}

// again returns the delays before a request is sent again.
func again() []time.Duration {
	return []time.Duration{100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second, 5 * time.Second}
}

// passing reports whether an error may be transient.
func passing(err error) bool {
	lost, _ := errors.AsType[*url.Error](err)
	return lost != nil && !errors.Is(err, context.Canceled) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err)
}

func (p persistent) send(ctx context.Context, limit time.Duration, hold, ask func(context.Context) error) error {
	for _, wait := range append(again(), 0) {
		if hold != nil { // each time: a claim can end between two tries
			if err := hold(ctx); err != nil {
				return err
			}
		}
		inTime, stop := context.WithTimeout(ctx, limit)
		err := ask(inTime)
		stop()
		if err == nil || wait == 0 || ctx.Err() != nil || !passing(err) {
			return err
		}
		select {
		case <-p.clock.After(wait):
		case <-ctx.Done():
			return err
		}
	}
	return nil
}

func (p persistent) write(ctx context.Context, ask func(context.Context) error) error {
	return p.send(ctx, requestLasts, p.hold, ask)
}

func read[T any](ctx context.Context, p persistent, ask func(context.Context) (T, error)) (got T, err error) {
	err = p.send(ctx, readLasts, nil, func(ctx context.Context) (err error) {
		got, err = ask(ctx)
		return err
	})
	return got, err
}

// List implements Plane.
func (p persistent) List(ctx context.Context, kind plan.Kind, namespace string, labels ...string) ([]*unstructured.Unstructured, error) {
	return read(ctx, p, func(ctx context.Context) ([]*unstructured.Unstructured, error) {
		return p.Plane.List(ctx, kind, namespace, labels...)
	})
}

// Get implements Plane.
func (p persistent) Get(ctx context.Context, kind plan.Kind, key types.NamespacedName) (*unstructured.Unstructured, error) {
	return read(ctx, p, func(ctx context.Context) (*unstructured.Unstructured, error) { return p.Plane.Get(ctx, kind, key) })
}

// Create implements Plane.
func (p persistent) Create(ctx context.Context, obj *unstructured.Unstructured) error {
	return p.write(ctx, func(ctx context.Context) error { return p.Plane.Create(ctx, obj) })
}

// Update implements Plane.
func (p persistent) Update(ctx context.Context, obj *unstructured.Unstructured) error {
	return p.write(ctx, func(ctx context.Context) error { return p.Plane.Update(ctx, obj) })
}

// Patch implements Plane.
func (p persistent) Patch(ctx context.Context, obj *unstructured.Unstructured, patch map[string]any) error {
	return p.write(ctx, func(ctx context.Context) error { return p.Plane.Patch(ctx, obj, patch) })
}

// Delete implements Plane.
func (p persistent) Delete(ctx context.Context, obj *unstructured.Unstructured) error {
	return p.write(ctx, func(ctx context.Context) error { return p.Plane.Delete(ctx, obj) })
}

// Allowed implements Plane.
func (p persistent) Allowed(ctx context.Context, verb string, kind schema.GroupResource, namespace string) (bool, error) {
	return read(ctx, p, func(ctx context.Context) (bool, error) { return p.Plane.Allowed(ctx, verb, kind, namespace) })
}
