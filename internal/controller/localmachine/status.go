// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// report fills the conditions from the state. It is pure. failed is what the
// reconcile ended with.
func report(s *state, failed error) {
	generation := patch.Generation(s.local, s.before, s.local.Spec)
	set := func(c metav1.Condition) {
		c.ObservedGeneration = generation
		conditions.Set(s.local, s.now, c)
	}
	if c := vmProvisioned(s, failed); c != nil {
		set(*c)
	}
	if c := bootstrapExecSucceeded(s); c != nil {
		set(*c)
	}
	set(ready(s))
	set(pause.Condition(s.cluster, s.local))
}

// vmProvisioned is nil when nothing new is known.
func vmProvisioned(s *state, failed error) *metav1.Condition {
	c := &metav1.Condition{Type: infrav1.VMProvisionedCondition, Status: metav1.ConditionFalse, Reason: infrav1.VMNotProvisionedReason}
	switch {
	case s.waiting.reason != "":
		c.Reason, c.Message = s.waiting.reason, s.waiting.message
	case !s.local.DeletionTimestamp.IsZero():
		c.Reason = infrav1.VMDeletingReason
		if failed != nil {
			c.Message = "Waiting for the machine to be deleted: " + failed.Error()
		}
	case s.seen != nil && s.seen.Up():
		c.Status, c.Reason = metav1.ConditionTrue, infrav1.VMProvisionedReason
	case s.seen != nil:
		c.Message = "Waiting for " + s.seen.Message
	case s.stopped != nil && s.provisioned():
		c.Message = "The machine does not run: " + s.stopped.Error()
	case failed != nil && !s.provisioned():
		c.Message = "Waiting for the machine to be started: " + failed.Error()
	default:
		return nil
	}
	return c
}

// bootstrapExecSucceeded is nil until the machine runs, and when nothing new
// is known.
func bootstrapExecSucceeded(s *state) *metav1.Condition {
	if s.seen == nil || !s.seen.Up() {
		return nil
	}
	c := &metav1.Condition{Type: infrav1.BootstrapExecSucceededCondition, Status: metav1.ConditionFalse, Reason: infrav1.BootstrapExecRunningReason}
	switch {
	case s.seen.Stage == host.Done || s.provisioned():
		c.Status, c.Reason = metav1.ConditionTrue, infrav1.BootstrapExecSucceededReason
	case s.seen.Stage == host.Failed:
		c.Reason, c.Message = infrav1.BootstrapExecFailedReason, s.seen.Message
	default:
		c.Message = "Waiting for " + s.seen.Message
	}
	return c
}

func ready(s *state) metav1.Condition {
	if !s.local.DeletionTimestamp.IsZero() {
		return metav1.Condition{Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: clusterv1.DeletingReason, Message: "The machine is being deleted"}
	}
	types := []string{infrav1.VMProvisionedCondition, infrav1.BootstrapExecSucceededCondition}
	optional := types[1:]
	if conditions.IsTrue(s.local, infrav1.VMProvisionedCondition) {
		optional = nil
	}
	return conditions.Summary(s.local, clusterv1.ReadyCondition, conditions.SummaryOptions{
		Types: types, Optional: optional,
		Reasons: conditions.Reasons{Issue: clusterv1.NotReadyReason, Unknown: clusterv1.ReadyUnknownReason, Info: clusterv1.ReadyReason},
	})
}
