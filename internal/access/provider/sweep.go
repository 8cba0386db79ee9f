// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

// Leftovers are objects that a controller created for a Machine which was then not
// created, because the process ended in between. With a real provider each is an
// unused host.
type Leftovers struct {
	// Maker owns the objects that it creates until the Machine takes them over.
	Maker client.Object
	// Kinds are the kinds that it creates: bootstrap configs and infrastructure
	// machines. CopyKind returns those of templates.
	Kinds []schema.GroupKind
	// Label identifies the maker, by its value, on all objects that it creates.
	Label, Value string
}

// Sweep deletes leftovers. A deletion cannot be undone, so it first reads all
// Machines with live, which bypasses the cache, and does not delete objects that
// have changed since they were read. If there is nothing to delete, the usual case,
// it reads only the cache.
func (o *Objects) Sweep(ctx context.Context, live client.Reader, l Leftovers) error {
	found, err := o.unclaimed(ctx, l)
	if err != nil || len(found) == 0 {
		return err
	}
	var machines clusterv1.MachineList
	if err := live.List(ctx, &machines, client.InNamespace(l.Maker.GetNamespace())); err != nil {
		return fmt.Errorf("list Machines: %w", err)
	}
	var errs []error
	for _, obj := range found {
		if slices.ContainsFunc(machines.Items, func(m clusterv1.Machine) bool { return refersTo(&m, obj) }) {
			continue
		}
		ctrl.LoggerFrom(ctx).Info("Deleting a leftover of a Machine that was not created", "kind", obj.GetKind(), "name", obj.GetName())
		err := o.mgmt.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID()), ResourceVersion: new(obj.GetResourceVersion())})
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete leftover %s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err))
		}
	}
	return errors.Join(errs...)
}

// unclaimed lists the objects that the maker still owns, and for which the cache
// has no Machine.
func (o *Objects) unclaimed(ctx context.Context, l Leftovers) (found []*unstructured.Unstructured, err error) {
	maker, err := apiutil.GVKForObject(l.Maker, o.mgmt.Scheme())
	if err != nil {
		return nil, fmt.Errorf("kind of %T: %w", l.Maker, err)
	}
	for _, gk := range l.Kinds {
		items, err := o.List(ctx, gk, l.Maker.GetNamespace(), l.Label, client.MatchingLabels{l.Label: l.Value})
		if e, ok := errors.AsType[*KindError](err); ok && (e.NoCRD || e.Foreign) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range items {
			obj := &items[i]
			if !obj.GetDeletionTimestamp().IsZero() || metav1.GetControllerOf(obj) != nil || !owner.Has(obj, maker.GroupKind(), l.Maker.GetName()) {
				continue
			}
			err := o.mgmt.Get(ctx, client.ObjectKeyFromObject(obj), &clusterv1.Machine{})
			if client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("get Machine %s: %w", client.ObjectKeyFromObject(obj), err)
			}
			if err != nil {
				found = append(found, obj)
			}
		}
	}
	return found, nil
}

// refersTo reports whether the Machine is the one for which obj was created, or has
// adopted it since.
func refersTo(m *clusterv1.Machine, obj *unstructured.Unstructured) bool {
	is := func(ref clusterv1.ContractVersionedObjectReference) bool {
		return ref.Name == obj.GetName() && ref.GroupKind() == obj.GroupVersionKind().GroupKind()
	}
	return m.Name == obj.GetName() || is(m.Spec.Bootstrap.ConfigRef) || is(m.Spec.InfrastructureRef)
}
