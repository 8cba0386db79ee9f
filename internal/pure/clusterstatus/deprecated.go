// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"time"

	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

// ReportDeprecated fills the status fields for clients of v1beta1, after Report: a Cluster
// is ready once its control plane and its infrastructure are.
func ReportDeprecated(f Facts) {
	c := f.Cluster
	st := deprecatedOf(c)
	reference.NoteFailure(&st.FailureReason, &st.FailureMessage, f.Infrastructure, f.ControlPlane)
	const plane, infra = clusterv1.ControlPlaneReadyV1Beta1Condition, clusterv1.InfrastructureReadyV1Beta1Condition
	isDeleting := !c.DeletionTimestamp.IsZero()
	controlPlane, infrastructure := v1beta1conditions.None(plane), v1beta1conditions.True(infra)
	if f.ControlPlane.Defined() || c.Spec.Topology.IsDefined() {
		controlPlane = f.ControlPlane.Deprecated(reference.Deprecated{
			Target: plane, Done: f.initialized(), Awaited: clusterv1.WaitingForControlPlaneFallbackV1Beta1Reason, Deleting: isDeleting,
		}, st.Conditions)
	}
	if f.Infrastructure.Defined() || c.Spec.Topology.IsDefined() {
		infrastructure = f.Infrastructure.Deprecated(reference.Deprecated{
			Target: infra, Done: ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false),
			Awaited: clusterv1.WaitingForInfrastructureFallbackV1Beta1Reason, Deleting: isDeleting,
		}, st.Conditions)
	}
	awaited := clusterv1.WaitingForControlPlaneProviderInitializedV1Beta1Reason
	if !f.ControlPlane.Defined() && !c.Spec.Topology.IsDefined() {
		awaited = clusterv1.MissingNodeRefV1Beta1Reason
	}
	st.Conditions = v1beta1conditions.Set(st.Conditions, f.Now, controlPlane, infrastructure,
		v1beta1conditions.Done(clusterv1.ControlPlaneInitializedV1Beta1Condition, f.initialized(), awaited))
	st.Conditions = v1beta1conditions.Set(st.Conditions, f.Now, v1beta1conditions.Ready(st.Conditions, 0, plane, infra))
	c.Status.Deprecated = &clusterv1.ClusterDeprecatedStatus{V1Beta1: &st}
}

// SetDeprecated sets a condition that is not from this package: the topology's.
func SetDeprecated(c *clusterv1.Cluster, now time.Time, condition clusterv1.Condition) {
	st := deprecatedOf(c)
	st.Conditions = v1beta1conditions.Set(st.Conditions, now, condition)
	c.Status.Deprecated = &clusterv1.ClusterDeprecatedStatus{V1Beta1: &st}
}

func deprecatedOf(c *clusterv1.Cluster) clusterv1.ClusterV1Beta1DeprecatedStatus {
	return ptr.Deref(ptr.Deref(c.Status.Deprecated, clusterv1.ClusterDeprecatedStatus{}).V1Beta1, clusterv1.ClusterV1Beta1DeprecatedStatus{})
}
