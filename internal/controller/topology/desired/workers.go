// SPDX-License-Identifier: Apache-2.0

package desired

import (
	"cmp"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
)

// group is a group of workers during the computation.
type group struct {
	*kinds
	of               *blueprint.Workers
	deployment       *blueprint.MachineDeployment // nil for a pool
	pool             *blueprint.MachinePool
	decision         upgrade.Decision
	current          Group
	name             string
	labels           map[string]string // by which it and its machines are found
	bootstrap, hosts *made
	err              error // it could not be computed
}

// kinds holds the differences between MachineDeployments and MachinePools with regard to
// templates.
type kinds struct {
	kind, label string
	subject     NameSubject
	seed, host  patches.Role
	known       func(patches.Group) hooksv1.Builtins
}

var (
	deploymentKind = &kinds{upgrade.MachineDeployment, clusterv1.ClusterTopologyMachineDeploymentNameLabel, NameOfMachineDeployment, patches.DeploymentBootstrap, patches.DeploymentInfrastructure, patches.MachineDeploymentBuiltins}
	poolKind       = &kinds{upgrade.MachinePool, clusterv1.ClusterTopologyMachinePoolNameLabel, NameOfMachinePool, patches.PoolBootstrap, patches.PoolInfrastructure, patches.MachinePoolBuiltins}
)

func (c *computation) draftDeployment(b *blueprint.MachineDeployment) *group {
	return c.draftGroup(&group{kinds: deploymentKind, of: &b.Workers, deployment: b}, c.Current.Deployments[b.Name])
}

func (c *computation) draftPool(b *blueprint.MachinePool) *group {
	return c.draftGroup(&group{kinds: poolKind, of: &b.Workers, pool: b}, c.Current.Pools[b.Name])
}

func (c *computation) draftGroup(g *group, current *Group) *group {
	g.decision = c.Plan.Workers[upgrade.GroupKey{Kind: g.kind, Name: g.of.Name}]
	if current != nil {
		g.current = *current
	}
	if g.err = g.of.Problem; g.err != nil {
		return g
	}
	g.labels = joined(c.ours(), map[string]string{g.label: g.of.Name})
	if g.err = c.nameGroup(g); g.err != nil {
		g.err = g.wrap(g.err)
		return g
	}
	g.bootstrap, g.hosts = c.draftOf(g, g.seed, g.of.Bootstrap, g.current.Bootstrap), c.draftOf(g, g.host, g.of.Hosts, g.current.Hosts)
	return g
}

// draftOf drafts a template of a MachineDeployment, or an object of a MachinePool.
func (c *computation) draftOf(g *group, role patches.Role, ref clusterv1.ClusterClassTemplateReference, current *unstructured.Unstructured) *made {
	m := c.begin(made{
		Item: patches.Item{Role: role, Group: g.of.Name, Class: g.of.Class, Overrides: g.of.Overrides, Holder: hooksv1.HolderReference{
			APIVersion: clusterv1.GroupVersion().String(), Kind: g.kind, Namespace: c.Cluster.Namespace, Name: g.name,
		}},
		name:    name{subject: g.subject, topology: g.of.Name, parts: []string{g.of.Name}},
		current: current,
		stays:   g.waits(),
	}, ref, clusterv1.ObjectMeta{}, g.labels)
	c.call(m)
	if m.err == nil && !copied[role] {
		c.own(m.Desired)
		if current != nil {
			m.err = ObjectChange(current, m.Desired)
		}
	}
	return m
}

// waits reports whether the group must keep its machines as they are, or must not be
// created, until its turn.
func (g *group) waits() bool {
	return g.decision.State != upgrade.Current && g.decision.State != upgrade.Upgrade
}

func (c *computation) nameGroup(g *group) (err error) {
	if g.current.Object != nil {
		g.name = g.current.Object.GetName()
	} else if g.name, err = c.names.pick(name{kind: g.kind, text: g.of.NameTemplate, subject: g.subject, topology: g.of.Name, parts: []string{g.kind, g.of.Name}}); err != nil {
		return err
	}
	return c.names.take(g.kind, g.name, g.String())
}

// String names the group in errors.
func (g *group) String() string { return fmt.Sprintf("%s %s of the topology", g.kind, g.of.Name) }

func (g *group) wrap(err error) error { return fmt.Errorf("%s: %w", g, err) }

func (g *group) describe() {
	if g.err != nil {
		return
	}
	known := g.known(patches.Group{
		Name: g.name, Version: g.decision.Version, Replicas: g.of.Replicas, TopologyName: g.of.Name, Class: g.of.Class,
		Metadata:  clusterv1.ObjectMeta{Labels: joined(g.of.Metadata.Labels, g.labels), Annotations: g.of.Metadata.Annotations},
		Bootstrap: g.bootstrap.calledSoFar(), Infrastructure: g.hosts.calledSoFar(),
	})
	g.bootstrap.Builtins, g.hosts.Builtins = known, known
}

// part returns the result.
func (g *group) part(c *computation) GroupPart {
	out := GroupPart{Name: g.of.Name, Part: Part{Err: g.err}}
	if g.err != nil {
		return out
	}
	err := cmp.Or(g.bootstrap.err, g.hosts.err)
	if err != nil {
		out.Err = g.wrap(err)
	}
	spec, rollout := g.machine(c), clusterv1.MachineDeploymentRolloutSpec{}
	if g.deployment != nil {
		rollout = g.deployment.Rollout
	}
	switch {
	case g.current.Object == nil && g.waits():
		return out
	case g.waits():
		return g.wait(c, out, spec, rollout)
	case err == nil && c.failed == nil:
		spec.Version, spec.Bootstrap.ConfigRef, spec.InfrastructureRef = g.decision.Version, to(g.bootstrap.wanted), to(g.hosts.wanted)
		out.Bootstrap, out.Hosts = g.bootstrap.wanted, g.hosts.wanted
	case g.current.Object == nil:
		return out
	default:
		if err := g.keep(&spec, &rollout); err != nil {
			out.Err = cmp.Or(out.Err, g.wrap(err))
			return out
		}
		out.Bootstrap, out.Hosts = g.bootstrap.lost(spec.Bootstrap.ConfigRef), g.hosts.lost(spec.InfrastructureRef)
	}
	out.Object, err = g.object(c, spec, rollout)
	out.Err = cmp.Or(out.Err, err)
	return g.withHealthCheck(c, out)
}

// wait leaves a group as it was applied, except for its health check.
func (g *group) wait(c *computation, out GroupPart, spec clusterv1.MachineSpec, rollout clusterv1.MachineDeploymentRolloutSpec) GroupPart {
	applied, err := c.applied(g.current.Object)
	if applied == nil || err != nil {
		out.Err = cmp.Or(out.Err, err)
		return out
	}
	var is clusterv1.MachineSpec
	if err := g.read(applied, &is, new(metav1.Time)); err != nil {
		out.Err = cmp.Or(out.Err, g.wrap(err))
		return out
	}
	out.Object, out.Bootstrap, out.Hosts = applied, g.bootstrap.lost(is.Bootstrap.ConfigRef), g.hosts.lost(is.InfrastructureRef)
	if out.Err == nil && c.failed == nil {
		wanted, err := g.object(c, spec, rollout)
		if err != nil {
			out.Err = err
			return out
		}
		const machine = "spec.template.spec."
		out.Held = held(applied, wanted, machine+"version", machine+"bootstrap", machine+"infrastructureRef")
		if g.bootstrap.differs(c) {
			out.Held = append(out.Held, machine+"bootstrap.configRef")
		}
		if g.hosts.differs(c) {
			out.Held = append(out.Held, machine+"infrastructureRef")
		}
	}
	return g.withHealthCheck(c, out)
}

// object builds a group with its machines.
func (g *group) object(c *computation, spec clusterv1.MachineSpec, rollout clusterv1.MachineDeploymentRolloutSpec) (*unstructured.Unstructured, error) {
	if g.deployment == nil {
		return c.machinePool(g, spec)
	}
	return c.machineDeployment(g, spec, rollout)
}

func (g *group) withHealthCheck(c *computation, out GroupPart) GroupPart {
	if out.Object != nil && g.deployment != nil && g.deployment.HealthCheck != nil {
		check, err := c.healthCheck(g.name, map[string]string{g.label: g.of.Name}, g.deployment.HealthCheck)
		out.HealthCheck, out.Err = check, cmp.Or(out.Err, err)
	}
	return out
}

// keep copies from the current object all fields that cause a replacement of machines.
func (g *group) keep(spec *clusterv1.MachineSpec, rollout *clusterv1.MachineDeploymentRolloutSpec) error {
	var is clusterv1.MachineSpec
	if err := g.read(g.current.Object, &is, &rollout.After); err != nil {
		return err
	}
	spec.Version, spec.Bootstrap.ConfigRef, spec.InfrastructureRef, spec.FailureDomain = is.Version, is.Bootstrap.ConfigRef, is.InfrastructureRef, is.FailureDomain
	return nil
}

// read reads the template of a group's machines, and when it replaces them.
func (g *group) read(object *unstructured.Unstructured, machine *clusterv1.MachineSpec, after *metav1.Time) error {
	var is struct {
		Spec struct {
			Rollout  clusterv1.MachineDeploymentRolloutSpec
			Template clusterv1.MachineTemplateSpec
		}
	}
	text, err := json.Marshal(map[string]any{"spec": object.Object["spec"]})
	if err == nil {
		err = json.Unmarshal(text, &is)
	}
	if err != nil {
		return fmt.Errorf("read %s %s: %w", g.kind, g.name, err)
	}
	*machine, *after = is.Spec.Template.Spec, is.Spec.Rollout.After
	return nil
}

// machine is the spec of a group's machines, except for version and references.
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

// meta is the metadata of an object of a Cluster API kind.
func (c *computation) meta(name string, labels, annotations map[string]string) metav1.ObjectMeta {
	out := metav1.ObjectMeta{Namespace: c.Cluster.Namespace, Name: name, Labels: labels, Annotations: annotations}
	if c.Cluster.UID != "" {
		out.OwnerReferences = []metav1.OwnerReference{c.owner()}
	}
	return out
}

func (c *computation) machineDeployment(g *group, machine clusterv1.MachineSpec, rollout clusterv1.MachineDeploymentRolloutSpec) (*unstructured.Unstructured, error) {
	b, template := g.deployment, g.template(machine)
	md := &clusterv1.MachineDeployment{
		ObjectMeta: c.meta(g.name, template.Labels, template.Annotations),
		Spec: clusterv1.MachineDeploymentSpec{
			ClusterName: c.Cluster.Name, Replicas: b.Replicas, Rollout: rollout,
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

// healthCheck builds a MachineHealthCheck with the name of the object whose machines it
// checks.
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

// intent converts an object of a Go type to a partial object: empty fields are left to
// other field owners.
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
