// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

// controlPlaneRole is the label and the taint that kubeadm sets on the Nodes of a
// control plane.
const controlPlaneRole = "node-role.kubernetes.io/control-plane"

// components are the static Pods of a machine and their conditions.
var components = []struct{ name, condition string }{
	{"kube-apiserver", controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition},
	{"kube-controller-manager", controlplanev1.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition},
	{"kube-scheduler", controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition},
	{"etcd", controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition},
}

const (
	// ConnectionGrace is how long the last report is kept while the workload cluster
	// does not answer.
	ConnectionGrace = 5 * time.Minute

	// firstReport is how long a machine's first report can wait until all of its
	// components are running: static Pods start one after the other, and each would
	// cause a write.
	firstReport = 20 * time.Second
)

// Assess evaluates the components on a machine: as observed in the workload cluster,
// else as reported last, until the cluster has not answered for too long. It returns the
// conditions of the machine, including those of its components.
func Assess(f Facts, m *Machine) conditions.List {
	var found []metav1.Condition
	switch {
	case m.Node() == "": // the Machine reports what it waits for
	case f.Workload.Inspected:
		found = f.see(m).conditions()
	case !f.Workload.Connected && Initialized(f.ControlPlane) && !f.graceEnds().After(f.Now):
		found = f.lost(m)
	}
	var to clusterv1.Machine
	to.SetConditions(m.Reported)
	for _, c := range found {
		conditions.Set(&to, f.Now, c)
	}
	return to.GetConditions()
}

// graceEnds is until when the lost connection is tolerated.
func (f Facts) graceEnds() time.Time { return f.Workload.Since.Add(ConnectionGrace) }

// lost reports that the state of a machine's components is not known any longer.
func (f Facts) lost(m *Machine) (all []metav1.Condition) {
	never := f.Workload.LastProbe.IsZero()
	message := "Last successful probe at " + f.Workload.Since.UTC().Format(time.RFC3339)
	if never {
		message = "No successful probe since " + f.Workload.Since.UTC().Format(time.RFC3339)
	}
	for _, t := range reported(ManagesEtcd(f.ControlPlane)) {
		if never && conditions.Reason(m, t) == clusterv1.ConnectionDownReason {
			continue // the previous process had a more precise time
		}
		all = append(all, typed(t, unknown(clusterv1.ConnectionDownReason, message)))
	}
	return all
}

// reported are the types of the conditions that are reported on machines.
func reported(managesEtcd bool) []string {
	return append(ComponentConditions(managesEtcd), controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition)
}

// firstHeld reports that a machine's first report waits, and until when if that is
// known: for a Node, or for the last of its components to run.
func (f Facts) firstHeld(m *Machine) (held bool, until time.Time) {
	managed := ManagesEtcd(f.ControlPlane)
	switch {
	case conditions.Has(m, reported(managed)[0]):
		return false, until
	case m.Node() == "":
		return m.UpToDate, until // else the machine is outdated, which is reported now
	}
	node := f.Workload.Nodes[m.Node()]
	if node == nil || m.Deleting() || len(Unhealthy(m, managed)) == 0 {
		return false, until
	}
	until = node.CreationTimestamp.Add(firstReport)
	return until.After(f.Now), until
}

// seen is the observed state of one machine in the workload cluster. Absent objects are
// nil.
type seen struct {
	deleting bool // the machine is being deleted
	nodeName string
	node     *corev1.Node
	pods     map[string]*corev1.Pod // by component
	taints   *[]corev1.Taint        // that kubeadm was configured to set; nil for its own

	managesEtcd bool
	member      *quorum.Member // nil: the Node has none
	memberErr   error          // why members, or this one, could not be inspected
}

func (f Facts) see(m *Machine) seen {
	s := seen{
		deleting: m.Deleting(), nodeName: m.Node(), node: f.Workload.Nodes[m.Node()], pods: map[string]*corev1.Pod{}, taints: taintsOf(m.Config),
		managesEtcd: ManagesEtcd(f.ControlPlane), member: f.Etcd.Member(m.Node()), memberErr: f.Etcd.memberErr(m.Node()),
	}
	for _, c := range components {
		s.pods[c.name] = f.Workload.Pods[c.name+"-"+m.Node()]
	}
	return s
}

// conditions are those of a machine's components, in a fixed order.
func (s seen) conditions() (all []metav1.Condition) {
	for _, c := range components {
		if c.name == "etcd" && !s.managesEtcd {
			continue
		}
		cond := s.pod(c.name)
		cond.Type = c.condition
		all = append(all, cond)
	}
	if s.managesEtcd {
		all = append(all, typed(controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition, s.memberState()))
	}
	return append(all, typed(controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition, s.labelsAndTaints()))
}

func (s seen) pod(component string) metav1.Condition {
	const (
		running      = controlplanev1.KubeadmControlPlaneMachinePodRunningReason
		provisioning = controlplanev1.KubeadmControlPlaneMachinePodProvisioningReason
		absent       = controlplanev1.KubeadmControlPlaneMachinePodDoesNotExistReason
		failed       = controlplanev1.KubeadmControlPlaneMachinePodFailedReason
		uninspected  = controlplanev1.KubeadmControlPlaneMachinePodInspectionFailedReason
		deleting     = controlplanev1.KubeadmControlPlaneMachinePodDeletingReason
	)
	p := s.pods[component]
	switch {
	case s.node == nil && s.deleting:
		return bad(deleting, "Machine is deleting")
	case s.node == nil:
		return unknown(uninspected, fmt.Sprintf("Node %s does not exist", s.nodeName))
	case unreachable(s.node):
		return unknown(uninspected, fmt.Sprintf("Node %s is unreachable", s.nodeName))
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

// waiting lists containers that have terminated, or wait for another reason than their
// creation.
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

func (s seen) memberState() metav1.Condition {
	const notHealthy = controlplanev1.KubeadmControlPlaneMachineEtcdMemberNotHealthyReason
	switch {
	case s.node == nil && s.deleting:
		return bad(controlplanev1.KubeadmControlPlaneMachineEtcdMemberDeletingReason, "Machine is deleting")
	case s.node == nil:
		return unknown(controlplanev1.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason, fmt.Sprintf("Node %s does not exist", s.nodeName))
	case s.member == nil && s.memberErr != nil:
		return unknown(controlplanev1.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason, s.memberErr.Error())
	case s.member == nil:
		return bad(notHealthy, fmt.Sprintf("Etcd doesn't have a member for Node %s", s.nodeName))
	case len(s.member.Alarms) > 0:
		return bad(notHealthy, "Etcd member reports alarms: "+strings.Join(s.member.Alarms, ", "))
	case s.member.Learner:
		return bad(notHealthy, "Etcd member is a learner that has not caught up yet")
	case s.memberErr != nil:
		return bad(notHealthy, s.memberErr.Error())
	case !s.member.Healthy:
		return bad(notHealthy, "Etcd member does not answer")
	}
	return good(controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyReason)
}

func (s seen) labelsAndTaints() metav1.Condition {
	const unset = controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsNotSetReason
	switch {
	case s.node == nil && s.deleting:
		return bad(controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsDeletingReason, "Machine is deleting")
	case s.node == nil:
		return unknown(controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsInspectionFailedReason, fmt.Sprintf("Node %s does not exist", s.nodeName))
	}
	var missing []string
	if _, ok := s.node.Labels[controlPlaneRole]; !ok {
		missing = append(missing, "Node is missing label "+controlPlaneRole)
	}
	for _, t := range s.wantedTaints() {
		if !slices.ContainsFunc(s.node.Spec.Taints, func(have corev1.Taint) bool { return have.MatchTaint(&t) }) {
			missing = append(missing, "Node is missing taint "+t.Key+":"+string(t.Effect))
		}
	}
	if len(missing) > 0 {
		return bad(unset, "* "+strings.Join(missing, "\n* "))
	}
	return good(controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetReason)
}

func (s seen) wantedTaints() []corev1.Taint {
	if s.taints != nil {
		return *s.taints
	}
	return []corev1.Taint{{Key: controlPlaneRole, Effect: corev1.TaintEffectNoSchedule}}
}

// taintsOf are the taints that a config has kubeadm set; nil for kubeadm's own.
func taintsOf(c *bootstrapv1.KubeadmConfig) *[]corev1.Taint {
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

func typed(t string, c metav1.Condition) metav1.Condition {
	c.Type = t
	return c
}

func bad(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

func unknown(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionUnknown, Reason: reason, Message: message}
}
