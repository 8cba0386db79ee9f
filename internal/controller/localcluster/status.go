// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// report fills the conditions from the state. It is pure. failed is what the
// reconcile ended with.
func report(s *state, failed error) {
	generation := patch.Generation(s.local, s.before, s.local.Spec)
	for _, c := range []metav1.Condition{ready(s, failed), deleting(s, failed), pause.Condition(s.cluster, s.local)} {
		c.ObservedGeneration = generation
		conditions.Set(s.local, s.now, c)
	}
}

// ready is true while the endpoint is there.
func ready(s *state, failed error) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotReadyReason}
	switch {
	case !s.local.DeletionTimestamp.IsZero():
		c.Reason, c.Message = clusterv1.DeletingReason, "The infrastructure is being deleted"
	case s.waiting != "":
		c.Message = s.waiting
	case failed != nil:
		c.Message = "Waiting for the control plane endpoint: " + failed.Error()
	default:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ReadyReason
	}
	return c
}

func deleting(s *state, failed error) metav1.Condition {
	c := metav1.Condition{Type: clusterv1.DeletingCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotDeletingReason}
	if s.local.DeletionTimestamp.IsZero() {
		return c
	}
	c.Status, c.Reason = metav1.ConditionTrue, clusterv1.DeletingReason
	switch {
	case s.waiting != "":
		c.Message = s.waiting
	case failed != nil:
		c.Message = "Waiting for the infrastructure to be deleted: " + failed.Error()
	}
	return c
}
