// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	controlplanev1beta1 "github.com/capstan-dev/capstan/api/controlplane/v1beta1"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func controlPlaneUp(old *controlplanev1beta1.KubeadmControlPlane, hub, kept *controlplanev1.KubeadmControlPlane) error {
	k, from, t := rules.Value(kept), &old.Spec, &old.Spec.MachineTemplate
	ref, err := rules.ReferenceUp("spec.machineTemplate.infrastructureRef", &t.InfrastructureRef)
	if err != nil {
		return err
	}
	hub.Spec = controlplanev1.KubeadmControlPlaneSpec{
		Replicas: from.Replicas,
		Version:  from.Version,
		MachineTemplate: controlplanev1.KubeadmControlPlaneMachineTemplate{
			ObjectMeta: clusterv1.ObjectMeta(t.ObjectMeta),
			Spec: controlplanev1.KubeadmControlPlaneMachineTemplateSpec{
				InfrastructureRef: ref,
				ReadinessGates: rules.List(t.ReadinessGates, func(old *clusterv1beta1.MachineReadinessGate, hub *clusterv1.MachineReadinessGate) {
					*hub = clusterv1.MachineReadinessGate(*old)
				}),
				Deletion: controlplanev1.KubeadmControlPlaneMachineTemplateDeletionSpec(rules.TimeoutsUp(t.NodeTimeouts)),
				Taints:   rules.Rebuilt(t.Taints, func(old, hub *clusterv1.MachineTaint) { *hub = *old }),
			},
		},
		Rollout:       rolloutUp(&from.KubeadmControlPlaneRollout),
		Remediation:   remediationUp(from.RemediationStrategy, &k.Spec.Remediation),
		MachineNaming: controlplanev1.MachineNamingSpec(rules.Value(from.MachineNamingStrategy)),
	}
	controlPlaneStatusUp(&old.Status, &hub.Status, &k.Status)
	return specUp(&from.KubeadmConfigSpec, &hub.Spec.KubeadmConfigSpec, &k.Spec.KubeadmConfigSpec)
}

func controlPlaneDown(hub *controlplanev1.KubeadmControlPlane, old *controlplanev1beta1.KubeadmControlPlane, lookup rules.Lookup) error {
	from, t := &hub.Spec, &hub.Spec.MachineTemplate
	ref, err := rules.ReferenceDown("spec.machineTemplate.spec.infrastructureRef", t.Spec.InfrastructureRef, hub.Namespace, lookup)
	if err != nil {
		return err
	}
	old.Spec = controlplanev1beta1.KubeadmControlPlaneSpec{
		Replicas: from.Replicas,
		Version:  from.Version,
		MachineTemplate: controlplanev1beta1.KubeadmControlPlaneMachineTemplate{
			ObjectMeta:        clusterv1beta1.ObjectMeta(t.ObjectMeta),
			InfrastructureRef: rules.Value(ref),
			ReadinessGates: rules.List(t.Spec.ReadinessGates, func(hub *clusterv1.MachineReadinessGate, old *clusterv1beta1.MachineReadinessGate) {
				*old = clusterv1beta1.MachineReadinessGate(*hub)
			}),
			NodeTimeouts: rules.TimeoutsDown(clusterv1.MachineDeletionSpec(t.Spec.Deletion)),
			Taints:       rules.Rebuilt(t.Spec.Taints, func(hub, old *clusterv1.MachineTaint) { *old = *hub }),
		},
		KubeadmControlPlaneRollout: rolloutDown(from.Rollout, from.Remediation, from.MachineNaming),
	}
	specDown(&from.KubeadmConfigSpec, &old.Spec.KubeadmConfigSpec)
	controlPlaneStatusDown(&hub.Status, &old.Status)
	return nil
}

// controlPlaneTemplateUp completes a strategy without a type, which v1beta2 refuses.
func controlPlaneTemplateUp(old *controlplanev1beta1.KubeadmControlPlaneTemplate, hub, kept *controlplanev1.KubeadmControlPlaneTemplate) error {
	k, from, to := rules.Value(kept), &old.Spec.Template.Spec, &hub.Spec.Template.Spec
	was := &k.Spec.Template.Spec
	hub.Spec.Template.ObjectMeta = clusterv1.ObjectMeta(old.Spec.Template.ObjectMeta)
	to.Rollout = rolloutUp(&from.KubeadmControlPlaneRollout)
	if from.RolloutStrategy != nil && to.Rollout.Strategy.Type == "" {
		to.Rollout.Strategy.Type = controlplanev1.RollingUpdateStrategyType
	}
	to.Remediation = remediationUp(from.RemediationStrategy, &was.Remediation)
	to.MachineNaming = controlplanev1.MachineNamingSpec(rules.Value(from.MachineNamingStrategy))
	if t := from.MachineTemplate; t != nil {
		to.MachineTemplate = controlplanev1.KubeadmControlPlaneTemplateMachineTemplate{
			ObjectMeta: clusterv1.ObjectMeta(t.ObjectMeta),
			Spec: controlplanev1.KubeadmControlPlaneTemplateMachineTemplateSpec{
				Deletion: controlplanev1.KubeadmControlPlaneTemplateMachineTemplateDeletionSpec(rules.TimeoutsUp(t.NodeTimeouts)),
				Taints:   rules.Rebuilt(t.Taints, func(old, hub *clusterv1.MachineTaint) { *hub = *old }),
			},
		}
	}
	return specUp(&from.KubeadmConfigSpec, &to.KubeadmConfigSpec, &was.KubeadmConfigSpec)
}

func controlPlaneTemplateDown(hub *controlplanev1.KubeadmControlPlaneTemplate, old *controlplanev1beta1.KubeadmControlPlaneTemplate, _ rules.Lookup) error {
	from, to := &hub.Spec.Template.Spec, &old.Spec.Template.Spec
	old.Spec.Template.ObjectMeta = clusterv1beta1.ObjectMeta(hub.Spec.Template.ObjectMeta)
	to.MachineTemplate = &controlplanev1beta1.KubeadmControlPlaneTemplateMachineTemplate{
		ObjectMeta:   clusterv1beta1.ObjectMeta(from.MachineTemplate.ObjectMeta),
		NodeTimeouts: rules.TimeoutsDown(clusterv1.MachineDeletionSpec(from.MachineTemplate.Spec.Deletion)),
		Taints:       rules.Rebuilt(from.MachineTemplate.Spec.Taints, func(hub, old *clusterv1.MachineTaint) { *old = *hub }),
	}
	to.KubeadmControlPlaneRollout = rolloutDown(from.Rollout, from.Remediation, from.MachineNaming)
	specDown(&from.KubeadmConfigSpec, &to.KubeadmConfigSpec)
	return nil
}

func rolloutUp(old *controlplanev1beta1.KubeadmControlPlaneRollout) controlplanev1.KubeadmControlPlaneRolloutSpec {
	strategy := rules.Value(old.RolloutStrategy)
	return controlplanev1.KubeadmControlPlaneRolloutSpec{
		Before: controlplanev1.KubeadmControlPlaneRolloutBeforeSpec{CertificatesExpiryDays: rules.Value(rules.Value(old.RolloutBefore).CertificatesExpiryDays)},
		After:  rules.Time(old.RolloutAfter),
		Strategy: controlplanev1.KubeadmControlPlaneRolloutStrategy{
			Type:          controlplanev1.KubeadmControlPlaneRolloutStrategyType(strategy.Type),
			RollingUpdate: controlplanev1.KubeadmControlPlaneRolloutStrategyRollingUpdate(rules.Value(strategy.RollingUpdate)),
		},
	}
}

// remediationUp converts a retry period of zero to unset, unless the hub had zero.
func remediationUp(old *controlplanev1beta1.RemediationStrategy, kept *controlplanev1.KubeadmControlPlaneRemediationSpec) (hub controlplanev1.KubeadmControlPlaneRemediationSpec) {
	if old == nil {
		return hub
	}
	hub.MaxRetry, hub.MinHealthyPeriodSeconds = old.MaxRetry, rules.Seconds(old.MinHealthyPeriod)
	if was := kept.RetryPeriodSeconds; old.RetryPeriod.Duration != 0 || was != nil && *was == 0 {
		hub.RetryPeriodSeconds = rules.SecondsOf(old.RetryPeriod)
	}
	return hub
}

func rolloutDown(hub controlplanev1.KubeadmControlPlaneRolloutSpec, remediation controlplanev1.KubeadmControlPlaneRemediationSpec, naming controlplanev1.MachineNamingSpec) controlplanev1beta1.KubeadmControlPlaneRollout {
	old := controlplanev1beta1.KubeadmControlPlaneRollout{
		RolloutAfter:          rules.TimePointer(hub.After),
		MachineNamingStrategy: rules.Pointer(controlplanev1beta1.MachineNamingStrategy(naming)),
	}
	if days := hub.Before.CertificatesExpiryDays; days != 0 {
		old.RolloutBefore = &controlplanev1beta1.RolloutBefore{CertificatesExpiryDays: &days}
	}
	if s := hub.Strategy; !rules.IsZero(s) {
		old.RolloutStrategy = &controlplanev1beta1.RolloutStrategy{
			Type:          string(s.Type),
			RollingUpdate: rules.Pointer(controlplanev1beta1.RollingUpdate(s.RollingUpdate)),
		}
	}
	if !rules.IsZero(remediation) {
		old.RemediationStrategy = &controlplanev1beta1.RemediationStrategy{
			MaxRetry: remediation.MaxRetry, RetryPeriod: rules.DurationOf(remediation.RetryPeriodSeconds), MinHealthyPeriod: rules.Duration(remediation.MinHealthyPeriodSeconds),
		}
	}
	return old
}

// controlPlaneStatusUp drops ready, which nothing in v1beta2 says.
func controlPlaneStatusUp(old *controlplanev1beta1.KubeadmControlPlaneStatus, hub, kept *controlplanev1.KubeadmControlPlaneStatus) {
	*hub = controlplanev1.KubeadmControlPlaneStatus{
		Selector: old.Selector, Replicas: &old.Replicas, Version: rules.Value(old.Version), Versions: old.Versions, ObservedGeneration: old.ObservedGeneration,
		Deprecated: &controlplanev1.KubeadmControlPlaneDeprecatedStatus{V1Beta1: &controlplanev1.KubeadmControlPlaneV1Beta1DeprecatedStatus{
			Conditions: old.Conditions, UpdatedReplicas: old.UpdatedReplicas, ReadyReplicas: old.ReadyReplicas, UnavailableReplicas: old.UnavailableReplicas,
			FailureReason: old.FailureReason, FailureMessage: old.FailureMessage,
		}},
	}
	hub.Initialization.ControlPlaneInitialized = rules.Meant(old.Initialized, kept.Initialization.ControlPlaneInitialized)
	if r := old.LastRemediation; r != nil {
		hub.LastRemediation = controlplanev1.LastRemediationStatus{Machine: r.Machine, Time: rules.Time(&r.Timestamp), RetryCount: &r.RetryCount}
	}
	v := rules.Value(old.V1Beta2)
	hub.Conditions, hub.ReadyReplicas, hub.AvailableReplicas, hub.UpToDateReplicas = v.Conditions, v.ReadyReplicas, v.AvailableReplicas, v.UpToDateReplicas
}

func controlPlaneStatusDown(hub *controlplanev1.KubeadmControlPlaneStatus, old *controlplanev1beta1.KubeadmControlPlaneStatus) {
	*old = controlplanev1beta1.KubeadmControlPlaneStatus{
		Selector: hub.Selector, Replicas: rules.Value(hub.Replicas), Version: rules.Pointer(hub.Version), Versions: hub.Versions, ObservedGeneration: hub.ObservedGeneration,
		Initialized: rules.Value(hub.Initialization.ControlPlaneInitialized),
	}
	d := rules.Value(rules.Value(hub.Deprecated).V1Beta1)
	old.Conditions, old.UpdatedReplicas, old.ReadyReplicas, old.UnavailableReplicas = d.Conditions, d.UpdatedReplicas, d.ReadyReplicas, d.UnavailableReplicas
	old.FailureReason, old.FailureMessage, old.Ready = d.FailureReason, d.FailureMessage, d.ReadyReplicas > 0
	if r := hub.LastRemediation; !rules.IsZero(r) {
		old.LastRemediation = &controlplanev1beta1.LastRemediationStatus{Machine: r.Machine, Timestamp: r.Time, RetryCount: rules.Value(r.RetryCount)}
	}
	old.V1Beta2 = rules.Pointer(controlplanev1beta1.KubeadmControlPlaneV1Beta2Status{
		Conditions: hub.Conditions, ReadyReplicas: hub.ReadyReplicas, AvailableReplicas: hub.AvailableReplicas, UpToDateReplicas: hub.UpToDateReplicas,
	})
}
