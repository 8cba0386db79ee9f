// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/quorum"
)

// controlPlaneRole is the label and the taint that kubeadm gives to the Nodes
// of a control plane.
const controlPlaneRole = "node-role.kubernetes.io/control-plane"

// Components are the static Pods of a machine and their conditions.
var Components = []struct{ Name, Condition string }{
	{"kube-apiserver", controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition},
	{"kube-controller-manager", controlplanev1.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition},
	{"kube-scheduler", controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition},
	{"etcd", controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition},
}

// Seen is what the workload cluster shows of one machine. Nil is what is not there.
type Seen struct {
	Deleting bool // the machine is
	NodeName string
	Node     *corev1.Node
	Pods     map[string]*corev1.Pod // by component
	Taints   *[]corev1.Taint        // that kubeadm was asked to set; nil for its own

	ManagesEtcd bool
	Member      *quorum.Member // nil: there is none for the Node
	MemberErr   error          // why members, or this one, could not be asked
}

// Conditions are what a machine's components report, in a fixed order.
func (s Seen) Conditions() (all []metav1.Condition) {
	for _, c := range Components {
		if c.Name == "etcd" && !s.ManagesEtcd {
			continue
		}
		cond := s.pod(c.Name)
		cond.Type = c.Condition
		all = append(all, cond)
	}
	if s.ManagesEtcd {
		all = append(all, s.member())
	}
	return append(all, s.labelsAndTaints())
}

func (s Seen) pod(component string) metav1.Condition {
	const (
		running      = controlplanev1.KubeadmControlPlaneMachinePodRunningReason
		provisioning = controlplanev1.KubeadmControlPlaneMachinePodProvisioningReason
		absent       = controlplanev1.KubeadmControlPlaneMachinePodDoesNotExistReason
		failed       = controlplanev1.KubeadmControlPlaneMachinePodFailedReason
		uninspected  = controlplanev1.KubeadmControlPlaneMachinePodInspectionFailedReason
		deleting     = controlplanev1.KubeadmControlPlaneMachinePodDeletingReason
	)
	p := s.Pods[component]
	switch {
	case s.Node == nil && s.Deleting:
		return bad(deleting, "Machine is deleting")
	case s.Node == nil:
		return unknown(uninspected, fmt.Sprintf("Node %s does not exist", s.NodeName))
	case unreachable(s.Node):
		return unknown(uninspected, fmt.Sprintf("Node %s is unreachable", s.NodeName))
	case p == nil:
		return bad(absent, "Pod does not exist")
	case !p.DeletionTimestamp.IsZero():
		return bad(deleting, "Pod is terminating")
	}
	switch p.Status.Phase {
	case corev1.PodPending:
		return bad(provisioning, startingUp(p))
	case corev1.PodRunning:
		if podReady(p) {
			return good(running)
		}
		if why := waiting(p); why != "" {
			return bad(failed, why)
		}
		return bad(provisioning, "Waiting for startup or readiness probes")
	case corev1.PodSucceeded, corev1.PodFailed:
		return bad(failed, "All the containers have been terminated")
	}
	return unknown(uninspected, "The Pod's phase is unknown")
}

func startingUp(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status != corev1.ConditionTrue {
			return "Waiting to be scheduled"
		}
		if c.Type == corev1.PodInitialized && c.Status != corev1.ConditionTrue {
			return "Running init containers"
		}
	}
	return "Waiting for containers to start"
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// waiting says which containers wait for something other than being created.
func waiting(p *corev1.Pod) string {
	var all []string
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Terminated != nil:
			all = append(all, fmt.Sprintf("container %s has terminated (%s)", c.Name, c.State.Terminated.Reason))
		case c.State.Waiting != nil && c.State.Waiting.Reason != "" && c.State.Waiting.Reason != "ContainerCreating":
			all = append(all, fmt.Sprintf("container %s is waiting (%s)", c.Name, c.State.Waiting.Reason))
		}
	}
	return strings.Join(all, ", ")
}

func (s Seen) member() metav1.Condition {
	c := s.memberState()
	c.Type = controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition
	return c
}

func (s Seen) memberState() metav1.Condition {
	const sick = controlplanev1.KubeadmControlPlaneMachineEtcdMemberNotHealthyReason
	switch {
	case s.Node == nil && s.Deleting:
		return bad(controlplanev1.KubeadmControlPlaneMachineEtcdMemberDeletingReason, "Machine is deleting")
	case s.Node == nil:
		return unknown(controlplanev1.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason, fmt.Sprintf("Node %s does not exist", s.NodeName))
	case s.Member == nil && s.MemberErr != nil:
		return unknown(controlplanev1.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason, s.MemberErr.Error())
	case s.Member == nil:
		return bad(sick, fmt.Sprintf("Etcd doesn't have a member for Node %s", s.NodeName))
	case len(s.Member.Alarms) > 0:
		return bad(sick, "Etcd member reports alarms: "+strings.Join(s.Member.Alarms, ", "))
	case s.Member.Learner:
		return bad(sick, "Etcd member is a learner that has not caught up yet")
	case s.MemberErr != nil:
		return bad(sick, s.MemberErr.Error())
	case !s.Member.Healthy:
		return bad(sick, "Etcd member does not answer")
	}
	return good(controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyReason)
}

func (s Seen) labelsAndTaints() metav1.Condition {
	c := s.labelsAndTaintsState()
	c.Type = controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition
	return c
}

func (s Seen) labelsAndTaintsState() metav1.Condition {
	const unset = controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsNotSetReason
	switch {
	case s.Node == nil && s.Deleting:
		return bad(controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsDeletingReason, "Machine is deleting")
	case s.Node == nil:
		return unknown(controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsInspectionFailedReason, fmt.Sprintf("Node %s does not exist", s.NodeName))
	}
	var missing []string
	if _, ok := s.Node.Labels[controlPlaneRole]; !ok {
		missing = append(missing, "Node is missing label "+controlPlaneRole)
	}
	for _, t := range s.wantedTaints() {
		if !slices.ContainsFunc(s.Node.Spec.Taints, func(have corev1.Taint) bool { return have.MatchTaint(&t) }) {
			missing = append(missing, "Node is missing taint "+t.Key+":"+string(t.Effect))
		}
	}
	if len(missing) > 0 {
		return bad(unset, "* "+strings.Join(missing, "\n* "))
	}
	return good(controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetReason)
}

func (s Seen) wantedTaints() []corev1.Taint {
	if s.Taints != nil {
		return *s.Taints
	}
	return []corev1.Taint{{Key: controlPlaneRole, Effect: corev1.TaintEffectNoSchedule}}
}

// TaintsOf are the taints that a config asks kubeadm to set; nil for its own.
func TaintsOf(c *bootstrapv1.KubeadmConfig) *[]corev1.Taint {
	if c == nil {
		return nil
	}
	if t := c.Spec.JoinConfiguration.NodeRegistration.Taints; t != nil {
		return t
	}
	return c.Spec.InitConfiguration.NodeRegistration.Taints
}

func unreachable(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeUnreachable })
}

func good(reason string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reason}
}

func bad(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func unknown(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}
