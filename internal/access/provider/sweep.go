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

// Leftovers are objects that a maker of Machines made for a Machine which then
// was not created: the process ended in between. With a real provider each is
// a host that nobody knows of.
type Leftovers struct {
	// Maker owns what it has made until the Machine takes it over.
	Maker client.Object
	// Kinds are those that it makes: bootstrap configs and infrastructure
	// machines. CopyKind tells those of templates.
	Kinds []schema.GroupKind
	// Label names the maker, by its value, on all that it makes.
	Label, Value string
}

// Sweep deletes leftovers. It cannot be undone, so live, which reads past the
// cache, is asked for all Machines first, and what has changed since it was
// read is not deleted. When there is nothing to delete, which is nearly always,
// only the cache is read.
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

// unclaimed lists what the maker still owns, and the cache shows no Machine for.
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

// refersTo reports whether the Machine is the one that obj was made for, or has
// taken it up since.
func refersTo(m *clusterv1.Machine, obj *unstructured.Unstructured) bool {
	is := func(ref clusterv1.ContractVersionedObjectReference) bool {
		return ref.Name == obj.GetName() && ref.GroupKind() == obj.GroupVersionKind().GroupKind()
	}
	return m.Name == obj.GetName() || is(m.Spec.Bootstrap.ConfigRef) || is(m.Spec.InfrastructureRef)
}
