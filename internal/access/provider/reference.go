// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Reference is an object to which another refers, and the result of reading it.
type Reference struct {
	Ref     clusterv1.ContractVersionedObjectReference
	Role    reference.Role
	Field   string  // that contains the reference, as users write it
	Obj     *Object // nil: not found, or not read
	Missing bool    // read, but not found
	Err     error   // why it cannot be used
}

// String names the object for messages.
func (r Reference) String() string { return r.Ref.Kind + " " + r.Ref.Name }

// Gone reports whether there is nothing to delete: the object was not found, or its
// kind does not exist, or is no provider's.
func (r *Reference) Gone() bool {
	kind, ok := errors.AsType[*KindError](r.Err)
	return r.Missing || (ok && (kind.NoCRD || kind.Foreign))
}

// Failed records why the object cannot be used, and returns it. nil is recorded,
// too.
func (r *Reference) Failed(err error) error {
	r.Err = err
	return err
}

// Look reads the object of a reference and adds a watch of its kind for w. If the
// object is not found, or its kind cannot be used, that is recorded in the
// reference; only the latter is an error, too.
func (o *Objects) Look(ctx context.Context, namespace string, r *Reference, w Trigger) error {
	var err error
	if unfit := r.Role.Kind(r.Ref.GroupKind()); unfit != nil {
		err = &KindError{Kind: r.Ref.GroupKind(), Problem: unfit.Error(), Foreign: true}
	} else {
		err = o.Watch(ctx, r.Ref, w)
	}
	if err == nil {
		r.Obj, err = o.Get(ctx, namespace, r.Ref)
	}
	if apierrors.IsNotFound(err) {
		r.Missing, r.Obj = true, nil
		return nil
	}
	if err != nil {
		r.Err = fmt.Errorf("%s: %w", r.Field, err)
	}
	if kind, ok := errors.AsType[*KindError](err); ok && kind.Foreign {
		return reconcile.TerminalError(r.Err) // until the reference changes
	}
	return r.Err
}

// LookTemplate is Look for a template, which all objects of the Cluster share. A
// template that belongs to another Cluster, or cannot be one for the role, is no
// error: a change of its owners, or of the reference, triggers w.
func (o *Objects) LookTemplate(ctx context.Context, c *clusterv1.Cluster, r *Reference, w Trigger) error {
	err := o.Watch(ctx, r.Ref, w)
	if err == nil {
		r.Obj, err = o.Template(ctx, c, r.Ref, r.Role)
	}
	if err != nil {
		r.Obj = nil
	}
	if apierrors.IsNotFound(err) {
		r.Missing = true
		return nil
	}
	if err != nil {
		r.Err = fmt.Errorf("%s: %w", r.Field, err)
	}
	if Refused(err) {
		return nil
	}
	return r.Err
}

// Known returns what was read of the object, as a value.
func (r *Reference) Known() reference.Object {
	known := reference.Object{Ref: r.Ref, Field: r.Field, Missing: r.Missing, Held: r.Held()}
	if r.Obj != nil {
		known.Obj = r.Obj.Unstructured
	}
	if r.Err != nil {
		known.Err = r.Err.Error()
	}
	return known
}
