// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// HeldError means that an object belongs to another owner. It is reported in a
// condition and not retried: a change of the object triggers a reconcile of the
// objects that refer to it.
type HeldError struct {
	Object string // for messages
	Holder string
}

// Error implements error.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s is held by %s: refer to another object, or remove that owner or label", e.Object, e.Holder)
}

// Adoption is the metadata that an owner sets on a provider object.
type Adoption struct {
	reference.Claim
	// Drop returns true for references to earlier owners to be removed; nil drops
	// none.
	Drop func(metav1.OwnerReference) bool
}

// Adopt sets owner and label on obj, in one patch. It sends none if they are set or
// obj is being deleted. If obj belongs to another owner, the error is a HeldError.
func (o *Objects) Adopt(ctx context.Context, obj *Object, a Adoption) error {
	result, err := checkClaim(obj, a.Claim)
	if err != nil || !obj.GetDeletionTimestamp().IsZero() {
		return err
	}
	if result.Shared {
		a.Owner.Controller, a.Owner.BlockOwnerDeletion = nil, nil
	}
	// Usually everything is set: checking that requires no copy of the object.
	if !a.put(&metav1.ObjectMeta{Labels: obj.GetLabels(), OwnerReferences: obj.GetOwnerReferences()}) {
		return nil
	}
	changed := obj.DeepCopy()
	commit := patch.Snapshot(o.mgmt, changed)
	a.put(changed)
	if err := commit(ctx); err != nil {
		return fmt.Errorf("adopt: %w", err)
	}
	obj.Unstructured = changed
	return nil
}

// put reports whether it changed anything.
func (a Adoption) put(obj metav1.Object) bool {
	dropped := a.Drop != nil && owner.RemoveFunc(obj, a.Drop)
	owned := owner.Set(obj, a.Owner)
	labelled := (!a.Shared || obj.GetLabels()[clusterv1.ClusterNameLabel] == "") && owner.Label(obj, a.Cluster)
	return dropped || owned || labelled
}

// Take adopts the object of a reference. If it belongs to another owner, that is
// recorded in the reference, without the object, and is no error.
func (o *Objects) Take(ctx context.Context, r *Reference, a Adoption) error {
	return r.keepHeld(o.Adopt(ctx, r.Obj, a))
}

// Remove deletes the object of a reference, unless it is being deleted. If it
// belongs to another owner, that is recorded in the reference, without the object,
// and is no error.
func (o *Objects) Remove(ctx context.Context, r *Reference, c reference.Claim) error {
	if _, err := checkClaim(r.Obj, c); err != nil {
		return r.keepHeld(err)
	}
	as := client.Preconditions{UID: new(r.Obj.GetUID())}
	if by := metav1.GetControllerOfNoCopy(r.Obj); by == nil || by.UID != c.Owner.UID {
		as.ResourceVersion = new(r.Obj.GetResourceVersion()) // another owner may be adopting it
	}
	return o.delete(ctx, r.Obj, as)
}

func (r *Reference) keepHeld(err error) error {
	if err != nil {
		r.Err = fmt.Errorf("%s: %w", r.Field, err)
	}
	if r.Held() {
		r.Obj = nil
		return nil
	}
	return r.Err
}

// Template reads a template for a role, which all objects of the Cluster share. If
// it belongs to another Cluster, the error is a HeldError; otherwise errors are
// those of Get.
func (o *Objects) Template(ctx context.Context, c *clusterv1.Cluster, ref clusterv1.ContractVersionedObjectReference, role reference.Role) (*Object, error) {
	return template(c, ref.GroupKind(), role, func() (*Object, error) { return o.Get(ctx, c.Namespace, ref) })
}

// TemplateAs is Template for a reference that also names the API version.
func (o *Objects) TemplateAs(ctx context.Context, c *clusterv1.Cluster, kind schema.GroupVersionKind, name string, role reference.Role) (*Object, error) {
	return template(c, kind.GroupKind(), role, func() (*Object, error) {
		return o.GetAs(ctx, kind, client.ObjectKey{Namespace: c.Namespace, Name: name})
	})
}

func template(c *clusterv1.Cluster, kind schema.GroupKind, role reference.Role, get func() (*Object, error)) (*Object, error) {
	if err := role.Template(kind); err != nil {
		return nil, &KindError{Kind: kind, Problem: err.Error(), Foreign: true}
	}
	obj, err := get()
	if err != nil {
		return nil, err
	}
	_, err = checkClaim(obj, reference.ToShare(c))
	return obj, err
}

func checkClaim(obj *Object, c reference.Claim) (reference.Result, error) {
	v := c.Evaluate(obj)
	if v.Holder != "" {
		return v, &HeldError{fmt.Sprintf("%s %s", obj.GetKind(), client.ObjectKeyFromObject(obj)), v.Holder}
	}
	return v, nil
}

// Held reports whether the object belongs to another owner.
func (r *Reference) Held() bool {
	_, held := errors.AsType[*HeldError](r.Err)
	return held
}

// Refused reports whether err means that a reference cannot be followed until it
// changes, or until the object's holder releases it: such an error is reported and
// not retried.
func Refused(err error) bool {
	_, held := errors.AsType[*HeldError](err)
	kind, ok := errors.AsType[*KindError](err)
	return held || ok && kind.Foreign
}
