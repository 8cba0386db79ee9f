// SPDX-License-Identifier: Apache-2.0

package core

import (
	corev1 "k8s.io/api/core/v1"

	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func machine() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.Machine, clusterv1.Machine]{
		Kind: "Machine", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: machineUp, Down: machineDown,
		Keep: func(m *clusterv1.Machine) any { return rules.Data(m.TypeMeta, m.Spec, m.Status) },
	})
}

func machineUp(old *clusterv1beta1.Machine, hub, kept *clusterv1.Machine) error {
	if err := machineSpecUp("spec", &old.Spec, &hub.Spec); err != nil {
		return err
	}
	k := rules.Value(kept)
	hub.Spec.MinReadySeconds = k.Spec.MinReadySeconds
	from, to := &old.Status, &hub.Status
	*to = clusterv1.MachineStatus{
		Initialization: clusterv1.MachineInitializationStatus{
			InfrastructureProvisioned:  rules.Meant(from.InfrastructureReady, k.Status.Initialization.InfrastructureProvisioned),
			BootstrapDataSecretCreated: rules.Meant(from.BootstrapReady, k.Status.Initialization.BootstrapDataSecretCreated),
		},
		NodeRef:     clusterv1.MachineNodeReference{Name: rules.Value(from.NodeRef).Name},
		NodeInfo:    from.NodeInfo,
		LastUpdated: rules.Time(from.LastUpdated),
		Addresses: rules.List(from.Addresses, func(from *clusterv1beta1.MachineAddress, to *clusterv1.MachineAddress) {
			*to = clusterv1.MachineAddress(*from)
		}),
		Phase:                  from.Phase,
		CertificatesExpiryDate: rules.Time(from.CertificatesExpiryDate),
		ObservedGeneration:     from.ObservedGeneration,
	}
	if kept != nil {
		// v1beta1 has no failure domain and not every phase, so its values were not
		// written by a client.
		to.Phase, to.FailureDomain = kept.Status.Phase, kept.Status.FailureDomain
	}
	if d := from.Deletion; d != nil {
		to.Deletion = &clusterv1.MachineDeletionStatus{
			NodeDrainStartTime:               rules.Time(d.NodeDrainStartTime),
			WaitForNodeVolumeDetachStartTime: rules.Time(d.WaitForNodeVolumeDetachStartTime),
			WaitForPreDrainHookStartTime:     rules.Time(d.WaitForPreDrainHookStartTime),
			WaitForPreTerminateHookStartTime: rules.Time(d.WaitForPreTerminateHookStartTime),
		}
	}
	to.Conditions = rules.Value(from.V1Beta2).Conditions
	to.Deprecated = rules.Pointer(clusterv1.MachineDeprecatedStatus{V1Beta1: rules.Pointer(clusterv1.MachineV1Beta1DeprecatedStatus{
		Conditions: from.Conditions, FailureReason: from.FailureReason, FailureMessage: from.FailureMessage,
	})})
	return nil
}

func machineDown(hub *clusterv1.Machine, old *clusterv1beta1.Machine, lookup rules.Lookup) error {
	if err := machineSpecDown("spec", &hub.Spec, &old.Spec, in{hub.Namespace, lookup}); err != nil {
		return err
	}
	from, to := &hub.Status, &old.Status
	*to = clusterv1beta1.MachineStatus{
		NodeInfo:    from.NodeInfo,
		LastUpdated: rules.TimePointer(from.LastUpdated),
		Addresses: rules.List(from.Addresses, func(from *clusterv1.MachineAddress, to *clusterv1beta1.MachineAddress) {
			*to = clusterv1beta1.MachineAddress(*from)
		}),
		Phase:                  from.Phase,
		CertificatesExpiryDate: rules.TimePointer(from.CertificatesExpiryDate),
		BootstrapReady:         rules.Value(from.Initialization.BootstrapDataSecretCreated),
		InfrastructureReady:    rules.Value(from.Initialization.InfrastructureProvisioned),
		ObservedGeneration:     from.ObservedGeneration,
	}
	if from.Phase == string(clusterv1.MachinePhaseUpdating) {
		to.Phase = string(clusterv1.MachinePhaseRunning) // the closest phase that v1beta1 allows
	}
	if from.NodeRef.IsDefined() {
		to.NodeRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: from.NodeRef.Name}
	}
	if d := from.Deletion; d != nil {
		to.Deletion = &clusterv1beta1.MachineDeletionStatus{
			NodeDrainStartTime:               rules.TimePointer(d.NodeDrainStartTime),
			WaitForNodeVolumeDetachStartTime: rules.TimePointer(d.WaitForNodeVolumeDetachStartTime),
			WaitForPreDrainHookStartTime:     rules.TimePointer(d.WaitForPreDrainHookStartTime),
			WaitForPreTerminateHookStartTime: rules.TimePointer(d.WaitForPreTerminateHookStartTime),
		}
	}
	to.V1Beta2 = conditionsDown(from.Conditions)
	deprecated := rules.Value(rules.Value(from.Deprecated).V1Beta1)
	to.Conditions, to.FailureReason, to.FailureMessage = deprecated.Conditions, deprecated.FailureReason, deprecated.FailureMessage
	return nil
}

// in is the context that completes references.
type in struct {
	namespace string
	lookup    rules.Lookup
}

func machineSpecUp(field string, from *clusterv1beta1.MachineSpec, to *clusterv1.MachineSpec) (err error) {
	*to = clusterv1.MachineSpec{
		ClusterName:    from.ClusterName,
		Bootstrap:      clusterv1.Bootstrap{DataSecretName: from.Bootstrap.DataSecretName},
		Version:        rules.Value(from.Version),
		ProviderID:     rules.Value(from.ProviderID),
		FailureDomain:  rules.Value(from.FailureDomain),
		ReadinessGates: readinessGatesUp(from.ReadinessGates),
		Deletion:       rules.TimeoutsUp(from.NodeTimeouts),
		Taints:         from.Taints,
	}
	if to.Bootstrap.ConfigRef, err = rules.ReferenceUp(field+".bootstrap.configRef", from.Bootstrap.ConfigRef); err != nil {
		return err
	}
	to.InfrastructureRef, err = rules.ReferenceUp(field+".infrastructureRef", &from.InfrastructureRef)
	return err
}

func machineSpecDown(field string, from *clusterv1.MachineSpec, to *clusterv1beta1.MachineSpec, in in) (err error) {
	*to = clusterv1beta1.MachineSpec{
		ClusterName:    from.ClusterName,
		Bootstrap:      clusterv1beta1.Bootstrap{DataSecretName: from.Bootstrap.DataSecretName},
		Version:        rules.Pointer(from.Version),
		ProviderID:     rules.Pointer(from.ProviderID),
		FailureDomain:  rules.Pointer(from.FailureDomain),
		ReadinessGates: readinessGatesDown(from.ReadinessGates),
		NodeTimeouts:   rules.TimeoutsDown(from.Deletion),
		Taints:         from.Taints,
	}
	if to.Bootstrap.ConfigRef, err = rules.ReferenceDown(field+".bootstrap.configRef", from.Bootstrap.ConfigRef, in.namespace, in.lookup); err != nil {
		return err
	}
	infrastructure, err := rules.ReferenceDown(field+".infrastructureRef", from.InfrastructureRef, in.namespace, in.lookup)
	to.InfrastructureRef = rules.Value(infrastructure)
	return err
}

// machineDrainRule has the same fields in both versions.
func machineDrainRule() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.MachineDrainRule, clusterv1.MachineDrainRule]{
		Kind: "MachineDrainRule", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: func(old *clusterv1beta1.MachineDrainRule, hub, _ *clusterv1.MachineDrainRule) error {
			hub.Spec = clusterv1.MachineDrainRuleSpec{
				Drain: clusterv1.MachineDrainRuleDrainConfig(old.Spec.Drain), Machines: old.Spec.Machines, Pods: old.Spec.Pods,
			}
			return nil
		},
		Down: func(hub *clusterv1.MachineDrainRule, old *clusterv1beta1.MachineDrainRule, _ rules.Lookup) error {
			old.Spec = clusterv1beta1.MachineDrainRuleSpec{
				Drain: clusterv1beta1.MachineDrainRuleDrainConfig(hub.Spec.Drain), Machines: hub.Spec.Machines, Pods: hub.Spec.Pods,
			}
			return nil
		},
	})
}
