// SPDX-License-Identifier: Apache-2.0

// Package blueprint combines a ClusterClass and the topology of a Cluster: the desired
// state of each part, from either.
//
// A value in the topology takes precedence over that in the class: timeouts and the
// settings of a rollout individually, labels and annotations key by key, taints and
// readiness gates as a whole list, a health check as a whole. Replicas are only from the
// topology, and if a group has limits for the cluster autoscaler, they are not set here.
package blueprint

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Blueprint is the desired state of a Cluster.
type Blueprint struct {
	Infrastructure     clusterv1.ClusterClassTemplateReference
	InfrastructureName string // the template of its name; empty for the default
	ControlPlane       ControlPlane
	MachineDeployments []MachineDeployment // in the order of the topology, which determines the upgrades that a hold affects
	MachinePools       []MachinePool
}

// Machines is the common part of control planes and groups of workers.
type Machines struct {
	// NameTemplate is the template of the object's name; empty for the default.
	NameTemplate string
	// Metadata is for the object and its machines.
	Metadata clusterv1.ObjectMeta
	// Replicas are nil when other controllers set them.
	Replicas *int32
	// Deletion has the timeouts.
	Deletion  clusterv1.MachineDeletionSpec
	Taints    []clusterv1.MachineTaint
	Overrides []clusterv1.ClusterVariable
}

// ControlPlane is the desired control plane.
type ControlPlane struct {
	Machines
	Template clusterv1.ClusterClassTemplateReference
	// Hosts is the template of its machines' infrastructure; not defined if the control
	// plane has no machines.
	Hosts          clusterv1.ClusterClassTemplateReference
	RolloutAfter   metav1.Time
	ReadinessGates []clusterv1.MachineReadinessGate
	HealthCheck    *HealthCheck // nil for none
}

// Workers is the common part of groups of workers.
type Workers struct {
	Machines
	Name, Class      string // in the topology, in the class
	Bootstrap, Hosts clusterv1.ClusterClassTemplateReference
	MinReadySeconds  *int32
	// Deferred and Held say that upgrades of the group, or of it and those after it, are
	// delayed.
	Deferred, Held bool
	// Problem is why the group cannot be determined, so that it must stay as it is.
	Problem error
}

// MachineDeployment is the desired state of a group with a MachineDeployment.
type MachineDeployment struct {
	Workers
	FailureDomain  string
	Rollout        clusterv1.MachineDeploymentRolloutSpec
	DeletionOrder  clusterv1.MachineSetDeletionOrder
	ReadinessGates []clusterv1.MachineReadinessGate
	HealthCheck    *HealthCheck // nil for none
	// MaxInFlight is how many machines are remediated at a time.
	MaxInFlight *intstr.IntOrString
}

// MachinePool is the desired state of a group with a MachinePool.
type MachinePool struct {
	Workers
	FailureDomains []string
}

// HealthCheck is the spec of a MachineHealthCheck, except for its selector.
type HealthCheck struct {
	Checks      clusterv1.MachineHealthCheckChecks
	Remediation clusterv1.MachineHealthCheckRemediation
}

// Of combines class and topology of a Cluster.
func Of(class *clusterv1.ClusterClass, t *clusterv1.Topology) Blueprint {
	b := Blueprint{
		Infrastructure: class.Spec.Infrastructure.TemplateRef, InfrastructureName: class.Spec.Infrastructure.Naming.Template,
		ControlPlane: controlPlane(&class.Spec.ControlPlane, &t.ControlPlane),
	}
	for i := range t.Workers.MachineDeployments {
		b.MachineDeployments = append(b.MachineDeployments, machineDeployment(class, &t.Workers.MachineDeployments[i]))
	}
	for i := range t.Workers.MachinePools {
		b.MachinePools = append(b.MachinePools, machinePool(class, &t.Workers.MachinePools[i]))
	}
	return b
}

func controlPlane(c *clusterv1.ControlPlaneClass, t *clusterv1.ControlPlaneTopology) ControlPlane {
	out := ControlPlane{
		Machines: Machines{
			NameTemplate: c.Naming.Template, Metadata: metadata(c.Metadata, t.Metadata), Replicas: t.Replicas,
			Deletion: deletion(c.Deletion, t.Deletion), Taints: first(t.Taints, c.Taints), Overrides: t.Variables.Overrides,
		},
		Template: c.TemplateRef, Hosts: c.MachineInfrastructure.TemplateRef, RolloutAfter: t.Rollout.After,
		ReadinessGates: first(t.ReadinessGates, c.ReadinessGates),
	}
	if !out.Hosts.IsDefined() || t.HealthCheck.Enabled != nil && !*t.HealthCheck.Enabled {
		return out
	}
	ours := t.HealthCheck
	if !ours.IsDefined() {
		ours = clusterv1.ControlPlaneTopologyHealthCheck{Checks: c.HealthCheck.Checks, Remediation: c.HealthCheck.Remediation}
	}
	if ours.IsDefined() {
		out.HealthCheck = healthCheck(ours.Checks, ours.Remediation)
	}
	return out
}

func machineDeployment(class *clusterv1.ClusterClass, t *clusterv1.MachineDeploymentTopology) MachineDeployment {
	out := MachineDeployment{Workers: Workers{Name: t.Name, Class: t.Class}}
	i := slices.IndexFunc(class.Spec.Workers.MachineDeployments, func(c clusterv1.MachineDeploymentClass) bool { return c.Class == t.Class })
	if i < 0 {
		out.Problem = lacks(class, "MachineDeployment", "machineDeployments", t.Name, t.Class)
		return out
	}
	c := &class.Spec.Workers.MachineDeployments[i]
	out.Machines = Machines{
		NameTemplate: c.Naming.Template, Metadata: metadata(c.Metadata, t.Metadata), Replicas: t.Replicas,
		Deletion: deletion(timeouts(c.Deletion), timeouts(t.Deletion)), Taints: first(t.Taints, c.Taints), Overrides: t.Variables.Overrides,
	}
	out.Bootstrap, out.Hosts = c.Bootstrap.TemplateRef, c.Infrastructure.TemplateRef
	out.MinReadySeconds = cmp.Or(t.MinReadySeconds, c.MinReadySeconds)
	out.upgrades()
	out.FailureDomain = cmp.Or(t.FailureDomain, c.FailureDomain)
	out.Rollout = rollout(c.Rollout, t.Rollout)
	out.DeletionOrder = cmp.Or(t.Deletion.Order, c.Deletion.Order)
	out.ReadinessGates = first(t.ReadinessGates, c.ReadinessGates)
	ours := t.HealthCheck
	if !ours.IsDefined() {
		ours = clusterv1.MachineDeploymentTopologyHealthCheck{Checks: c.HealthCheck.Checks, Remediation: c.HealthCheck.Remediation}
	}
	out.MaxInFlight = cmp.Or(t.HealthCheck.Remediation.MaxInFlight, c.HealthCheck.Remediation.MaxInFlight)
	if ours.IsDefined() && (t.HealthCheck.Enabled == nil || *t.HealthCheck.Enabled) {
		out.HealthCheck = healthCheck(ours.Checks, clusterv1.MachineHealthCheckRemediation{TriggerIf: ours.Remediation.TriggerIf, TemplateRef: ours.Remediation.TemplateRef})
	}
	return out
}

func machinePool(class *clusterv1.ClusterClass, t *clusterv1.MachinePoolTopology) MachinePool {
	out := MachinePool{Workers: Workers{Name: t.Name, Class: t.Class}}
	i := slices.IndexFunc(class.Spec.Workers.MachinePools, func(c clusterv1.MachinePoolClass) bool { return c.Class == t.Class })
	if i < 0 {
		out.Problem = lacks(class, "MachinePool", "machinePools", t.Name, t.Class)
		return out
	}
	c := &class.Spec.Workers.MachinePools[i]
	out.Machines = Machines{
		NameTemplate: c.Naming.Template, Metadata: metadata(c.Metadata, t.Metadata), Replicas: t.Replicas,
		Deletion: deletion(c.Deletion, t.Deletion), Taints: first(t.Taints, c.Taints), Overrides: t.Variables.Overrides,
	}
	out.Bootstrap, out.Hosts = c.Bootstrap.TemplateRef, c.Infrastructure.TemplateRef
	out.MinReadySeconds = cmp.Or(t.MinReadySeconds, c.MinReadySeconds)
	out.upgrades()
	out.FailureDomains = first(t.FailureDomains, c.FailureDomains)
	return out
}

func lacks(class *clusterv1.ClusterClass, kind, field, name, of string) error {
	return fmt.Errorf("%s %s of the topology: ClusterClass %s/%s has no class %q in spec.workers.%s: correct its class, or add it there", kind, name, class.Namespace, class.Name, of, field)
}

// upgrades removes the annotations that control upgrades, which are for the topology
// only, and records them. It leaves replicas to the autoscaler if the group has its
// limits.
func (w *Workers) upgrades() {
	annotations := w.Metadata.Annotations
	_, w.Deferred = annotations[clusterv1.ClusterTopologyDeferUpgradeAnnotation]
	_, w.Held = annotations[clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation]
	delete(annotations, clusterv1.ClusterTopologyDeferUpgradeAnnotation)
	delete(annotations, clusterv1.ClusterTopologyHoldUpgradeSequenceAnnotation)
	_, least := annotations[clusterv1.AutoscalerMinSizeAnnotation]
	_, most := annotations[clusterv1.AutoscalerMaxSizeAnnotation]
	if least && most {
		w.Replicas = nil
	}
}

func metadata(class, topology clusterv1.ObjectMeta) clusterv1.ObjectMeta {
	return clusterv1.ObjectMeta{Labels: joined(class.Labels, topology.Labels), Annotations: joined(class.Annotations, topology.Annotations)}
}

func joined(class, topology map[string]string) map[string]string {
	if len(class)+len(topology) == 0 {
		return nil
	}
	out := map[string]string{}
	maps.Copy(out, class)
	maps.Copy(out, topology)
	return out
}

// first is the first list that is not empty.
func first[T any](lists ...[]T) []T {
	for _, l := range lists {
		if len(l) > 0 {
			return l
		}
	}
	return nil
}

func deletion(class, topology clusterv1.MachineDeletionSpec) clusterv1.MachineDeletionSpec {
	return clusterv1.MachineDeletionSpec{
		NodeDrainTimeoutSeconds:        cmp.Or(topology.NodeDrainTimeoutSeconds, class.NodeDrainTimeoutSeconds),
		NodeVolumeDetachTimeoutSeconds: cmp.Or(topology.NodeVolumeDetachTimeoutSeconds, class.NodeVolumeDetachTimeoutSeconds),
		NodeDeletionTimeoutSeconds:     cmp.Or(topology.NodeDeletionTimeoutSeconds, class.NodeDeletionTimeoutSeconds),
	}
}

func timeouts(d clusterv1.MachineDeploymentTopologyMachineDeletionSpec) clusterv1.MachineDeletionSpec {
	return clusterv1.MachineDeletionSpec{
		NodeDrainTimeoutSeconds: d.NodeDrainTimeoutSeconds, NodeVolumeDetachTimeoutSeconds: d.NodeVolumeDetachTimeoutSeconds, NodeDeletionTimeoutSeconds: d.NodeDeletionTimeoutSeconds,
	}
}

// rollout takes each setting from the topology, else from the class: setting only the
// time leaves the strategy of the class. Settings of a rolling update have no effect
// with another strategy, and are refused there.
func rollout(class clusterv1.MachineDeploymentClassRolloutSpec, topology clusterv1.MachineDeploymentRolloutSpec) clusterv1.MachineDeploymentRolloutSpec {
	out := topology
	out.Strategy.Type = cmp.Or(topology.Strategy.Type, class.Strategy.Type)
	if out.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType {
		return out
	}
	to, from := &out.Strategy.RollingUpdate, class.Strategy.RollingUpdate
	to.MaxSurge = cmp.Or(to.MaxSurge, from.MaxSurge)
	to.MaxUnavailable = cmp.Or(to.MaxUnavailable, from.MaxUnavailable)
	return out
}

// startupTimeout is how long a Machine can take to have a Node by default, as the API
// documents it. It is set explicitly, so that no default of admission makes the object
// differ from its desired state.
const startupTimeout = 600

func healthCheck(checks clusterv1.MachineHealthCheckChecks, remediation clusterv1.MachineHealthCheckRemediation) *HealthCheck {
	checks.NodeStartupTimeoutSeconds = cmp.Or(checks.NodeStartupTimeoutSeconds, new(int32(startupTimeout)))
	return &HealthCheck{Checks: checks, Remediation: remediation}
}

// Templates are the templates of the Cluster, in the order of its parts, without those
// that are not defined.
func (b Blueprint) Templates() (all []clusterv1.ClusterClassTemplateReference) {
	all = append(all, b.Infrastructure, b.ControlPlane.Template, b.ControlPlane.Hosts)
	for i := range b.MachineDeployments {
		all = append(all, b.MachineDeployments[i].Bootstrap, b.MachineDeployments[i].Hosts)
	}
	for i := range b.MachinePools {
		all = append(all, b.MachinePools[i].Bootstrap, b.MachinePools[i].Hosts)
	}
	return slices.DeleteFunc(all, func(t clusterv1.ClusterClassTemplateReference) bool { return !t.IsDefined() })
}
