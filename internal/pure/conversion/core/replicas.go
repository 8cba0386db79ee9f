// SPDX-License-Identifier: Apache-2.0

package core

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// conditionsDown is nil without conditions.
func conditionsDown(conditions []metav1.Condition) *clusterv1beta1.V1Beta2Status {
	return rules.Pointer(clusterv1beta1.V1Beta2Status{Conditions: conditions})
}

// countersDown is nil without conditions and counters. Those of v1beta2 never
// mix with the counters of v1beta1, which count by other rules.
func countersDown(conditions []metav1.Condition, ready, available, upToDate *int32) *clusterv1beta1.ReplicasV1Beta2Status {
	return rules.Pointer(clusterv1beta1.ReplicasV1Beta2Status{
		V1Beta2Status: clusterv1beta1.V1Beta2Status{Conditions: conditions},
		ReadyReplicas: ready, AvailableReplicas: available, UpToDateReplicas: upToDate,
	})
}

func machineTemplateUp(from *clusterv1beta1.MachineTemplateSpec, to *clusterv1.MachineTemplateSpec) error {
	to.ObjectMeta = clusterv1.ObjectMeta(from.ObjectMeta)
	return machineSpecUp("spec.template.spec", &from.Spec, &to.Spec)
}

func machineTemplateDown(from *clusterv1.MachineTemplateSpec, to *clusterv1beta1.MachineTemplateSpec, in in) error {
	to.ObjectMeta = clusterv1beta1.ObjectMeta(from.ObjectMeta)
	return machineSpecDown("spec.template.spec", &from.Spec, &to.Spec, in)
}

func machineSet() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.MachineSet, clusterv1.MachineSet]{
		Kind: "MachineSet", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: machineSetUp, Down: machineSetDown,
	})
}

func machineSetUp(old *clusterv1beta1.MachineSet, hub, _ *clusterv1.MachineSet) error {
	hub.Spec = clusterv1.MachineSetSpec{
		ClusterName:   old.Spec.ClusterName,
		Replicas:      old.Spec.Replicas,
		Selector:      old.Spec.Selector,
		MachineNaming: clusterv1.MachineNamingSpec(rules.Value(old.Spec.MachineNamingStrategy)),
		Deletion:      clusterv1.MachineSetDeletionSpec{Order: old.Spec.DeletePolicy},
	}
	if err := machineTemplateUp(&old.Spec.Template, &hub.Spec.Template); err != nil {
		return err
	}
	hub.Spec.Template.Spec.MinReadySeconds = rules.Pointer(old.Spec.MinReadySeconds)
	from := &old.Status
	hub.Status = clusterv1.MachineSetStatus{
		Selector:           from.Selector,
		Replicas:           &from.Replicas,
		Versions:           from.Versions,
		ObservedGeneration: from.ObservedGeneration,
		Deprecated: &clusterv1.MachineSetDeprecatedStatus{V1Beta1: &clusterv1.MachineSetV1Beta1DeprecatedStatus{
			Conditions:           from.Conditions,
			FailureReason:        from.FailureReason,
			FailureMessage:       from.FailureMessage,
			FullyLabeledReplicas: from.FullyLabeledReplicas,
			ReadyReplicas:        from.ReadyReplicas,
			AvailableReplicas:    from.AvailableReplicas,
		}},
	}
	v, to := rules.Value(from.V1Beta2), &hub.Status
	to.Conditions, to.ReadyReplicas, to.AvailableReplicas, to.UpToDateReplicas = v.Conditions, v.ReadyReplicas, v.AvailableReplicas, v.UpToDateReplicas
	return nil
}

func machineSetDown(hub *clusterv1.MachineSet, old *clusterv1beta1.MachineSet, lookup rules.Lookup) error {
	old.Spec = clusterv1beta1.MachineSetSpec{
		ClusterName:           hub.Spec.ClusterName,
		Replicas:              hub.Spec.Replicas,
		MinReadySeconds:       rules.Value(hub.Spec.Template.Spec.MinReadySeconds),
		DeletePolicy:          hub.Spec.Deletion.Order,
		Selector:              hub.Spec.Selector,
		MachineNamingStrategy: rules.Pointer(clusterv1beta1.MachineNamingStrategy(hub.Spec.MachineNaming)),
	}
	if err := machineTemplateDown(&hub.Spec.Template, &old.Spec.Template, in{hub.Namespace, lookup}); err != nil {
		return err
	}
	from := &hub.Status
	old.Status = clusterv1beta1.MachineSetStatus{
		Selector:           from.Selector,
		Replicas:           rules.Value(from.Replicas),
		ObservedGeneration: from.ObservedGeneration,
		Versions:           from.Versions,
		V1Beta2:            countersDown(from.Conditions, from.ReadyReplicas, from.AvailableReplicas, from.UpToDateReplicas),
	}
	deprecated, to := rules.Value(rules.Value(from.Deprecated).V1Beta1), &old.Status
	to.Conditions, to.FailureReason, to.FailureMessage = deprecated.Conditions, deprecated.FailureReason, deprecated.FailureMessage
	to.FullyLabeledReplicas, to.ReadyReplicas, to.AvailableReplicas = deprecated.FullyLabeledReplicas, deprecated.ReadyReplicas, deprecated.AvailableReplicas
	return nil
}

func machinePool() rules.Kind {
	return rules.Define(rules.Definition[clusterv1beta1.MachinePool, clusterv1.MachinePool]{
		Kind: "MachinePool", Old: clusterv1beta1.GroupVersion(), Hub: clusterv1.GroupVersion(),
		Up: machinePoolUp, Down: machinePoolDown,
		Keep: func(p *clusterv1.MachinePool) any { return rules.Data(p.TypeMeta, p.Spec, p.Status) },
	})
}

func machinePoolUp(old *clusterv1beta1.MachinePool, hub, kept *clusterv1.MachinePool) error {
	hub.Spec = clusterv1.MachinePoolSpec{
		ClusterName:    old.Spec.ClusterName,
		Replicas:       old.Spec.Replicas,
		ProviderIDList: old.Spec.ProviderIDList,
		FailureDomains: old.Spec.FailureDomains,
	}
	if err := machineTemplateUp(&old.Spec.Template, &hub.Spec.Template); err != nil {
		return err
	}
	hub.Spec.Template.Spec.MinReadySeconds = old.Spec.MinReadySeconds
	from, before := &old.Status, rules.Value(kept).Status.Initialization
	hub.Status = clusterv1.MachinePoolStatus{
		Initialization: clusterv1.MachinePoolInitializationStatus{
			InfrastructureProvisioned:  rules.Meant(from.InfrastructureReady, before.InfrastructureProvisioned),
			BootstrapDataSecretCreated: rules.Meant(from.BootstrapReady, before.BootstrapDataSecretCreated),
		},
		NodeRefs:           from.NodeRefs,
		Replicas:           &from.Replicas,
		Versions:           from.Versions,
		Phase:              from.Phase,
		ObservedGeneration: from.ObservedGeneration,
		Deprecated: &clusterv1.MachinePoolDeprecatedStatus{V1Beta1: &clusterv1.MachinePoolV1Beta1DeprecatedStatus{
			Conditions:          from.Conditions,
			FailureReason:       from.FailureReason,
			FailureMessage:      from.FailureMessage,
			ReadyReplicas:       from.ReadyReplicas,
			AvailableReplicas:   from.AvailableReplicas,
			UnavailableReplicas: from.UnavailableReplicas,
		}},
	}
	v, to := rules.Value(from.V1Beta2), &hub.Status
	to.Conditions, to.ReadyReplicas, to.AvailableReplicas, to.UpToDateReplicas = v.Conditions, v.ReadyReplicas, v.AvailableReplicas, v.UpToDateReplicas
	return nil
}

func machinePoolDown(hub *clusterv1.MachinePool, old *clusterv1beta1.MachinePool, lookup rules.Lookup) error {
	old.Spec = clusterv1beta1.MachinePoolSpec{
		ClusterName:     hub.Spec.ClusterName,
		Replicas:        hub.Spec.Replicas,
		MinReadySeconds: hub.Spec.Template.Spec.MinReadySeconds,
		ProviderIDList:  hub.Spec.ProviderIDList,
		FailureDomains:  hub.Spec.FailureDomains,
	}
	if err := machineTemplateDown(&hub.Spec.Template, &old.Spec.Template, in{hub.Namespace, lookup}); err != nil {
		return err
	}
	from := &hub.Status
	old.Status = clusterv1beta1.MachinePoolStatus{
		NodeRefs:            from.NodeRefs,
		Replicas:            rules.Value(from.Replicas),
		Versions:            from.Versions,
		Phase:               from.Phase,
		BootstrapReady:      rules.Value(from.Initialization.BootstrapDataSecretCreated),
		InfrastructureReady: rules.Value(from.Initialization.InfrastructureProvisioned),
		ObservedGeneration:  from.ObservedGeneration,
		V1Beta2:             countersDown(from.Conditions, from.ReadyReplicas, from.AvailableReplicas, from.UpToDateReplicas),
	}
	deprecated, to := rules.Value(rules.Value(from.Deprecated).V1Beta1), &old.Status
	to.Conditions, to.FailureReason, to.FailureMessage = deprecated.Conditions, deprecated.FailureReason, deprecated.FailureMessage
	to.ReadyReplicas, to.AvailableReplicas, to.UnavailableReplicas = deprecated.ReadyReplicas, deprecated.AvailableReplicas, deprecated.UnavailableReplicas
	return nil
}
