// SPDX-License-Identifier: Apache-2.0

package core

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func machineDeployment() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.MachineDeployment, clusterv1.MachineDeployment]{
		Kind: "MachineDeployment", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: machineDeploymentUp, Down: machineDeploymentDown,
		Keep: func(d *clusterv1.MachineDeployment) any { return rules.Data(d.TypeMeta, d.Spec, d.Status) },
	})
}

func machineDeploymentUp(old *clusterv1beta1.MachineDeployment, hub, kept *clusterv1.MachineDeployment) error {
	hub.Spec = clusterv1.MachineDeploymentSpec{
		ClusterName:   old.Spec.ClusterName,
		Replicas:      old.Spec.Replicas,
		Rollout:       clusterv1.MachineDeploymentRolloutSpec{After: rules.Time(old.Spec.RolloutAfter)},
		Selector:      old.Spec.Selector,
		MachineNaming: clusterv1.MachineNamingSpec(rules.Value(old.Spec.MachineNamingStrategy)),
		Paused:        rules.Meant(old.Spec.Paused, rules.Value(kept).Spec.Paused),
	}
	s := strategyUp(old.Spec.Strategy)
	hub.Spec.Rollout.Strategy, hub.Spec.Deletion.Order, hub.Spec.Remediation.MaxInFlight = s.rollout, s.order, s.maxInFlight
	if err := machineTemplateUp(&old.Spec.Template, &hub.Spec.Template); err != nil {
		return err
	}
	hub.Spec.Template.Spec.MinReadySeconds = old.Spec.MinReadySeconds
	from := &old.Status
	hub.Status = clusterv1.MachineDeploymentStatus{
		ObservedGeneration: from.ObservedGeneration,
		Selector:           from.Selector,
		Replicas:           &from.Replicas,
		Versions:           from.Versions,
		Phase:              from.Phase,
		Deprecated: &clusterv1.MachineDeploymentDeprecatedStatus{V1Beta1: &clusterv1.MachineDeploymentV1Beta1DeprecatedStatus{
			Conditions:          from.Conditions,
			UpdatedReplicas:     from.UpdatedReplicas,
			ReadyReplicas:       from.ReadyReplicas,
			AvailableReplicas:   from.AvailableReplicas,
			UnavailableReplicas: from.UnavailableReplicas,
		}},
	}
	v, to := rules.Value(from.V1Beta2), &hub.Status
	to.Conditions, to.ReadyReplicas, to.AvailableReplicas, to.UpToDateReplicas = v.Conditions, v.ReadyReplicas, v.AvailableReplicas, v.UpToDateReplicas
	return nil
}

func machineDeploymentDown(hub *clusterv1.MachineDeployment, old *clusterv1beta1.MachineDeployment, lookup rules.Lookup) error {
	old.Spec = clusterv1beta1.MachineDeploymentSpec{
		ClusterName:           hub.Spec.ClusterName,
		Replicas:              hub.Spec.Replicas,
		RolloutAfter:          rules.TimePointer(hub.Spec.Rollout.After),
		Selector:              hub.Spec.Selector,
		Strategy:              strategyDown(strategy{hub.Spec.Rollout.Strategy, hub.Spec.Deletion.Order, hub.Spec.Remediation.MaxInFlight}),
		MachineNamingStrategy: rules.Pointer(clusterv1beta1.MachineNamingStrategy(hub.Spec.MachineNaming)),
		MinReadySeconds:       hub.Spec.Template.Spec.MinReadySeconds,
		Paused:                rules.Value(hub.Spec.Paused),
	}
	if err := machineTemplateDown(&hub.Spec.Template, &old.Spec.Template, in{hub.Namespace, lookup}); err != nil {
		return err
	}
	from := &hub.Status
	old.Status = clusterv1beta1.MachineDeploymentStatus{
		ObservedGeneration: from.ObservedGeneration,
		Selector:           from.Selector,
		Replicas:           rules.Value(from.Replicas),
		Versions:           from.Versions,
		Phase:              from.Phase,
		V1Beta2:            countersDown(from.Conditions, from.ReadyReplicas, from.AvailableReplicas, from.UpToDateReplicas),
	}
	deprecated, to := rules.Value(rules.Value(from.Deprecated).V1Beta1), &old.Status
	to.Conditions, to.UpdatedReplicas, to.ReadyReplicas = deprecated.Conditions, deprecated.UpdatedReplicas, deprecated.ReadyReplicas
	to.AvailableReplicas, to.UnavailableReplicas = deprecated.AvailableReplicas, deprecated.UnavailableReplicas
	return nil
}

// strategy is what v1beta1 has in one place: how Machines are replaced, which
// are deleted first, and how many unhealthy ones are replaced at a time.
type strategy struct {
	rollout     clusterv1.MachineDeploymentRolloutStrategy
	order       clusterv1.MachineSetDeletionOrder
	maxInFlight *intstr.IntOrString
}

func strategyUp(from *clusterv1beta1.MachineDeploymentStrategy) (to strategy) {
	s := rules.Value(from)
	to.rollout.Type = s.Type
	if u := s.RollingUpdate; u != nil {
		to.rollout.RollingUpdate.MaxSurge, to.rollout.RollingUpdate.MaxUnavailable = u.MaxSurge, u.MaxUnavailable
		to.order = clusterv1.MachineSetDeletionOrder(rules.Value(u.DeletePolicy))
	}
	to.maxInFlight = rules.Value(s.Remediation).MaxInFlight
	return to
}

func strategyDown(from strategy) *clusterv1beta1.MachineDeploymentStrategy {
	rolling := from.rollout.RollingUpdate
	return rules.Pointer(clusterv1beta1.MachineDeploymentStrategy{
		Type: from.rollout.Type,
		RollingUpdate: rules.Pointer(clusterv1beta1.MachineRollingUpdateDeployment{
			MaxSurge: rolling.MaxSurge, MaxUnavailable: rolling.MaxUnavailable, DeletePolicy: rules.Pointer(string(from.order)),
		}),
		Remediation: rules.Pointer(clusterv1beta1.RemediationStrategy{MaxInFlight: from.maxInFlight}),
	})
}
