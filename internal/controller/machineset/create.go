// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// fieldOwner signs what the controller writes on Machines and provider objects.
const fieldOwner = metadata.MachineSets

// factory creates and synchronizes the Machines.
func (r *Reconciler) factory() machines.Factory {
	return machines.Factory{Mgmt: r.Mgmt, Live: r.Live, Providers: r.Providers, FieldOwner: fieldOwner}
}

// create creates a Machine from the templates.
func (r *Reconciler) create(ctx context.Context, s *state, name string) (*clusterv1.Machine, error) {
	m, err := r.factory().Make(ctx, machines.Order{
		Name:                   name,
		Template:               scaling.MachineTemplate(s.set),
		BootstrapTemplate:      s.bootstrapTemplate,
		InfrastructureTemplate: s.infraTemplate,
	})
	if e, is := errors.AsType[*machines.NotMadeError](err); is {
		s.notCreated = v1beta1conditions.Failure{Reason: notMade[e.Part], Message: e.Lasting()}
	}
	return m, err
}

// notMade has the reasons in v1beta1 for a part of a Machine that could not be
// created.
var notMade = map[machines.Part]string{
	machines.Bootstrap:      clusterv1.BootstrapTemplateCloningFailedV1Beta1Reason,
	machines.Infrastructure: clusterv1.InfrastructureTemplateCloningFailedV1Beta1Reason,
	machines.Itself:         clusterv1.MachineCreationFailedV1Beta1Reason,
}

// sweep deletes objects that were created for Machines that then were not created.
func (r *Reconciler) sweep(ctx context.Context, s *state) error {
	var kinds []schema.GroupKind
	for _, ref := range templates(s.set) {
		if ref.IsDefined() {
			kinds = append(kinds, provider.CopyKind(ref.GroupKind()))
		}
	}
	return r.Providers.Sweep(ctx, r.Live, provider.Leftovers{
		Maker: s.set,
		Kinds: kinds,
		Label: clusterv1.MachineSetNameLabel, Value: fieldvalidation.AsLabelValue(s.set.Name),
	})
}
