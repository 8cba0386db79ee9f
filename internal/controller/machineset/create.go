// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/fieldrules"
)

// fieldOwner signs what the controller writes on Machines and provider objects.
const fieldOwner = "capi-machineset"

// create makes a Machine, after what it refers to. If that fails halfway, what
// was made is deleted again.
func (r *Reconciler) create(ctx context.Context, s *state, name string) (_ *clusterv1.Machine, err error) {
	var made lifecycle.Stack
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Unwind(context.WithoutCancel(ctx)))
		}
	}()
	m, err := r.newMachine(s, name)
	if err != nil {
		return nil, err
	}
	if s.bootstrapTemplate != nil {
		if m.Spec.Bootstrap.ConfigRef, err = r.instantiate(ctx, s, m, s.bootstrapTemplate, &made); err != nil {
			return nil, err
		}
	}
	if s.infraTemplate != nil {
		if m.Spec.InfrastructureRef, err = r.instantiate(ctx, s, m, s.infraTemplate, &made); err != nil {
			return nil, err
		}
	}
	if err := r.Mgmt.Create(ctx, m, client.FieldOwner(fieldOwner)); err != nil {
		return nil, fmt.Errorf("create Machine %s: %w", client.ObjectKeyFromObject(m), err)
	}
	return m, nil
}

// newMachine makes a Machine with everything it will ever need from its set, so
// that no later write has to add it.
func (r *Reconciler) newMachine(s *state, name string) (*clusterv1.Machine, error) {
	mine, err := owner.Controller(s.set, r.Mgmt)
	if err != nil {
		return nil, err
	}
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.set.Namespace,
			Name:            name,
			Labels:          machineLabels(s.set),
			Annotations:     maps.Clone(s.set.Spec.Template.Annotations),
			Finalizers:      []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{mine},
		},
		Spec: *s.set.Spec.Template.Spec.DeepCopy(),
	}
	m.Spec.ClusterName = s.set.Spec.ClusterName
	setInPlaceFields(m, s.set)
	return m, nil
}

// instantiate makes the object that a Machine refers to from its template.
// Until the Machine takes it, it belongs to the set.
func (r *Reconciler) instantiate(ctx context.Context, s *state, m *clusterv1.Machine, t *provider.Object, made *lifecycle.Stack) (ref clusterv1.ContractVersionedObjectReference, err error) {
	keeper, err := owner.Reference(s.set, r.Mgmt)
	if err != nil {
		return ref, err
	}
	return r.Providers.Make(ctx, provider.Copy{
		Template:    t,
		Name:        m.Name,
		Cluster:     m.Spec.ClusterName,
		Labels:      m.Labels,
		Annotations: m.Annotations,
		Owner:       &keeper,
	}, fieldOwner, made)
}

// sweep deletes what was made for Machines that then were not created.
func (r *Reconciler) sweep(ctx context.Context, s *state) error {
	var kinds []schema.GroupKind
	for _, ref := range templates(s.set) {
		if ref.IsDefined() {
			kinds = append(kinds, provider.CopyKind(ref.GroupKind()))
		}
	}
	return r.Providers.Sweep(ctx, r.Live, provider.Leftovers{
		Maker:  s.set,
		Kinds:  kinds,
		Labels: client.MatchingLabels{clusterv1.MachineSetNameLabel: fieldrules.AsLabelValue(s.set.Name)},
	})
}
