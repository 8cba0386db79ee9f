// SPDX-License-Identifier: Apache-2.0

package core

import (
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func clusterClass() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.ClusterClass, clusterv1.ClusterClass]{
		Kind: "ClusterClass", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: clusterClassUp, Down: clusterClassDown,
		Keep: func(c *clusterv1.ClusterClass) any { return rules.Data(c.TypeMeta, c.Spec, c.Status) },
	})
}

func clusterClassUp(old *clusterv1beta1.ClusterClass, hub, kept *clusterv1.ClusterClass) error {
	from, before := &old.Spec, rules.Value(kept)
	hub.Spec = clusterv1.ClusterClassSpec{
		AvailabilityGates: availabilityGatesUp(from.AvailabilityGates),
		Infrastructure: clusterv1.InfrastructureClass{
			TemplateRef: templateUp(from.Infrastructure.Ref),
			Naming:      namingUp(from.InfrastructureNamingStrategy),
		},
		ControlPlane: controlPlaneClassUp(&from.ControlPlane),
		Workers: clusterv1.WorkersClass{
			MachineDeployments: rules.List(from.Workers.MachineDeployments, machineDeploymentClassUp),
			MachinePools:       rules.List(from.Workers.MachinePools, machinePoolClassUp),
		},
		Variables: rules.List(from.Variables, func(from *clusterv1beta1.ClusterClassVariable, to *clusterv1.ClusterClassVariable) {
			before := rules.Find(before.Spec.Variables, func(v *clusterv1.ClusterClassVariable) bool { return v.Name == from.Name })
			*to = clusterv1.ClusterClassVariable{
				Name:                      from.Name,
				Required:                  &from.Required,
				DeprecatedV1Beta1Metadata: clusterv1.ClusterClassVariableMetadata(from.Metadata),
			}
			schemaUp(&from.Schema.OpenAPIV3Schema, &to.Schema.OpenAPIV3Schema, before.Schema.OpenAPIV3Schema)
		}),
		Patches:            patchesUp(from.Patches, before.Spec.Patches),
		Upgrade:            from.Upgrade,
		KubernetesVersions: from.KubernetesVersions,
	}
	clusterClassStatusUp(&old.Status, &hub.Status, before.Status.Variables)
	return nil
}

func clusterClassStatusUp(from *clusterv1beta1.ClusterClassStatus, to *clusterv1.ClusterClassStatus, before []clusterv1.ClusterClassStatusVariable) {
	to.ObservedGeneration = from.ObservedGeneration
	to.Variables = rules.List(from.Variables, func(from *clusterv1beta1.ClusterClassStatusVariable, to *clusterv1.ClusterClassStatusVariable) {
		before := rules.Find(before, func(v *clusterv1.ClusterClassStatusVariable) bool { return v.Name == from.Name })
		to.Name = from.Name
		to.DefinitionsConflict = rules.Meant(from.DefinitionsConflict, before.DefinitionsConflict)
		sources := map[string]clusterv1.VariableSchema{}
		for _, d := range before.Definitions {
			sources[d.From] = d.Schema
		}
		to.Definitions = rules.List(from.Definitions, func(from *clusterv1beta1.ClusterClassStatusVariableDefinition, to *clusterv1.ClusterClassStatusVariableDefinition) {
			*to = clusterv1.ClusterClassStatusVariableDefinition{
				From:                      from.From,
				Required:                  &from.Required,
				DeprecatedV1Beta1Metadata: clusterv1.ClusterClassVariableMetadata(from.Metadata),
			}
			schemaUp(&from.Schema.OpenAPIV3Schema, &to.Schema.OpenAPIV3Schema, sources[from.From].OpenAPIV3Schema)
		})
	})
	to.Conditions = rules.Value(from.V1Beta2).Conditions
	to.Deprecated = rules.Pointer(clusterv1.ClusterClassDeprecatedStatus{V1Beta1: rules.Pointer(clusterv1.ClusterClassV1Beta1DeprecatedStatus{Conditions: from.Conditions})})
}

func clusterClassDown(hub *clusterv1.ClusterClass, old *clusterv1beta1.ClusterClass, _ rules.Lookup) error {
	from := &hub.Spec
	old.Spec = clusterv1beta1.ClusterClassSpec{
		AvailabilityGates:            availabilityGatesDown(from.AvailabilityGates),
		Infrastructure:               clusterv1beta1.LocalObjectTemplate{Ref: templateDown(from.Infrastructure.TemplateRef, hub.Namespace)},
		InfrastructureNamingStrategy: namingDown(from.Infrastructure.Naming),
		ControlPlane:                 controlPlaneClassDown(&from.ControlPlane, hub.Namespace),
		Workers: clusterv1beta1.WorkersClass{
			MachineDeployments: rules.List(from.Workers.MachineDeployments, func(from *clusterv1.MachineDeploymentClass, to *clusterv1beta1.MachineDeploymentClass) {
				machineDeploymentClassDown(from, to, hub.Namespace)
			}),
			MachinePools: rules.List(from.Workers.MachinePools, func(from *clusterv1.MachinePoolClass, to *clusterv1beta1.MachinePoolClass) {
				machinePoolClassDown(from, to, hub.Namespace)
			}),
		},
		Variables: rules.List(from.Variables, func(from *clusterv1.ClusterClassVariable, to *clusterv1beta1.ClusterClassVariable) {
			to.Name = from.Name
			to.VariableDefinition = definitionDown(from.Required, from.DeprecatedV1Beta1Metadata, &from.Schema)
		}),
		Patches:            rules.List(from.Patches, patchDown),
		Upgrade:            from.Upgrade,
		KubernetesVersions: from.KubernetesVersions,
	}
	old.Status = clusterv1beta1.ClusterClassStatus{
		Variables: rules.List(hub.Status.Variables, func(from *clusterv1.ClusterClassStatusVariable, to *clusterv1beta1.ClusterClassStatusVariable) {
			to.Name, to.DefinitionsConflict = from.Name, rules.Value(from.DefinitionsConflict)
			to.Definitions = rules.List(from.Definitions, func(from *clusterv1.ClusterClassStatusVariableDefinition, to *clusterv1beta1.ClusterClassStatusVariableDefinition) {
				to.From = from.From
				to.VariableDefinition = definitionDown(from.Required, from.DeprecatedV1Beta1Metadata, &from.Schema)
			})
		}),
		Conditions:         rules.Value(rules.Value(hub.Status.Deprecated).V1Beta1).Conditions,
		ObservedGeneration: hub.Status.ObservedGeneration,
		V1Beta2:            conditionsDown(hub.Status.Conditions),
	}
	return nil
}

func namingUp(n *clusterv1beta1.NamingStrategy) clusterv1.ClusterClassNamingSpec {
	return clusterv1.ClusterClassNamingSpec{Template: rules.Value(rules.Value(n).Template)}
}

func namingDown(n clusterv1.ClusterClassNamingSpec) *clusterv1beta1.NamingStrategy {
	return rules.Pointer(clusterv1beta1.NamingStrategy{Template: rules.Pointer(n.Template)})
}

func controlPlaneClassUp(from *clusterv1beta1.ControlPlaneClass) clusterv1.ControlPlaneClass {
	to := clusterv1.ControlPlaneClass{
		Metadata:              clusterv1.ObjectMeta(from.Metadata),
		TemplateRef:           templateUp(from.Ref),
		MachineInfrastructure: clusterv1.ClusterClassTemplate{TemplateRef: templateUp(rules.Value(from.MachineInfrastructure).Ref)},
		Naming:                namingUp(from.NamingStrategy),
		Deletion:              rules.TimeoutsUp(from.NodeTimeouts),
		Taints:                from.Taints,
		ReadinessGates:        readinessGatesUp(from.ReadinessGates),
	}
	if from.MachineHealthCheck != nil {
		to.HealthCheck.Checks, to.HealthCheck.Remediation = healthCheckUp(from.MachineHealthCheck)
	}
	return to
}

func controlPlaneClassDown(from *clusterv1.ControlPlaneClass, namespace string) clusterv1beta1.ControlPlaneClass {
	to := clusterv1beta1.ControlPlaneClass{
		Metadata:            clusterv1beta1.ObjectMeta(from.Metadata),
		LocalObjectTemplate: clusterv1beta1.LocalObjectTemplate{Ref: templateDown(from.TemplateRef, namespace)},
		NamingStrategy:      namingDown(from.Naming),
		NodeTimeouts:        rules.TimeoutsDown(from.Deletion),
		Taints:              from.Taints,
		ReadinessGates:      readinessGatesDown(from.ReadinessGates),
	}
	if ref := from.MachineInfrastructure.TemplateRef; ref.IsDefined() {
		to.MachineInfrastructure = &clusterv1beta1.LocalObjectTemplate{Ref: templateDown(ref, namespace)}
	}
	if h := &from.HealthCheck; !rules.IsZero(*h) {
		to.MachineHealthCheck = new(healthCheckDown(&h.Checks, &h.Remediation, namespace))
	}
	return to
}

func machineDeploymentClassUp(from *clusterv1beta1.MachineDeploymentClass, to *clusterv1.MachineDeploymentClass) {
	s := strategyUp(from.Strategy)
	*to = clusterv1.MachineDeploymentClass{
		Metadata:        clusterv1.ObjectMeta(from.Template.Metadata),
		Class:           from.Class,
		Bootstrap:       clusterv1.ClusterClassTemplate{TemplateRef: templateUp(from.Template.Bootstrap.Ref)},
		Infrastructure:  clusterv1.ClusterClassTemplate{TemplateRef: templateUp(from.Template.Infrastructure.Ref)},
		FailureDomain:   rules.Value(from.FailureDomain),
		Naming:          namingUp(from.NamingStrategy),
		Deletion:        workerDeletionUp(from.NodeTimeouts, s.order),
		Taints:          from.Taints,
		MinReadySeconds: from.MinReadySeconds,
		ReadinessGates:  readinessGatesUp(from.ReadinessGates),
		Rollout:         clusterv1.MachineDeploymentClassRolloutSpec{Strategy: s.rollout},
	}
	if from.MachineHealthCheck != nil {
		to.HealthCheck.Checks, to.HealthCheck.Remediation = workerHealthCheckUp(from.MachineHealthCheck)
	}
	to.HealthCheck.Remediation.MaxInFlight = s.maxInFlight
}

func machineDeploymentClassDown(from *clusterv1.MachineDeploymentClass, to *clusterv1beta1.MachineDeploymentClass, namespace string) {
	*to = clusterv1beta1.MachineDeploymentClass{
		Class:           from.Class,
		Template:        workerTemplateDown(from.Metadata, from.Bootstrap, from.Infrastructure, namespace),
		FailureDomain:   rules.Pointer(from.FailureDomain),
		NamingStrategy:  namingDown(from.Naming),
		NodeTimeouts:    workerTimeoutsDown(from.Deletion),
		Taints:          from.Taints,
		MinReadySeconds: from.MinReadySeconds,
		ReadinessGates:  readinessGatesDown(from.ReadinessGates),
		Strategy:        strategyDown(strategy{from.Rollout.Strategy, from.Deletion.Order, from.HealthCheck.Remediation.MaxInFlight}),
	}
	h := from.HealthCheck
	h.Remediation.MaxInFlight = nil // it is in the strategy
	if !rules.IsZero(h) {
		to.MachineHealthCheck = new(workerHealthCheckDown(&h.Checks, &h.Remediation, namespace))
	}
}

func machinePoolClassUp(from *clusterv1beta1.MachinePoolClass, to *clusterv1.MachinePoolClass) {
	*to = clusterv1.MachinePoolClass{
		Metadata:        clusterv1.ObjectMeta(from.Template.Metadata),
		Class:           from.Class,
		Bootstrap:       clusterv1.ClusterClassTemplate{TemplateRef: templateUp(from.Template.Bootstrap.Ref)},
		Infrastructure:  clusterv1.ClusterClassTemplate{TemplateRef: templateUp(from.Template.Infrastructure.Ref)},
		FailureDomains:  from.FailureDomains,
		Naming:          namingUp(from.NamingStrategy),
		Deletion:        rules.TimeoutsUp(from.NodeTimeouts),
		Taints:          from.Taints,
		MinReadySeconds: from.MinReadySeconds,
	}
}

func machinePoolClassDown(from *clusterv1.MachinePoolClass, to *clusterv1beta1.MachinePoolClass, namespace string) {
	*to = clusterv1beta1.MachinePoolClass{
		Class:           from.Class,
		Template:        workerTemplateDown(from.Metadata, from.Bootstrap, from.Infrastructure, namespace),
		FailureDomains:  from.FailureDomains,
		NamingStrategy:  namingDown(from.Naming),
		NodeTimeouts:    rules.TimeoutsDown(from.Deletion),
		Taints:          from.Taints,
		MinReadySeconds: from.MinReadySeconds,
	}
}

func workerTemplateDown(metadata clusterv1.ObjectMeta, bootstrap, infrastructure clusterv1.ClusterClassTemplate, namespace string) clusterv1beta1.WorkerClassTemplate {
	return clusterv1beta1.WorkerClassTemplate{
		Metadata:       clusterv1beta1.ObjectMeta(metadata),
		Bootstrap:      clusterv1beta1.LocalObjectTemplate{Ref: templateDown(bootstrap.TemplateRef, namespace)},
		Infrastructure: clusterv1beta1.LocalObjectTemplate{Ref: templateDown(infrastructure.TemplateRef, namespace)},
	}
}
