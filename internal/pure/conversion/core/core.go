// SPDX-License-Identifier: Apache-2.0

// Package core converts the kinds of cluster.x-k8s.io between v1beta1, which is
// served for those who speak it, and v1beta2, which is stored.
//
// Half of the fields have moved between the two. What v1beta1 cannot say comes
// back from the annotation, and only that: what somebody wrote at v1beta1
// always counts. The one exception are the phase and the failure domain of a
// Machine, which v1beta1 never wrote.
//
// The result is what upstream's conversion makes, but for two things in a
// ClusterClass, where upstream panics, refuses the object or mixes up its parts:
// an annotation whose schemas have fewer alternatives than the object, and two
// patches or variables of one name.
package core

import (
	corev1 "k8s.io/api/core/v1"

	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// Kinds are the conversions of all kinds of the group.
func Kinds() []rules.Kind {
	return []rules.Kind{
		cluster(), clusterClass(), machine(), machineSet(), machineDeployment(), machinePool(), machineHealthCheck(), machineDrainRule(),
	}
}

func timeoutsUp(t clusterv1beta1.NodeTimeouts) clusterv1.MachineDeletionSpec {
	return clusterv1.MachineDeletionSpec{
		NodeDrainTimeoutSeconds:        rules.Seconds(t.NodeDrainTimeout),
		NodeVolumeDetachTimeoutSeconds: rules.Seconds(t.NodeVolumeDetachTimeout),
		NodeDeletionTimeoutSeconds:     rules.Seconds(t.NodeDeletionTimeout),
	}
}

func timeoutsDown(d clusterv1.MachineDeletionSpec) clusterv1beta1.NodeTimeouts {
	return clusterv1beta1.NodeTimeouts{
		NodeDrainTimeout:        rules.Duration(d.NodeDrainTimeoutSeconds),
		NodeVolumeDetachTimeout: rules.Duration(d.NodeVolumeDetachTimeoutSeconds),
		NodeDeletionTimeout:     rules.Duration(d.NodeDeletionTimeoutSeconds),
	}
}

func readinessGatesUp(gates []clusterv1beta1.MachineReadinessGate) []clusterv1.MachineReadinessGate {
	return rules.List(gates, func(from *clusterv1beta1.MachineReadinessGate, to *clusterv1.MachineReadinessGate) {
		*to = clusterv1.MachineReadinessGate(*from)
	})
}

func readinessGatesDown(gates []clusterv1.MachineReadinessGate) []clusterv1beta1.MachineReadinessGate {
	return rules.List(gates, func(from *clusterv1.MachineReadinessGate, to *clusterv1beta1.MachineReadinessGate) {
		*to = clusterv1beta1.MachineReadinessGate(*from)
	})
}

func availabilityGatesUp(gates []clusterv1beta1.ClusterAvailabilityGate) []clusterv1.ClusterAvailabilityGate {
	return rules.List(gates, func(from *clusterv1beta1.ClusterAvailabilityGate, to *clusterv1.ClusterAvailabilityGate) {
		*to = clusterv1.ClusterAvailabilityGate(*from)
	})
}

func availabilityGatesDown(gates []clusterv1.ClusterAvailabilityGate) []clusterv1beta1.ClusterAvailabilityGate {
	return rules.List(gates, func(from *clusterv1.ClusterAvailabilityGate, to *clusterv1beta1.ClusterAvailabilityGate) {
		*to = clusterv1beta1.ClusterAvailabilityGate(*from)
	})
}

// templateUp keeps of a reference to a template its whole apiVersion: templates
// are found by the version that is named.
func templateUp(ref *corev1.ObjectReference) clusterv1.ClusterClassTemplateReference {
	r := rules.Value(ref)
	return clusterv1.ClusterClassTemplateReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name}
}

// templateDown returns a reference to a template in a namespace, also where
// there is none yet: v1beta1 demands one.
func templateDown(ref clusterv1.ClusterClassTemplateReference, namespace string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, Namespace: namespace}
}
