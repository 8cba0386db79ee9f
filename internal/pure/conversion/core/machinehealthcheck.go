// SPDX-License-Identifier: Apache-2.0

package core

import (
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func machineHealthCheck() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.MachineHealthCheck, clusterv1.MachineHealthCheck]{
		Kind: "MachineHealthCheck", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: machineHealthCheckUp, Down: machineHealthCheckDown,
		Keep: func(m *clusterv1.MachineHealthCheck) any { return rules.Data(m.TypeMeta, m.Spec, m.Status) },
	})
}

func machineHealthCheckUp(old *clusterv1beta1.MachineHealthCheck, hub, kept *clusterv1.MachineHealthCheck) error {
	checks, remediation := healthCheckUp(&old.Spec.MachineHealthCheckClass)
	hub.Spec = clusterv1.MachineHealthCheckSpec{ClusterName: old.Spec.ClusterName, Selector: old.Spec.Selector, Checks: checks, Remediation: remediation}
	from, before := &old.Status, rules.Value(kept).Status
	hub.Status = clusterv1.MachineHealthCheckStatus{
		Conditions:          rules.Value(from.V1Beta2).Conditions,
		ExpectedMachines:    rules.Meant(from.ExpectedMachines, before.ExpectedMachines),
		CurrentHealthy:      rules.Meant(from.CurrentHealthy, before.CurrentHealthy),
		RemediationsAllowed: rules.Meant(from.RemediationsAllowed, before.RemediationsAllowed),
		ObservedGeneration:  from.ObservedGeneration,
		Targets:             from.Targets,
		Deprecated: rules.Pointer(clusterv1.MachineHealthCheckDeprecatedStatus{
			V1Beta1: rules.Pointer(clusterv1.MachineHealthCheckV1Beta1DeprecatedStatus{Conditions: from.Conditions}),
		}),
	}
	return nil
}

func machineHealthCheckDown(hub *clusterv1.MachineHealthCheck, old *clusterv1beta1.MachineHealthCheck, _ rules.Lookup) error {
	old.Spec = clusterv1beta1.MachineHealthCheckSpec{
		ClusterName:             hub.Spec.ClusterName,
		Selector:                hub.Spec.Selector,
		MachineHealthCheckClass: healthCheckDown(&hub.Spec.Checks, &hub.Spec.Remediation, hub.Namespace),
	}
	from := &hub.Status
	old.Status = clusterv1beta1.MachineHealthCheckStatus{
		Conditions:          rules.Value(rules.Value(from.Deprecated).V1Beta1).Conditions,
		ExpectedMachines:    rules.Value(from.ExpectedMachines),
		CurrentHealthy:      rules.Value(from.CurrentHealthy),
		RemediationsAllowed: rules.Value(from.RemediationsAllowed),
		ObservedGeneration:  from.ObservedGeneration,
		Targets:             from.Targets,
		V1Beta2:             conditionsDown(from.Conditions),
	}
	return nil
}

func healthCheckUp(from *clusterv1beta1.MachineHealthCheckClass) (clusterv1.MachineHealthCheckChecks, clusterv1.MachineHealthCheckRemediation) {
	checks := clusterv1.MachineHealthCheckChecks{
		NodeStartupTimeoutSeconds: rules.Seconds(from.NodeStartupTimeout),
		UnhealthyNodeConditions: rules.Rebuilt(from.UnhealthyConditions, func(from *clusterv1beta1.UnhealthyCondition, to *clusterv1.UnhealthyNodeCondition) {
			*to = clusterv1.UnhealthyNodeCondition{Type: from.Type, Status: from.Status, TimeoutSeconds: rules.SecondsOf(from.Timeout)}
		}),
		UnhealthyMachineConditions: rules.Rebuilt(from.UnhealthyMachineConditions, func(from *clusterv1beta1.UnhealthyMachineCondition, to *clusterv1.UnhealthyMachineCondition) {
			*to = clusterv1.UnhealthyMachineCondition{Type: from.Type, Status: from.Status, TimeoutSeconds: rules.SecondsOf(from.Timeout)}
		}),
	}
	return checks, clusterv1.MachineHealthCheckRemediation{
		TriggerIf: clusterv1.MachineHealthCheckRemediationTriggerIf{
			UnhealthyLessThanOrEqualTo: from.MaxUnhealthy,
			UnhealthyInRange:           rules.Value(from.UnhealthyRange),
		},
		TemplateRef: clusterv1.MachineHealthCheckRemediationTemplateReference(templateUp(from.RemediationTemplate)),
	}
}

func healthCheckDown(checks *clusterv1.MachineHealthCheckChecks, remediation *clusterv1.MachineHealthCheckRemediation, namespace string) clusterv1beta1.MachineHealthCheckClass {
	to := clusterv1beta1.MachineHealthCheckClass{
		UnhealthyConditions: rules.Rebuilt(checks.UnhealthyNodeConditions, func(from *clusterv1.UnhealthyNodeCondition, to *clusterv1beta1.UnhealthyCondition) {
			*to = clusterv1beta1.UnhealthyCondition{Type: from.Type, Status: from.Status, Timeout: rules.DurationOf(from.TimeoutSeconds)}
		}),
		UnhealthyMachineConditions: rules.Rebuilt(checks.UnhealthyMachineConditions, func(from *clusterv1.UnhealthyMachineCondition, to *clusterv1beta1.UnhealthyMachineCondition) {
			*to = clusterv1beta1.UnhealthyMachineCondition{Type: from.Type, Status: from.Status, Timeout: rules.DurationOf(from.TimeoutSeconds)}
		}),
		MaxUnhealthy:       remediation.TriggerIf.UnhealthyLessThanOrEqualTo,
		UnhealthyRange:     rules.Pointer(remediation.TriggerIf.UnhealthyInRange),
		NodeStartupTimeout: rules.Duration(checks.NodeStartupTimeoutSeconds),
	}
	if remediation.TemplateRef.IsDefined() {
		to.RemediationTemplate = templateDown(clusterv1.ClusterClassTemplateReference(remediation.TemplateRef), namespace)
	}
	return to
}
