// SPDX-License-Identifier: Apache-2.0

package machinestatus

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// ReportDeprecated fills the v1beta1 status of a Machine, after Report: it is ready once it
// has bootstrap data and infrastructure, regardless of its Node.
func ReportDeprecated(f Facts) {
	m := f.Machine
	st := v1beta1conditions.OfMachine(m)
	noteFailures(f, &st)
	isDeleting := !m.DeletionTimestamp.IsZero()
	provisioned := ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false)
	all := append(healthcheck.Deprecated(m), deletionDeprecated(f)...)
	all = append(all, nodeHealthyDeprecated(f), bootstrapReadyDeprecated(f, st.Conditions), f.Infrastructure.Deprecated(reference.Deprecated{
		Target: clusterv1.InfrastructureReadyV1Beta1Condition, Done: provisioned,
		Awaited: clusterv1.WaitingForInfrastructureFallbackV1Beta1Reason, Deleting: isDeleting,
	}, st.Conditions))
	st.Conditions = v1beta1conditions.Set(st.Conditions, f.Now, all...)
	steps := 0
	first := []clusterv1.ConditionType{clusterv1.InfrastructureReadyV1Beta1Condition, clusterv1.BootstrapReadyV1Beta1Condition}
	then := []clusterv1.ConditionType{
		clusterv1.MachineHealthCheckSucceededV1Beta1Condition, clusterv1.MachineOwnerRemediatedV1Beta1Condition, clusterv1.DrainingSucceededV1Beta1Condition,
	}
	if !isDeleting && m.Spec.ProviderID == "" && !slices.ContainsFunc(then, func(t clusterv1.ConditionType) bool { return v1beta1conditions.Get(st.Conditions, t) != nil }) {
		steps = len(first)
	}
	st.Conditions = v1beta1conditions.Set(st.Conditions, f.Now, v1beta1conditions.Ready(st.Conditions, steps, append(first, then...)...))
	m.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &st}
}

// noteFailures copies the failures that providers report, and reports deleted
// infrastructure; a failure stays until another is reported.
func noteFailures(f Facts, st *clusterv1.MachineV1Beta1DeprecatedStatus) {
	if f.Infrastructure.Missing && f.Machine.DeletionTimestamp.IsZero() && ptr.Deref(f.Machine.Status.Initialization.InfrastructureProvisioned, false) {
		f.Infrastructure.NoteGone(&st.FailureReason, &st.FailureMessage, "Machine")
	}
	reference.NoteFailure(&st.FailureReason, &st.FailureMessage, f.BootstrapConfig, f.Infrastructure)
}

// bootstrapReadyDeprecated is True once there is bootstrap data, regardless of the later
// state of the bootstrap config.
func bootstrapReadyDeprecated(f Facts, was clusterv1.Conditions) clusterv1.Condition {
	m := f.Machine
	const t = clusterv1.BootstrapReadyV1Beta1Condition
	if m.Spec.Bootstrap.DataSecretName != nil && m.DeletionTimestamp.IsZero() {
		return v1beta1conditions.True(t)
	}
	if !f.BootstrapConfig.Defined() {
		return v1beta1conditions.Done(t, m.Spec.Bootstrap.DataSecretName != nil, clusterv1.WaitingForDataSecretFallbackV1Beta1Reason)
	}
	return f.BootstrapConfig.Deprecated(reference.Deprecated{
		Target: t, Done: ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false),
		Awaited: clusterv1.WaitingForDataSecretFallbackV1Beta1Reason, Deleting: !m.DeletionTimestamp.IsZero(),
	}, was)
}

// nodeHealthyDeprecated is NodeHealthy in terms of v1beta1.
func nodeHealthyDeprecated(f Facts) clusterv1.Condition {
	const t, warning = clusterv1.MachineNodeHealthyV1Beta1Condition, clusterv1.ConditionSeverityWarning
	m, is := f.Machine, conditions.Get(f.Machine, clusterv1.MachineNodeHealthyCondition)
	switch {
	case !m.DeletionTimestamp.IsZero():
		return v1beta1conditions.False(t, clusterv1.ConditionSeverityInfo, clusterv1.DeletingV1Beta1Reason, "")
	case is == nil:
		return v1beta1conditions.None(t)
	case is.Status == metav1.ConditionTrue:
		return v1beta1conditions.True(t)
	}
	switch is.Reason {
	case clusterv1.MachineNodeDeletedReason:
		return v1beta1conditions.False(t, clusterv1.ConditionSeverityError, clusterv1.NodeNotFoundV1Beta1Reason, "")
	case clusterv1.MachineNodeNotHealthyReason:
		return v1beta1conditions.False(t, warning, clusterv1.NodeConditionsFailedV1Beta1Reason, is.Message)
	case clusterv1.MachineNodeHealthUnknownReason:
		return v1beta1conditions.Unknown(t, clusterv1.NodeConditionsFailedV1Beta1Reason, is.Message)
	case clusterv1.MachineNodeInspectionFailedReason: // only waiting so far
		if m.Spec.ProviderID == "" {
			return v1beta1conditions.False(t, clusterv1.ConditionSeverityInfo, clusterv1.WaitingForNodeRefV1Beta1Reason, "")
		}
		return v1beta1conditions.False(t, warning, clusterv1.NodeProvisioningV1Beta1Reason, is.Message)
	}
	return v1beta1conditions.Unknown(t, clusterv1.NodeInspectionFailedV1Beta1Reason, is.Message)
}

// deletionDeprecated reports the steps of a deletion that have started: those before the
// current step have succeeded. A Node that is not drained has no condition for that
// step.
func deletionDeprecated(f Facts) (all []clusterv1.Condition) {
	began := ptr.Deref(f.Machine.Status.Deletion, clusterv1.MachineDeletionStatus{})
	steps := []struct {
		t             clusterv1.ConditionType
		at            string // the reason of Deleting during this step
		none          bool   // the step was skipped
		reason, while string
	}{
		{clusterv1.PreDrainDeleteHookSucceededV1Beta1Condition, clusterv1.MachineDeletingWaitingForPreDrainHookReason, false, clusterv1.WaitingExternalHookV1Beta1Reason, ""},
		{clusterv1.DrainingSucceededV1Beta1Condition, clusterv1.MachineDeletingDrainingNodeReason, began.NodeDrainStartTime.IsZero(), clusterv1.DrainingV1Beta1Reason, "Draining the Node before deletion"},
		{clusterv1.VolumeDetachSucceededV1Beta1Condition, clusterv1.MachineDeletingWaitingForVolumeDetachReason, began.WaitForNodeVolumeDetachStartTime.IsZero(), clusterv1.WaitingForVolumeDetachV1Beta1Reason, "Waiting for volumes of the Node to be detached"},
		{clusterv1.PreTerminateDeleteHookSucceededV1Beta1Condition, clusterv1.MachineDeletingWaitingForPreTerminateHookReason, false, clusterv1.WaitingExternalHookV1Beta1Reason, ""},
	}
	switch f.Deletion.Reason {
	case "", clusterv1.MachineDeletingReason, clusterv1.MachineDeletingInternalErrorReason:
		return nil // no new information
	}
	for _, s := range steps {
		switch {
		case s.at == f.Deletion.Reason:
			return append(all, v1beta1conditions.False(s.t, clusterv1.ConditionSeverityInfo, s.reason, s.while))
		case !s.none:
			all = append(all, v1beta1conditions.True(s.t))
		}
	}
	return all
}
