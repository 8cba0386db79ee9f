// SPDX-License-Identifier: Apache-2.0

package v1beta1status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// component is a component that a control plane machine reports on: a static Pod, or the
// etcd member on it. Its condition has the same name in all versions.
type component struct {
	of     string
	as     clusterv1.ConditionType
	member bool
}

var all = []component{
	{of: controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition, as: controlplanev1.MachineAPIServerPodHealthyV1Beta1Condition},
	{of: controlplanev1.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition, as: controlplanev1.MachineControllerManagerPodHealthyV1Beta1Condition},
	{of: controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition, as: controlplanev1.MachineSchedulerPodHealthyV1Beta1Condition},
	{of: controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition, as: controlplanev1.MachineEtcdPodHealthyV1Beta1Condition},
	{of: controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition, as: controlplanev1.MachineEtcdMemberHealthyV1Beta1Condition, member: true},
}

// ReportMachine fills the v1beta1 conditions of a control plane on one of its machines,
// after the current conditions.
func ReportMachine(f controlplane.Facts, m *controlplane.Machine) {
	found := components(m, func(component) bool { return true })
	v1beta1conditions.SetMachine(m.Machine, f.Now, append(found, healthcheck.Deprecated(m.Machine)...)...)
}

func components(m *controlplane.Machine, are func(component) bool) (found []clusterv1.Condition) {
	for _, c := range all {
		if health := conditions.Get(m.Health, c.of); health != nil && are(c) {
			found = append(found, c.told(*health))
		}
	}
	return found
}

// told is the condition of a component in v1beta1 terms.
func (c component) told(health metav1.Condition) clusterv1.Condition {
	uninspected, failed := controlplanev1.PodInspectionFailedV1Beta1Reason, controlplanev1.PodFailedV1Beta1Reason
	if c.member {
		uninspected, failed = controlplanev1.EtcdMemberInspectionFailedV1Beta1Reason, controlplanev1.EtcdMemberUnhealthyV1Beta1Reason
	}
	switch health.Status {
	case metav1.ConditionTrue:
		return v1beta1conditions.True(c.as)
	case metav1.ConditionUnknown:
		return v1beta1conditions.Unknown(c.as, uninspected, health.Message)
	}
	switch health.Reason {
	case controlplanev1.KubeadmControlPlaneMachinePodProvisioningReason:
		return v1beta1conditions.False(c.as, info, controlplanev1.PodProvisioningV1Beta1Reason, health.Message)
	case controlplanev1.KubeadmControlPlaneMachinePodDeletingReason:
		return v1beta1conditions.False(c.as, info, clusterv1.DeletingV1Beta1Reason, health.Message)
	case controlplanev1.KubeadmControlPlaneMachinePodDoesNotExistReason:
		return v1beta1conditions.False(c.as, severe, controlplanev1.PodMissingV1Beta1Reason, health.Message)
	}
	return v1beta1conditions.False(c.as, severe, failed, health.Message)
}
