// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// controlPlane is the control plane during the computation.
type controlPlane struct {
	*made
	hosts *made // nil: its machines have no template
}

func (c *computation) draftControlPlane() {
	b := &c.Blueprint.ControlPlane
	p := &controlPlane{made: c.begin(made{
		Item:    patches.Item{Role: patches.ControlPlane, Contract: c.Contract, Holder: c.holder(), Overrides: b.Overrides},
		name:    name{text: b.NameTemplate},
		current: c.Current.ControlPlane,
	}, b.Template, b.Metadata, c.ours())}
	c.controlPlane = p
	c.callAs(p.made, c.Cluster.Spec.ControlPlaneRef)
	p.stays = p.current != nil && c.Plan.ControlPlane.State == upgrade.PendingUpgrade
	if p.err == nil {
		p.err = c.setControlPlane(p.Desired)
	}
	if p.err != nil || !b.Hosts.IsDefined() {
		return
	}
	p.hosts = c.begin(made{
		Item: patches.Item{Role: patches.ControlPlaneMachines, Overrides: b.Overrides, Holder: hooksv1.HolderReference{
			APIVersion: p.Desired.GetAPIVersion(), Kind: p.Desired.GetKind(), Namespace: p.Desired.GetNamespace(), Name: p.Desired.GetName(),
			FieldPath: c.fields.MachineTemplate.InfrastructureRef.String(),
		}},
		current: c.Current.Hosts,
		stays:   p.stays,
	}, b.Hosts, clusterv1.ObjectMeta{}, c.ours())
	c.call(p.hosts)
}

func (p *controlPlane) describe(c *computation) {
	if p.err != nil {
		return
	}
	known := patches.Group{
		Name: p.Desired.GetName(), Version: c.Plan.ControlPlane.Version, Replicas: c.Blueprint.ControlPlane.Replicas,
		Metadata: clusterv1.ObjectMeta{Labels: p.Desired.GetLabels(), Annotations: p.Desired.GetAnnotations()},
	}
	if p.hosts != nil {
		known.Infrastructure = p.hosts.calledSoFar()
		p.hosts.Builtins = patches.ControlPlaneBuiltins(known)
	}
	p.Builtins = patches.ControlPlaneBuiltins(known)
}

// setControlPlane sets the values of class and topology in the control plane, by its
// contract. Values that they do not set are those of the template.
func (c *computation) setControlPlane(u *unstructured.Unstructured) error {
	b, f := &c.Blueprint.ControlPlane, c.fields
	err := f.Version.Set(u, c.Plan.ControlPlane.Version)
	if b.Replicas != nil {
		err = errors.Join(err, f.Replicas.Set(u, *b.Replicas))
	}
	if !b.RolloutAfter.IsZero() {
		err = errors.Join(err, f.RolloutAfter.Set(u, b.RolloutAfter))
	}
	t := f.MachineTemplate
	if b.Hosts.IsDefined() {
		own, _, wrong := t.Metadata.Get(u)
		if wrong != nil {
			return errors.Join(err, wrong)
		}
		err = errors.Join(err, t.Metadata.Set(u, clusterv1.ObjectMeta{
			Labels: joined(own.Labels, b.Metadata.Labels, c.ours()), Annotations: joined(own.Annotations, b.Metadata.Annotations),
		}))
	}
	if len(b.ReadinessGates) > 0 {
		err = errors.Join(err, t.ReadinessGates.Set(u, b.ReadinessGates))
	}
	if len(b.Taints) > 0 {
		err = errors.Join(err, t.Taints.Set(u, b.Taints))
	}
	for _, timeout := range []struct {
		field contract.Field[int32]
		value *int32
	}{
		{t.NodeDrainSeconds, b.Deletion.NodeDrainTimeoutSeconds},
		{t.NodeVolumeDetachSeconds, b.Deletion.NodeVolumeDetachTimeoutSeconds},
		{t.NodeDeletionSeconds, b.Deletion.NodeDeletionTimeoutSeconds},
	} {
		if timeout.value != nil {
			err = errors.Join(err, timeout.field.Set(u, *timeout.value))
		}
	}
	return err
}

// part returns the result.
func (p *controlPlane) part(c *computation) (out ControlPlanePart) {
	err := p.err
	if err == nil && p.hosts != nil {
		err = p.hosts.err
	}
	if err != nil {
		out.Err = fmt.Errorf("control plane of the topology: %w", err)
	}
	switch {
	case p.wanted == nil: // it could not be computed
		return out
	case err != nil || c.failed != nil || p.stays:
		kept, err := c.applied(p.current)
		if kept == nil || err != nil {
			out.Err = cmp.Or(out.Err, err)
			return out
		}
		ref, _, err := c.fields.MachineTemplate.InfrastructureRef.Get(kept)
		out.Object, out.Hosts, out.Err = kept, p.hosts.lost(ref), cmp.Or(out.Err, err)
		if !p.stays {
			p.carry(c, kept)
		} else if out.Err == nil && c.failed == nil {
			out.Held, out.Err = p.held(c, kept)
		}
	default:
		if p.hosts != nil {
			if out.Err = c.fields.MachineTemplate.Refer(p.wanted, p.hosts.wanted, p.current); out.Err != nil {
				return out
			}
			out.Hosts = p.hosts.wanted
		}
		out.Object = p.wanted
	}
	leaveEndpoint(out.Object)
	if check := c.Blueprint.ControlPlane.HealthCheck; check != nil {
		checks, err := c.healthCheck(out.Object.GetName(), map[string]string{clusterv1.MachineControlPlaneLabel: ""}, check)
		out.HealthCheck, out.Err = checks, cmp.Or(out.Err, err)
	}
	return out
}

// held lists the changes that wait for the upgrade.
func (p *controlPlane) held(c *computation, kept *unstructured.Unstructured) ([]string, error) {
	ref := c.fields.MachineTemplate.InfrastructureRef.String()
	if p.hosts != nil {
		if err := c.fields.MachineTemplate.Refer(p.wanted, p.hosts.wanted, p.current); err != nil {
			return nil, err
		}
	}
	fields := held(kept, p.wanted, c.fields.Version.String(), ref)
	if p.hosts.differs(c) {
		fields = append(fields, ref)
	}
	return fields, nil
}

// carry sets the fields that need no new machines, and that do not depend on patches, in
// a control plane that otherwise keeps what was applied before.
func (p *controlPlane) carry(c *computation, kept *unstructured.Unstructured) {
	kept.SetLabels(joined(kept.GetLabels(), p.wanted.GetLabels()))
	kept.SetAnnotations(joined(kept.GetAnnotations(), p.wanted.GetAnnotations()))
	f, m := c.fields, c.fields.MachineTemplate
	patches.Carry(kept, p.wanted, f.Replicas.Path(), m.Metadata.Path(), m.ReadinessGates.Path(), m.Taints.Path(),
		m.NodeDrainSeconds.Path(), m.NodeVolumeDetachSeconds.Path(), m.NodeDeletionSeconds.Path())
}
