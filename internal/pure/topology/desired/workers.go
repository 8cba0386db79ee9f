// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/pure/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/pure/topology/builtins"
	"github.com/capstan-dev/capstan/internal/pure/topology/naming"
	"github.com/capstan-dev/capstan/internal/pure/topology/patches"
	"github.com/capstan-dev/capstan/internal/pure/topology/upgrade"
)

// group is a group of workers on its way.
type group struct {
	of               *blueprint.Workers
	deployment       *blueprint.MachineDeployment // nil for a pool
	pool             *blueprint.MachinePool
	decision         upgrade.Decision
	current          Group
	name             string
	labels           map[string]string // that it is found by, and its machines
	bootstrap, hosts *made
	err              error
}

// kinds is what differs between MachineDeployments and MachinePools as far as
// templates go.
type kinds struct {
	kind, label      string
	subject          naming.Subject
	bootstrap, hosts patches.Role
	builtins         func(builtins.Group) hooksv1.Builtins
}

var (
	deploymentKind = kinds{upgrade.MachineDeployment, clusterv1.ClusterTopologyMachineDeploymentNameLabel, naming.MachineDeployment, patches.DeploymentBootstrap, patches.DeploymentInfrastructure, builtins.MachineDeployment}
	poolKind       = kinds{upgrade.MachinePool, clusterv1.ClusterTopologyMachinePoolNameLabel, naming.MachinePool, patches.PoolBootstrap, patches.PoolInfrastructure, builtins.MachinePool}
)

func (c *computation) draftDeployment(b *blueprint.MachineDeployment) *group {
	return c.draftGroup(&group{of: &b.Workers, deployment: b}, &deploymentKind, c.Current.Deployments[b.Name])
}

func (c *computation) draftPool(b *blueprint.MachinePool) *group {
	return c.draftGroup(&group{of: &b.Workers, pool: b}, &poolKind, c.Current.Pools[b.Name])
}

func (c *computation) draftGroup(g *group, k *kinds, current *Group) *group {
	g.decision = c.Plan.Workers[upgrade.GroupKey{Kind: k.kind, Name: g.of.Name}]
	if current != nil {
		g.current = *current
	}
	if g.err = g.of.Problem; g.err != nil {
		return g
	}
	g.labels = joined(c.ours(), map[string]string{k.label: g.of.Name})
	if g.err = c.nameGroup(g, k); g.err != nil {
		g.err = fmt.Errorf("%s %s of the topology: %w", k.kind, g.of.Name, g.err)
		return g
	}
	begin := func(role patches.Role, ref clusterv1.ClusterClassTemplateReference, current *unstructured.Unstructured) *made {
		m := c.begin(made{
			Item: patches.Item{Role: role, Group: g.of.Name, Class: g.of.Class, Overrides: g.of.Overrides, Holder: hooksv1.HolderReference{
				APIVersion: clusterv1.GroupVersion().String(), Kind: k.kind, Namespace: c.Cluster.Namespace, Name: g.name,
			}},
			name:    name{subject: k.subject, topology: g.of.Name, parts: []string{g.of.Name}},
			current: current,
		}, ref, clusterv1.ObjectMeta{}, g.labels)
		if !copied[role] && m.err == nil {
			c.own(m.Desired)
		}
		c.provide(m)
		return m
	}
	g.bootstrap, g.hosts = begin(k.bootstrap, g.of.Bootstrap, g.current.Bootstrap), begin(k.hosts, g.of.Hosts, g.current.Hosts)
	known := builtins.Group{
		Name: g.name, Version: g.decision.Version, Replicas: g.of.Replicas, TopologyName: g.of.Name, Class: g.of.Class,
		Metadata: clusterv1.ObjectMeta{Labels: joined(g.of.Metadata.Labels, g.labels), Annotations: g.of.Metadata.Annotations},
	}
	if g.bootstrap.err == nil {
		known.Bootstrap = g.bootstrap.Desired.GetName()
	}
	if g.hosts.err == nil {
		known.Infrastructure = g.hosts.Desired.GetName()
	}
	g.bootstrap.Builtins, g.hosts.Builtins = k.builtins(known), k.builtins(known)
	return g
}

func (c *computation) nameGroup(g *group, k *kinds) (err error) {
	if g.current.Object != nil {
		g.name = g.current.Object.GetName()
	} else if g.name, err = c.names.pick(name{kind: k.kind, text: g.of.NameTemplate, subject: k.subject, topology: g.of.Name, parts: []string{k.kind, g.of.Name}}); err != nil {
		return err
	}
	return c.names.take(k.kind, g.name, fmt.Sprintf("%s %s of the topology", k.kind, g.of.Name))
}

// part is the outcome.
func (g *group) part(c *computation) GroupPart {
	out := GroupPart{Name: g.of.Name, Skip: g.decision.State == upgrade.PendingCreation}
	if g.err != nil {
		out.Err = g.err
		return out
	}
	if out.Skip {
		return out
	}
	k := &poolKind
	if g.deployment != nil {
		k = &deploymentKind
	}
	for _, m := range []*made{g.bootstrap, g.hosts} {
		if g.deployment != nil {
			c.settle(m)
		}
		if m.err != nil {
			out.Err = fmt.Errorf("%s %s of the topology: %w", k.kind, g.of.Name, m.err)
			return out
		}
	}
	spec := g.machine(c)
	spec.Version, spec.Bootstrap.ConfigRef, spec.InfrastructureRef = g.decision.Version, to(g.bootstrap.Desired), to(g.hosts.Desired)
	out.Bootstrap, out.Hosts = g.bootstrap.Desired, g.hosts.Desired
	if g.deployment != nil {
		out.Object, out.Err = c.machineDeployment(g, spec)
	} else {
		out.Object, out.Err = c.machinePool(g, spec)
	}
	if out.Err == nil && g.deployment != nil && g.deployment.HealthCheck != nil {
		out.HealthCheck, out.Err = c.healthCheck(g.name, map[string]string{k.label: g.of.Name}, g.deployment.HealthCheck)
	}
	return out
}

// machine is what the machines of a group have, but for version and references.
func (g *group) machine(c *computation) clusterv1.MachineSpec {
	spec := clusterv1.MachineSpec{
		ClusterName: c.Cluster.Name, MinReadySeconds: g.of.MinReadySeconds, Deletion: g.of.Deletion, Taints: g.of.Taints,
	}
	if g.deployment != nil {
		spec.FailureDomain, spec.ReadinessGates = g.deployment.FailureDomain, g.deployment.ReadinessGates
	}
	return spec
}

func (g *group) template(spec clusterv1.MachineSpec) clusterv1.MachineTemplateSpec {
	return clusterv1.MachineTemplateSpec{
		ObjectMeta: clusterv1.ObjectMeta{Labels: joined(g.of.Metadata.Labels, g.labels), Annotations: g.of.Metadata.Annotations}, Spec: spec,
	}
}

// meta is the metadata of an object of Cluster API's own.
func (c *computation) meta(name string, labels, annotations map[string]string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: c.Cluster.Namespace, Name: name, Labels: labels, Annotations: annotations}
	if c.Cluster.UID != "" {
		out.OwnerReferences = []metav1.OwnerReference{c.owner()}
	}
	return out
}

func (c *computation) machineDeployment(g *group, machine clusterv1.MachineSpec) (*unstructured.Unstructured, error) {
	b, template := g.deployment, g.template(machine)
	md := &clusterv1.MachineDeployment{
		ObjectMeta: c.meta(g.name, template.Labels, template.Annotations),
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: c.Cluster.Name, Replicas: b.Replicas, Rollout: b.Rollout,
			Selector: metav1.LabelSelector{MatchLabels: g.labels}, Template: template,
			Remediation: clusterv1.MachineDeploymentRemediationSpec{MaxInFlight: b.MaxInFlight},
			Deletion:    clusterv1.MachineDeploymentDeletionSpec{Order: b.DeletionOrder},
		},
	}
	return intent(md, upgrade.MachineDeployment)
}

func (c *computation) machinePool(g *group, machine clusterv1.MachineSpec) (*unstructured.Unstructured, error) {
	template := g.template(machine)
	mp := &clusterv1.MachinePool{
		ObjectMeta: c.meta(g.name, template.Labels, template.Annotations),
		Spec: clusterv1.MachinePoolSpec{
			ClusterName: c.Cluster.Name, Replicas: g.of.Replicas, Template: template, FailureDomains: g.pool.FailureDomains,
		},
	}
	return intent(mp, upgrade.MachinePool)
}

// healthCheck is a MachineHealthCheck of the name of what makes the machines.
func (c *computation) healthCheck(name string, selects map[string]string, of *blueprint.HealthCheck) (*unstructured.Unstructured, error) {
	check := &clusterv1.MachineHealthCheck{
		ObjectMeta: c.meta(name, c.ours(), nil),
		Spec: clusterv1.MachineHealthCheckSpec{
			ClusterName: c.Cluster.Name, Checks: of.Checks, Remediation: of.Remediation,
			Selector: metav1.LabelSelector{MatchLabels: joined(map[string]string{clusterv1.ClusterTopologyOwnedLabel: ""}, selects)},
		},
	}
	return intent(check, "MachineHealthCheck")
}

// intent is what an object of a Go type says: what it leaves empty is left to
// others.
func intent(obj any, kind string) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(obj)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := utiljson.Unmarshal(text, &u.Object); err != nil {
		return nil, err
	}
	delete(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	u.SetAPIVersion(clusterv1.GroupVersion().String())
	u.SetKind(kind)
	return u, nil
}
