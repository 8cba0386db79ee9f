// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// nodeConditions returns NodeReady and NodeHealthy, or nil while the last observed state
// still counts.
func nodeConditions(f Facts) []metav1.Condition {
	if f.Node.Node != nil {
		return []metav1.Condition{nodeReady(f.Node.Node), NodeHealthy(f.Node.Node)}
	}
	status, reason, message := metav1.ConditionUnknown, "", ""
	isDeleting := !f.Machine.DeletionTimestamp.IsZero()
	switch {
	case f.Node.Failure != "":
		reason, message = clusterv1.MachineNodeInternalErrorReason, f.Node.Failure
	case f.Node.disconnected() && f.Now.Before(f.Node.GraceEnds) && conditions.Has(f.Machine, clusterv1.MachineNodeHealthyCondition):
		return nil // within the grace period
	case f.Node.disconnected() && f.Node.LastProbe.IsZero() && conditions.Reason(f.Machine, clusterv1.MachineNodeHealthyCondition) == clusterv1.MachineNodeConnectionDownReason:
		return nil // the previous process had a more precise time
	case f.Node.disconnected() && f.Node.LastProbe.IsZero():
		reason, message = clusterv1.MachineNodeConnectionDownReason, f.Node.Awaited
	case f.Node.disconnected():
		reason, message = clusterv1.MachineNodeConnectionDownReason, "Last successful probe at "+f.Node.LastProbe.UTC().Format(time.RFC3339)
	case f.Node.Gone && isDeleting:
		reason, message = clusterv1.MachineNodeDeletedReason, fmt.Sprintf("Node %s has been deleted", f.Machine.Status.NodeRef.Name)
	case f.Node.Gone:
		status, reason, message = metav1.ConditionFalse, clusterv1.MachineNodeDeletedReason, fmt.Sprintf("Node %s has been deleted while the Machine still exists", f.Machine.Status.NodeRef.Name)
	case isDeleting:
		reason, message = clusterv1.MachineNodeDoesNotExistReason, "Node does not exist"
	default:
		reason, message = clusterv1.MachineNodeInspectionFailedReason, f.Node.Awaited
	}
	c := metav1.Condition{Status: status, Reason: reason, Message: message}
	readyCondition, healthy := c, c
	readyCondition.Type, healthy.Type = clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition
	return []metav1.Condition{readyCondition, healthy}
}

// disconnected reports whether the Node could not be read for lack of a connection.
func (n Node) disconnected() bool { return !n.Connected && !n.GraceEnds.IsZero() }

// nodeReady copies the Ready condition of the Node.
func nodeReady(node *corev1.Node) metav1.Condition {
	const target = clusterv1.MachineNodeReadyCondition
	found := nodeCondition(node, corev1.NodeReady)
	message := "* Node.Ready: " + found.Message
	switch found.Status {
	case corev1.ConditionTrue:
		return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineNodeReadyReason, "")
	case corev1.ConditionFalse:
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNodeNotReadyReason, message)
	default:
		return conditions.New(target, metav1.ConditionUnknown, clusterv1.MachineNodeReadyUnknownReason, message)
	}
}

// NodeHealthy summarizes the conditions of a Node that determine whether Pods can run.
func NodeHealthy(node *corev1.Node) metav1.Condition {
	const target = clusterv1.MachineNodeHealthyCondition
	var issues, unknown []string
	for _, want := range []struct {
		conditionType corev1.NodeConditionType
		good          corev1.ConditionStatus
	}{
		{corev1.NodeReady, corev1.ConditionTrue}, {corev1.NodeMemoryPressure, corev1.ConditionFalse},
		{corev1.NodeDiskPressure, corev1.ConditionFalse}, {corev1.NodePIDPressure, corev1.ConditionFalse},
	} {
		found := nodeCondition(node, want.conditionType)
		line := fmt.Sprintf("* Node.%s: %s", want.conditionType, found.Message)
		switch found.Status {
		case want.good:
		case corev1.ConditionUnknown:
			unknown = append(unknown, line)
		default:
			issues = append(issues, line)
		}
	}
	message := strings.Join(append(issues, unknown...), "\n")
	switch {
	case len(issues) > 0:
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNodeNotHealthyReason, message)
	case len(unknown) > 0:
		return conditions.New(target, metav1.ConditionUnknown, clusterv1.MachineNodeHealthUnknownReason, message)
	default:
		return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineNodeHealthyReason, "")
	}
}

// nodeCondition returns a condition of the Node; a missing one is unknown.
func nodeCondition(node *corev1.Node, conditionType corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == conditionType {
			c.Message = cmp.Or(c.Message, "Condition is "+string(c.Status))
			return c
		}
	}
	return corev1.NodeCondition{Status: corev1.ConditionUnknown, Message: "Condition not yet reported"}
}
