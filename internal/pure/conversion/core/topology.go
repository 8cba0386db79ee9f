// SPDX-License-Identifier: Apache-2.0

package core

import (
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func topologyUp(from *clusterv1beta1.Topology, to *clusterv1.Topology) {
	*to = clusterv1.Topology{
		ClassRef:     clusterv1.ClusterClassRef{Name: from.Class, Namespace: from.ClassNamespace},
		Version:      from.Version,
		ControlPlane: controlPlaneTopologyUp(&from.ControlPlane),
		Variables:    variablesUp(from.Variables),
	}
	if w := from.Workers; w != nil {
		to.Workers.MachineDeployments = rules.List(w.MachineDeployments, machineDeploymentTopologyUp)
		to.Workers.MachinePools = rules.List(w.MachinePools, machinePoolTopologyUp)
	}
}

func topologyDown(from *clusterv1.Topology, namespace string) *clusterv1beta1.Topology {
	return &clusterv1beta1.Topology{
		Class:          from.ClassRef.Name,
		ClassNamespace: from.ClassRef.Namespace,
		Version:        from.Version,
		ControlPlane:   controlPlaneTopologyDown(&from.ControlPlane, namespace),
		Workers: rules.Pointer(clusterv1beta1.WorkersTopology{
			MachineDeployments: rules.List(from.Workers.MachineDeployments, func(from *clusterv1.MachineDeploymentTopology, to *clusterv1beta1.MachineDeploymentTopology) {
				machineDeploymentTopologyDown(from, to, namespace)
			}),
			MachinePools: rules.List(from.Workers.MachinePools, machinePoolTopologyDown),
		}),
		Variables: variablesDown(from.Variables),
	}
}

func controlPlaneTopologyUp(from *clusterv1beta1.ControlPlaneTopology) clusterv1.ControlPlaneTopology {
	to := clusterv1.ControlPlaneTopology{
		Metadata:       clusterv1.ObjectMeta(from.Metadata),
		Replicas:       from.Replicas,
		Rollout:        from.Rollout,
		Deletion:       rules.TimeoutsUp(from.NodeTimeouts),
		Taints:         from.Taints,
		ReadinessGates: readinessGatesUp(from.ReadinessGates),
		Variables:      clusterv1.ControlPlaneVariables{Overrides: variablesUp(rules.Value(from.Variables).Overrides)},
	}
	if h := from.MachineHealthCheck; h != nil {
		to.HealthCheck.Enabled = h.Enable
		to.HealthCheck.Checks, to.HealthCheck.Remediation = healthCheckUp(&h.MachineHealthCheckClass)
	}
	return to
}

func controlPlaneTopologyDown(from *clusterv1.ControlPlaneTopology, namespace string) clusterv1beta1.ControlPlaneTopology {
	to := clusterv1beta1.ControlPlaneTopology{
		Metadata:       clusterv1beta1.ObjectMeta(from.Metadata),
		Replicas:       from.Replicas,
		Rollout:        from.Rollout,
		NodeTimeouts:   rules.TimeoutsDown(from.Deletion),
		Taints:         from.Taints,
		ReadinessGates: readinessGatesDown(from.ReadinessGates),
		Variables:      overridesDown(from.Variables.Overrides),
	}
	if h := &from.HealthCheck; !rules.IsZero(*h) {
		to.MachineHealthCheck = &clusterv1beta1.MachineHealthCheckTopology{
			Enable: h.Enabled, MachineHealthCheckClass: healthCheckDown(&h.Checks, &h.Remediation, namespace),
		}
	}
	return to
}

func machineDeploymentTopologyUp(from *clusterv1beta1.MachineDeploymentTopology, to *clusterv1.MachineDeploymentTopology) {
	*to = clusterv1.MachineDeploymentTopology{
		Metadata:        clusterv1.ObjectMeta(from.Metadata),
		Class:           from.Class,
		Name:            from.Name,
		FailureDomain:   rules.Value(from.FailureDomain),
		Replicas:        from.Replicas,
		Taints:          from.Taints,
		MinReadySeconds: from.MinReadySeconds,
		ReadinessGates:  readinessGatesUp(from.ReadinessGates),
		Rollout:         clusterv1.MachineDeploymentRolloutSpec{After: from.Rollout.After},
		Variables:       clusterv1.MachineDeploymentVariables{Overrides: variablesUp(rules.Value(from.Variables).Overrides)},
	}
	if h := from.MachineHealthCheck; h != nil {
		to.HealthCheck.Enabled = h.Enable
		to.HealthCheck.Checks, to.HealthCheck.Remediation = workerHealthCheckUp(&h.MachineHealthCheckClass)
	}
	s := strategyUp(from.Strategy)
	to.Rollout.Strategy, to.HealthCheck.Remediation.MaxInFlight = s.rollout, s.maxInFlight
	to.Deletion = workerDeletionUp(from.NodeTimeouts, s.order)
}

func machineDeploymentTopologyDown(from *clusterv1.MachineDeploymentTopology, to *clusterv1beta1.MachineDeploymentTopology, namespace string) {
	*to = clusterv1beta1.MachineDeploymentTopology{
		Metadata:        clusterv1beta1.ObjectMeta(from.Metadata),
		Class:           from.Class,
		Name:            from.Name,
		FailureDomain:   rules.Pointer(from.FailureDomain),
		Replicas:        from.Replicas,
		NodeTimeouts:    workerTimeoutsDown(from.Deletion),
		Taints:          from.Taints,
		MinReadySeconds: from.MinReadySeconds,
		ReadinessGates:  readinessGatesDown(from.ReadinessGates),
		Strategy:        strategyDown(strategy{from.Rollout.Strategy, from.Deletion.Order, from.HealthCheck.Remediation.MaxInFlight}),
		Rollout:         clusterv1.ControlPlaneTopologyRolloutSpec{After: from.Rollout.After},
		Variables:       overridesDown(from.Variables.Overrides),
	}
	h := from.HealthCheck
	h.Remediation.MaxInFlight = nil // it is in the strategy
	if !rules.IsZero(h) {
		to.MachineHealthCheck = &clusterv1beta1.MachineHealthCheckTopology{
			Enable: h.Enabled, MachineHealthCheckClass: workerHealthCheckDown(&h.Checks, &h.Remediation, namespace),
		}
	}
}

func machinePoolTopologyUp(from *clusterv1beta1.MachinePoolTopology, to *clusterv1.MachinePoolTopology) {
	*to = clusterv1.MachinePoolTopology{
		Metadata:        clusterv1.ObjectMeta(from.Metadata),
		Class:           from.Class,
		Name:            from.Name,
		FailureDomains:  from.FailureDomains,
		Deletion:        rules.TimeoutsUp(from.NodeTimeouts),
		Taints:          from.Taints,
		MinReadySeconds: from.MinReadySeconds,
		Replicas:        from.Replicas,
		Variables:       clusterv1.MachinePoolVariables{Overrides: variablesUp(rules.Value(from.Variables).Overrides)},
	}
}

func machinePoolTopologyDown(from *clusterv1.MachinePoolTopology, to *clusterv1beta1.MachinePoolTopology) {
	*to = clusterv1beta1.MachinePoolTopology{
		Metadata:        clusterv1beta1.ObjectMeta(from.Metadata),
		Class:           from.Class,
		Name:            from.Name,
		FailureDomains:  from.FailureDomains,
		NodeTimeouts:    rules.TimeoutsDown(from.Deletion),
		Taints:          from.Taints,
		MinReadySeconds: from.MinReadySeconds,
		Replicas:        from.Replicas,
		Variables:       overridesDown(from.Variables.Overrides),
	}
}

// variablesUp drops the source of a value's definition, which has long had no effect.
func variablesUp(variables []clusterv1beta1.ClusterVariable) []clusterv1.ClusterVariable {
	return rules.List(variables, func(from *clusterv1beta1.ClusterVariable, to *clusterv1.ClusterVariable) {
		to.Name, to.Value = from.Name, from.Value
	})
}

func variablesDown(variables []clusterv1.ClusterVariable) []clusterv1beta1.ClusterVariable {
	return rules.List(variables, func(from *clusterv1.ClusterVariable, to *clusterv1beta1.ClusterVariable) {
		to.Name, to.Value = from.Name, from.Value
	})
}

func overridesDown(overrides []clusterv1.ClusterVariable) *clusterv1beta1.Variables {
	return rules.Pointer(clusterv1beta1.Variables{Overrides: variablesDown(overrides)})
}

// workerHealthCheckUp is healthCheckUp for groups of workers, whose limit of concurrent
// replacements is from the strategy.
func workerHealthCheckUp(from *clusterv1beta1.MachineHealthCheckClass) (clusterv1.MachineHealthCheckChecks, clusterv1.MachineDeploymentTopologyHealthCheckRemediation) {
	checks, r := healthCheckUp(from)
	return checks, clusterv1.MachineDeploymentTopologyHealthCheckRemediation{TriggerIf: r.TriggerIf, TemplateRef: r.TemplateRef}
}

func workerHealthCheckDown(checks *clusterv1.MachineHealthCheckChecks, r *clusterv1.MachineDeploymentTopologyHealthCheckRemediation, namespace string) clusterv1beta1.MachineHealthCheckClass {
	return healthCheckDown(checks, &clusterv1.MachineHealthCheckRemediation{TriggerIf: r.TriggerIf, TemplateRef: r.TemplateRef}, namespace)
}

func workerDeletionUp(t clusterv1beta1.NodeTimeouts, order clusterv1.MachineSetDeletionOrder) clusterv1.MachineDeploymentTopologyMachineDeletionSpec {
	d := rules.TimeoutsUp(t)
	return clusterv1.MachineDeploymentTopologyMachineDeletionSpec{
		Order:                          order,
		NodeDrainTimeoutSeconds:        d.NodeDrainTimeoutSeconds,
		NodeVolumeDetachTimeoutSeconds: d.NodeVolumeDetachTimeoutSeconds,
		NodeDeletionTimeoutSeconds:     d.NodeDeletionTimeoutSeconds,
	}
}

func workerTimeoutsDown(d clusterv1.MachineDeploymentTopologyMachineDeletionSpec) clusterv1beta1.NodeTimeouts {
	return rules.TimeoutsDown(clusterv1.MachineDeletionSpec{
		NodeDrainTimeoutSeconds:        d.NodeDrainTimeoutSeconds,
		NodeVolumeDetachTimeoutSeconds: d.NodeVolumeDetachTimeoutSeconds,
		NodeDeletionTimeoutSeconds:     d.NodeDeletionTimeoutSeconds,
	})
}
