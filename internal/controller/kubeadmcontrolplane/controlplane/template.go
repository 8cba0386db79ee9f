// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/machinetemplate"
)

// kept are annotations that a machine retains: they concern only it.
var kept = []string{
	controlplanev1.RemediationForAnnotation,
	clusterv1.MachineCertificatesExpiryDateAnnotation,
}

// MachineTemplate is the template of a machine created now. It continues the remediation
// that waits for it.
func MachineTemplate(kcp *controlplanev1.KubeadmControlPlane, cluster string) machinetemplate.Template {
	from, gates := kcp.Spec.MachineTemplate, ReadinessGates(kcp)
	t := machinetemplate.Template{
		Maker: metav1.OwnerReference{
			APIVersion: controlplanev1.GroupVersion().String(), Kind: "KubeadmControlPlane", Name: kcp.Name, UID: kcp.UID,
		},
		Namespace:   kcp.Namespace,
		Labels:      map[string]string{},
		Annotations: from.ObjectMeta.Annotations,
		Own:         map[string]string{controlplanev1.PreTerminateHookCleanupAnnotation: ""},
		Spec: clusterv1.MachineSpec{
			ClusterName:    cluster,
			Version:        kcp.Spec.Version,
			Taints:         from.Spec.Taints,
			ReadinessGates: gates[:min(len(gates), MaxReadinessGates)],
			Deletion:       clusterv1.MachineDeletionSpec(from.Spec.Deletion),
		},
	}
	maps.Copy(t.Labels, from.ObjectMeta.Labels)
	t.Labels[clusterv1.ClusterNameLabel] = cluster
	t.Labels[clusterv1.MachineControlPlaneLabel] = ""
	t.Labels[clusterv1.MachineControlPlaneNameLabel] = fieldvalidation.AsLabelValue(kcp.Name)
	if replaces, ok := kcp.Annotations[controlplanev1.RemediationInProgressAnnotation]; ok {
		t.Own[controlplanev1.RemediationForAnnotation] = replaces
	}
	return t
}

// TemplateOf is the template of an existing machine: the fields that concern only it
// stay.
func TemplateOf(kcp *controlplanev1.KubeadmControlPlane, cluster string, m *clusterv1.Machine) machinetemplate.Template {
	t := MachineTemplate(kcp, cluster)
	for _, key := range kept {
		delete(t.Own, key)
		if value, ok := m.Annotations[key]; ok {
			t.Own[key] = value
		}
	}
	t.Spec.MinReadySeconds = m.Spec.MinReadySeconds // a control plane has no opinion of it
	return t
}

// Name is the name of the machine with that random part.
func Name(kcp *controlplanev1.KubeadmControlPlane, cluster, random string) (string, error) {
	return machinetemplate.Naming{
		Template: kcp.Spec.MachineNaming.Template, As: "kubeadmControlPlane", Maker: kcp.Name, Cluster: cluster,
	}.Name(random)
}

// MaxReadinessGates is how many a Machine may have.
const MaxReadinessGates = 32

// ReadinessGates make the conditions of a machine's components and of its Node part of
// its own readiness. Those of the spec are last: if there are more than a Machine can
// have, these are omitted.
func ReadinessGates(kcp *controlplanev1.KubeadmControlPlane) (gates []clusterv1.MachineReadinessGate) {
	for _, t := range reported(ManagesEtcd(kcp)) {
		gates = append(gates, clusterv1.MachineReadinessGate{ConditionType: t})
	}
	for _, g := range kcp.Spec.MachineTemplate.Spec.ReadinessGates {
		if !slices.ContainsFunc(gates, func(have clusterv1.MachineReadinessGate) bool { return have.ConditionType == g.ConditionType }) {
			gates = append(gates, g)
		}
	}
	return gates
}
