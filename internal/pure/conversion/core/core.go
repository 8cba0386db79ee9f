// SPDX-License-Identifier: Apache-2.0

// Package core converts the kinds of cluster.x-k8s.io between v1beta1, which is served
// for clients of that version, and v1beta2, which is stored; and the other kinds of the
// core provider, those of the groups addons, ipam and runtime, between their versions.
//
// Half of the fields have moved between the two. Fields that v1beta1 does not have are
// restored from the annotation, and only those: a field that a client wrote at v1beta1
// always counts. The only exceptions are the phase and the failure domain of a Machine,
// which v1beta1 never wrote.
//
// The result equals that of upstream's conversion, except for two cases in a
// ClusterClass in which upstream panics, rejects the object or mixes up its parts: an
// annotation whose schemas have fewer alternatives than the object, and two patches or
// variables with the same name.
package core

import (
	corev1 "k8s.io/api/core/v1"

	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// Kinds returns the conversions of all kinds of the group.
func Kinds() []rules.Kind {
	return []rules.Kind{
		cluster(), clusterClass(), machine(), machineSet(), machineDeployment(), machinePool(), machineHealthCheck(), machineDrainRule(),
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

// templateUp retains the whole apiVersion of a reference to a template: templates are
// found by the named version.
func templateUp(ref *corev1.ObjectReference) clusterv1.ClusterClassTemplateReference {
	r := rules.Value(ref)
	return clusterv1.ClusterClassTemplateReference{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name}
}

// templateDown returns a reference to a template in a namespace, also without a
// template: v1beta1 requires a reference.
func templateDown(ref clusterv1.ClusterClassTemplateReference, namespace string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, Namespace: namespace}
}
