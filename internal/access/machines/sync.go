// SPDX-License-Identifier: Apache-2.0

package machines

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Sync writes the fields that may change in place to a Machine, and labels and
// annotations to the objects it refers to. The Machine is written last: as long as
// it lacks something, an interrupted attempt is repeated, and once it lacks
// nothing, the other objects need not be read.
func (f Factory) Sync(ctx context.Context, m *clusterv1.Machine, t machinetemplate.Template) error {
	if t.InStep(m) {
		return f.record(ctx, m, t)
	}
	commit := patch.Snapshot(f.Mgmt, m, patch.As(f.FieldOwner))
	err := f.Prepare(ctx, m, t)
	return errors.Join(err, commit(ctx))
}

// Prepare is Sync for a caller that writes the Machine itself, together with its
// own changes and under the same field owner: it writes the objects that the
// Machine refers to, and then changes m. As long as that fails, m does not get the
// labels and annotations that the other objects lack; the other fields concern the
// Machine alone.
func (f Factory) Prepare(ctx context.Context, m *clusterv1.Machine, t machinetemplate.Template) error {
	if err := f.record(ctx, m, t); err != nil {
		return err
	}
	to, err := t.Follow(m, f.FieldOwner)
	if err != nil || to == m {
		return err
	}
	m.Spec = to.Spec
	if !machinetemplate.Relabelled(m, to) {
		return nil
	}
	for _, ref := range []clusterv1.ContractVersionedObjectReference{m.Spec.Bootstrap.ConfigRef, m.Spec.InfrastructureRef} {
		if err := f.pass(ctx, t, ref, m, to); err != nil {
			return err
		}
	}
	m.Labels, m.Annotations = to.Labels, to.Annotations
	return nil
}

// record ensures that a Machine records the labels and annotations that were passed
// to it.
func (f Factory) record(ctx context.Context, m *clusterv1.Machine, t machinetemplate.Template) error {
	return patch.Record(ctx, f.Mgmt, f.Live, m, f.FieldOwner, t.Passed())
}

// pass writes labels and annotations to an object that a Machine refers to, if the
// object exists and belongs to the Machine.
func (f Factory) pass(ctx context.Context, t machinetemplate.Template, ref clusterv1.ContractVersionedObjectReference, from, to *clusterv1.Machine) error {
	if !ref.IsDefined() {
		return nil
	}
	obj, err := f.Providers.Get(ctx, from.Namespace, ref)
	if kind, ok := errors.AsType[*provider.KindError](err); ok && (kind.NoCRD || kind.Foreign) {
		return nil // the object does not exist
	}
	if err != nil {
		return client.IgnoreNotFound(err) // the Machine reports it
	}
	if !obj.GetDeletionTimestamp().IsZero() || reference.ByMachine(from).Evaluate(obj).Holder != "" {
		return nil
	}
	changed := obj.DeepCopy()
	commit := patch.Snapshot(f.Mgmt, changed, patch.As(f.FieldOwner))
	t.Pass(changed, from, to)
	return commit(ctx)
}
