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
	"github.com/capstan-dev/capstan/internal/pure/topology/builtins"
	"github.com/capstan-dev/capstan/internal/pure/topology/compat"
	"github.com/capstan-dev/capstan/internal/pure/topology/patches"
)

// computation is on its way from input to outcome.
type computation struct {
	Input
	names          names
	fields         contract.ControlPlane
	infrastructure *infrastructure
	controlPlane   *controlPlane
	deployments    []*group
	pools          []*group
}

type infrastructure struct{ *made }

type controlPlane struct {
	*made
	hosts *made // nil: its machines have no template
}

// draft makes everything as templates, class and topology have it.
func (c *computation) draft() {
	c.draftInfrastructure()
	c.draftControlPlane()
	for i := range c.Blueprint.MachineDeployments {
		c.deployments = append(c.deployments, c.draftDeployment(&c.Blueprint.MachineDeployments[i]))
	}
	for i := range c.Blueprint.MachinePools {
		c.pools = append(c.pools, c.draftPool(&c.Blueprint.MachinePools[i]))
	}
}

// ours are the labels of all that is of the Cluster.
func (c *computation) ours() map[string]string {
	return map[string]string{clusterv1.ClusterNameLabel: c.Cluster.Name, clusterv1.ClusterTopologyOwnedLabel: ""}
}

func (c *computation) draftInfrastructure() {
	m := c.begin(made{
		Item:    patches.Item{Role: patches.InfrastructureCluster, Holder: c.holder()},
		name:    name{text: c.Blueprint.InfrastructureName},
		current: c.Current.Infrastructure,
	}, c.Blueprint.Infrastructure, clusterv1.ObjectMeta{}, c.ours())
	c.named(m, c.Cluster.Spec.InfrastructureRef)
	c.infrastructure = &infrastructure{m}
}

// named gives an object that the Cluster refers to the name by which it does, and
// demands that it is, and stays, of its kind.
func (c *computation) named(m *made, ref clusterv1.ContractVersionedObjectReference) {
	if m.err != nil {
		return
	}
	current := m.current
	if ref.IsDefined() && current == nil {
		current = &unstructured.Unstructured{}
		current.SetAPIVersion(ref.APIGroup + "/v1")
		current.SetKind(ref.Kind)
		current.SetNamespace(c.Cluster.Namespace)
		current.SetName(ref.Name)
	}
	if current == nil {
		c.provide(m)
		return
	}
	m.Desired.SetName(cmp.Or(ref.Name, current.GetName()))
	m.err = compat.Object(current, m.Desired)
}

// holder refers to the Cluster.
func (c *computation) holder() hooksv1.HolderReference {
	return hooksv1.HolderReference{APIVersion: clusterv1.GroupVersion().String(), Kind: clusterv1.ClusterKind, Namespace: c.Cluster.Namespace, Name: c.Cluster.Name}
}

// part is the outcome.
func (i *infrastructure) part() Part {
	if i.err != nil {
		return Part{Err: fmt.Errorf("infrastructure of the topology: %w", i.err)}
	}
	keptEndpoint(i.Desired)
	return Part{Object: i.Desired}
}

func (c *computation) draftControlPlane() {
	b := &c.Blueprint.ControlPlane
	p := &controlPlane{made: c.begin(made{
		Item:    patches.Item{Role: patches.ControlPlane, Contract: c.Contract, Holder: c.holder(), Overrides: b.Overrides},
		name:    name{text: b.NameTemplate},
		current: c.Current.ControlPlane,
	}, b.Template, b.Metadata, c.ours())}
	c.controlPlane = p
	c.named(p.made, c.Cluster.Spec.ControlPlaneRef)
	if p.err != nil {
		return
	}
	if b.Hosts.IsDefined() {
		p.hosts = c.begin(made{
			Item: patches.Item{Role: patches.ControlPlaneMachines, Overrides: b.Overrides, Holder: hooksv1.HolderReference{
				APIVersion: p.Desired.GetAPIVersion(), Kind: p.Desired.GetKind(), Namespace: p.Desired.GetNamespace(), Name: p.Desired.GetName(),
				FieldPath: c.fields.MachineTemplate.InfrastructureRef.String(),
			}},
			current: c.Current.Hosts,
		}, b.Hosts, clusterv1.ObjectMeta{}, c.ours())
		c.provide(p.hosts)
	}
	if p.err = c.setControlPlane(p.Desired); p.err == nil && p.hosts != nil {
		p.err = p.hosts.err
	}
	if p.err != nil {
		return
	}
	known := builtins.Group{Name: p.Desired.GetName(), Version: c.Plan.ControlPlane.Version, Replicas: b.Replicas, Metadata: metadata(p.Desired)}
	if p.hosts != nil {
		known.Infrastructure = p.hosts.Desired.GetName()
		p.hosts.Builtins = builtins.ControlPlane(known)
	}
	p.Builtins = builtins.ControlPlane(known)
}

func metadata(u *unstructured.Unstructured) clusterv1.ObjectMeta {
	return clusterv1.ObjectMeta{Labels: u.GetLabels(), Annotations: u.GetAnnotations()}
}

// setControlPlane sets what class and topology say of the control plane, by the
// contract that it follows. What they leave open is as in the template.
func (c *computation) setControlPlane(u *unstructured.Unstructured) error {
	b, f := &c.Blueprint.ControlPlane, c.fields
	err := f.Version.Set(u, c.Plan.ControlPlane.Version)
	if b.Replicas != nil {
		err = errors.Join(err, f.Replicas.Set(u, *b.Replicas))
	}
	if !b.RolloutAfter.IsZero() {
		err = errors.Join(err, f.RolloutAfter.Set(u, b.RolloutAfter))
	}
	if err != nil || !b.Hosts.IsDefined() {
		return err
	}
	t := f.MachineTemplate
	own, _, err := t.Metadata.Get(u)
	if err != nil {
		return err
	}
	err = t.Metadata.Set(u, clusterv1.ObjectMeta{
		Labels: joined(own.Labels, b.Metadata.Labels, c.ours()), Annotations: joined(own.Annotations, b.Metadata.Annotations),
	})
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

// part is the outcome.
func (p *controlPlane) part(c *computation) ControlPlanePart {
	c.settle(p.hosts)
	if p.err == nil && p.hosts != nil {
		p.err = p.hosts.err
	}
	if p.err == nil && p.hosts != nil {
		p.err = c.fields.MachineTemplate.Refer(p.Desired, p.hosts.Desired)
	}
	if p.err != nil {
		return ControlPlanePart{Part: Part{Err: fmt.Errorf("control plane of the topology: %w", p.err)}}
	}
	keptEndpoint(p.Desired)
	out := ControlPlanePart{Part: Part{Object: p.Desired}}
	if p.hosts != nil {
		out.Hosts = p.hosts.Desired
	}
	if check := c.Blueprint.ControlPlane.HealthCheck; check != nil {
		out.HealthCheck, out.Err = c.healthCheck(p.Desired.GetName(), map[string]string{clusterv1.MachineControlPlaneLabel: ""}, check)
	}
	return out
}
