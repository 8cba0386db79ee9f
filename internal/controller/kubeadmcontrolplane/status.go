// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// report fills the status from the state. It is pure. What could not be looked
// at this time stays as it was reported last.
func report(s *state, failed error) {
	count(s)
	for _, c := range []metav1.Condition{
		initialized(s),
		certificatesAvailable(s),
		componentsHealthy(s),
		machinesReady(s),
		machinesUpToDate(s),
		rollingOut(s),
		scalingUp(s),
		scalingDown(s),
		remediating(s),
		deletingCondition(s, failed),
		pause.Condition(s.Cluster, s.ControlPlane),
	} {
		set(s, c)
	}
	if kubeadmcontrolplane.ManagesEtcd(s.ControlPlane) {
		set(s, etcdHealthy(s))
	} else {
		conditions.Delete(s.ControlPlane, controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition)
	}
	set(s, available(s)) // last: it is made from the others
	if failed == nil {
		s.ControlPlane.Status.ObservedGeneration = s.ControlPlane.Generation
	}
}

func set(s *state, c metav1.Condition) {
	c.ObservedGeneration = s.ControlPlane.Generation
	conditions.Set(s.ControlPlane, s.Now, c)
}

// count fills the counters, which the scale subresource and the Cluster read.
func count(s *state) {
	machines := make([]*clusterv1.Machine, 0, len(s.Machines))
	for _, m := range s.Machines {
		machines = append(machines, m.Machine)
	}
	c := scaling.Count(machines)
	st := &s.ControlPlane.Status
	st.Selector = clusterv1.ClusterNameLabel + "=" + s.Cluster.Name + "," + clusterv1.MachineControlPlaneLabel
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpToDateReplicas = &c.Replicas, &c.Ready, &c.Available, &c.UpToDate
	st.Versions = c.Versions
	st.Version = ""
	if len(c.Versions) > 0 {
		st.Version = c.Versions[0].Version
	}
}

func initialized(s *state) metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneInitializedCondition
	if kubeadmcontrolplane.Initialized(s.ControlPlane) {
		return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneInitializedReason, "")
	}
	return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotInitializedReason, waitsFor(s))
}

// waitsFor says what a control plane that is not initialized waits for.
func waitsFor(s *state) string {
	infra := s.Cluster.Status.Initialization.InfrastructureProvisioned
	switch {
	case infra == nil || !*infra:
		return "Waiting for the Cluster's infrastructure to be provisioned"
	case s.certsErr != nil:
		return ""
	case s.Cluster.Spec.ControlPlaneEndpoint.IsZero():
		return "Waiting for the Cluster's spec.controlPlaneEndpoint to be set"
	case len(s.Machines) > 0 && !s.health.Connected:
		return s.slowStart()
	}
	return ""
}

const (
	// firstContact is how long nobody expects the first machine to answer.
	firstContact = time.Minute

	// comingUp is how long a new machine is not described: it says something
	// else every moment, and each would be a write.
	comingUp = 10 * time.Second
)

// slowStart says why the workload cluster does not answer, once it should have.
// Until that is known, which is so after a restart too, it says what it said.
func (s *state) slowStart() string {
	if at := s.Machines[0].CreationTimestamp.Add(firstContact); at.After(s.Now) {
		s.due(at)
		return ""
	}
	if why := s.health.Why(); why != "" {
		return "Waiting for the workload cluster to answer: " + why
	}
	return conditions.Message(s.ControlPlane, controlplanev1.KubeadmControlPlaneInitializedCondition)
}

func certificatesAvailable(s *state) metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition
	switch {
	case s.certsErr != nil:
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneCertificatesNotAvailableReason, s.certsErr.Error())
	case s.pairs != nil:
		return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneCertificatesAvailableReason, "")
	}
	if old := conditions.Get(s.ControlPlane, t); old != nil {
		return *old
	}
	return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneCertificatesNotAvailableReason, waitsFor(s))
}

func machinesReady(s *state) metav1.Condition {
	described := objects(s)
	for i, m := range s.Machines {
		at := m.CreationTimestamp.Add(comingUp)
		if at.After(s.Now) && !conditions.IsTrue(m, clusterv1.MachineReadyCondition) && !m.Deleting() {
			s.due(at)
			described[i].Conditions = []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionUnknown, Message: "Machine is coming up"}}
		}
	}
	return conditions.Aggregate(described, clusterv1.MachineReadyCondition, controlplanev1.KubeadmControlPlaneMachinesReadyCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{
			Issue:   controlplanev1.KubeadmControlPlaneMachinesNotReadyReason,
			Unknown: controlplanev1.KubeadmControlPlaneMachinesReadyUnknownReason,
			Info:    controlplanev1.KubeadmControlPlaneMachinesReadyReason,
		},
		Empty: metav1.Condition{Status: metav1.ConditionTrue, Reason: controlplanev1.KubeadmControlPlaneMachinesReadyNoReplicasReason},
	})
}

func machinesUpToDate(s *state) metav1.Condition {
	return conditions.Aggregate(objects(s), clusterv1.MachineUpToDateCondition, controlplanev1.KubeadmControlPlaneMachinesUpToDateCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{
			Issue:   controlplanev1.KubeadmControlPlaneMachinesNotUpToDateReason,
			Unknown: controlplanev1.KubeadmControlPlaneMachinesUpToDateUnknownReason,
			Info:    controlplanev1.KubeadmControlPlaneMachinesUpToDateReason,
		},
		Empty: metav1.Condition{Status: metav1.ConditionTrue, Reason: controlplanev1.KubeadmControlPlaneMachinesUpToDateNoReplicasReason},
	})
}

func objects(s *state) []conditions.Object {
	return conditions.Objects("Machine", s.Machines...)
}

func rollingOut(s *state) metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneRollingOutCondition
	outdated, why := 0, []string{}
	for _, m := range s.Machines {
		if !conditions.IsFalse(m, clusterv1.MachineUpToDateCondition) {
			continue
		}
		outdated++
		for line := range strings.SplitSeq(conditions.Message(m, clusterv1.MachineUpToDateCondition), "\n") {
			if !slices.Contains(why, line) {
				why = append(why, line)
			}
		}
	}
	if outdated == 0 {
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotRollingOutReason, "")
	}
	message := fmt.Sprintf("Rolling out %d not up-to-date %s", outdated, replicas(outdated))
	return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneRollingOutReason, strings.Join(append([]string{message}, why...), "\n"))
}

func replicas(n int) string {
	if n == 1 {
		return "replica"
	}
	return "replicas"
}

func scalingUp(s *state) metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneScalingUpCondition
	if s.ControlPlane.Spec.Replicas == nil {
		return conditions.New(t, metav1.ConditionUnknown, controlplanev1.KubeadmControlPlaneScalingUpWaitingForReplicasSetReason, "Waiting for spec.replicas set")
	}
	want, have := wanted(s), len(s.Machines)
	if have >= want {
		message := ""
		if s.problem != "" && s.ControlPlane.DeletionTimestamp.IsZero() {
			message = "Scaling up would be blocked because " + s.problem
		}
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotScalingUpReason, message)
	}
	message := fmt.Sprintf("Scaling up from %d to %d %s", have, want, replicas(want))
	blocked := s.blocked
	if s.problem != "" && !slices.Contains(blocked, s.problem) {
		blocked = append(blocked, s.problem)
	}
	return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneScalingUpReason, because(message, blocked))
}

func scalingDown(s *state) metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneScalingDownCondition
	if s.ControlPlane.Spec.Replicas == nil {
		return conditions.New(t, metav1.ConditionUnknown, controlplanev1.KubeadmControlPlaneScalingDownWaitingForReplicasSetReason, "Waiting for spec.replicas set")
	}
	want, have := wanted(s), len(s.Machines)
	if have <= want {
		// A machine that somebody deletes is not one too many, yet it goes.
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotScalingDownReason, strings.Join(s.held, "\n"))
	}
	message := fmt.Sprintf("Scaling down from %d to %d %s", have, want, replicas(want))
	return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneScalingDownReason, because(message, slices.Concat(s.blocked, s.held)))
}

// wanted is how many machines there are to be; none when all is deleted.
func wanted(s *state) int {
	if !s.ControlPlane.DeletionTimestamp.IsZero() {
		return 0
	}
	return int(*s.ControlPlane.Spec.Replicas)
}

func because(message string, blocked []string) string {
	if len(blocked) == 0 {
		return message
	}
	return message + " is blocked because:\n* " + strings.Join(blocked, "\n* ")
}

func remediating(s *state) metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneRemediatingCondition
	var under []string
	for _, m := range s.Machines {
		if conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
			under = append(under, fmt.Sprintf("* Machine %s: %s", m.Name, conditions.Message(m, clusterv1.MachineOwnerRemediatedCondition)))
		}
	}
	if len(under) > 0 {
		return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneRemediatingReason, strings.Join(under, "\n"))
	}
	return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotRemediatingReason, "")
}

func deletingCondition(s *state, failed error) metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneDeletingCondition
	switch {
	case s.ControlPlane.DeletionTimestamp.IsZero():
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotDeletingReason, "")
	case s.deleting.reason == "" && failed != nil:
		return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneDeletingInternalErrorReason, "Looking for what is left to delete failed")
	}
	return conditions.New(t, metav1.ConditionTrue, s.deleting.reason, s.deleting.message)
}
