// SPDX-License-Identifier: Apache-2.0

// Package v1beta1status fills the v1beta1 status of a kubeadm control plane, and its
// v1beta1 conditions on machines: from the facts, and after the rest of the status,
// which it repeats in v1beta1 terms.
//
//   - Counters depend on Nodes: a machine is ready while its Node is. During the
//     deletion of the control plane none is. status.ready of v1beta1 is whether any is.
//   - A component that starts or terminates has severity Info; one that is missing or
//     has failed is an error.
//   - A remediation is reported where v1beta1 clients expect it. Decisions about it
//     depend only on the newer conditions.
package v1beta1status

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

const (
	severe  = clusterv1.ConditionSeverityError
	warning = clusterv1.ConditionSeverityWarning
	info    = clusterv1.ConditionSeverityInfo
)

// Status is the input of this package. The control plane already has the status of this
// reconcile, except for the part that is built here.
type Status struct {
	controlplane.Facts

	NotCreated v1beta1conditions.Failure // why a machine could not be created; zero if none failed
}

// Report fills the v1beta1 status of a control plane.
func Report(s Status) {
	kcp := s.ControlPlane
	st := ptr.Deref(ptr.Deref(kcp.Status.Deprecated, controlplanev1.KubeadmControlPlaneDeprecatedStatus{}).V1Beta1, controlplanev1.KubeadmControlPlaneV1Beta1DeprecatedStatus{})
	st.UpdatedReplicas, st.ReadyReplicas = ptr.Deref(kcp.Status.UpToDateReplicas, 0), 0
	for _, m := range s.Machines {
		if kcp.DeletionTimestamp.IsZero() && conditions.IsTrue(m, clusterv1.MachineNodeReadyCondition) {
			st.ReadyReplicas++
		}
	}
	st.UnavailableReplicas = int32(len(s.Machines)) - st.ReadyReplicas
	was := st.Conditions
	st.Conditions = v1beta1conditions.Set(was, s.Now,
		s.machinesCreated(),
		s.upToDate(st.UpdatedReplicas),
		s.resized(st.ReadyReplicas, v1beta1conditions.Get(was, controlplanev1.ResizedV1Beta1Condition)),
		v1beta1conditions.AggregateMachines(controlplanev1.MachinesReadyV1Beta1Condition, s.machines()),
		s.available(),
		s.certificates(v1beta1conditions.Get(was, controlplanev1.CertificatesAvailableV1Beta1Condition)),
		s.health(ofComponents), s.health(ofEtcd))
	st.Conditions = v1beta1conditions.Set(st.Conditions, s.Now, v1beta1conditions.Ready(st.Conditions, 0,
		controlplanev1.MachinesCreatedV1Beta1Condition, controlplanev1.MachinesSpecUpToDateV1Beta1Condition, controlplanev1.ResizedV1Beta1Condition,
		controlplanev1.MachinesReadyV1Beta1Condition, controlplanev1.AvailableV1Beta1Condition, controlplanev1.CertificatesAvailableV1Beta1Condition))
	kcp.Status.Deprecated = &controlplanev1.KubeadmControlPlaneDeprecatedStatus{V1Beta1: &st}
}

func (s Status) machines() (all []*clusterv1.Machine) {
	for _, m := range s.Machines {
		all = append(all, m.Machine)
	}
	return all
}

// wanted is the desired number of machines.
func (s Status) wanted() int {
	return int(ptr.Deref(s.ControlPlane.Spec.Replicas, int32(len(s.Machines))))
}

func (s Status) machinesCreated() clusterv1.Condition {
	const t = controlplanev1.MachinesCreatedV1Beta1Condition
	switch {
	case s.NotCreated.Reason != "":
		return v1beta1conditions.False(t, severe, s.NotCreated.Reason, s.NotCreated.Message)
	case s.Template != "" && s.ControlPlane.DeletionTimestamp.IsZero() && len(s.Machines) < s.wanted():
		return v1beta1conditions.False(t, severe, controlplanev1.InfrastructureTemplateCloningFailedV1Beta1Reason, s.Template)
	}
	return v1beta1conditions.True(t)
}

func (s Status) upToDate(updated int32) clusterv1.Condition {
	const t = controlplanev1.MachinesSpecUpToDateV1Beta1Condition
	if outdated := int32(len(s.Machines)) - updated; outdated > 0 {
		return v1beta1conditions.False(t, warning, controlplanev1.RollingUpdateInProgressV1Beta1Reason,
			fmt.Sprintf("Rolling %d replicas with outdated spec (%d replicas up to date)", outdated, updated))
	}
	return v1beta1conditions.True(t)
}

// resized is True once the Nodes of the desired number of machines are ready. A later
// failure of a Node does not change it.
func (s Status) resized(ready int32, was *clusterv1.Condition) clusterv1.Condition {
	const t = controlplanev1.ResizedV1Beta1Condition
	have, want := len(s.Machines), s.wanted()
	joining := slices.ContainsFunc(s.Machines, func(m *controlplane.Machine) bool { return m.Node() == "" })
	switch {
	case !s.ControlPlane.DeletionTimestamp.IsZero():
		return v1beta1conditions.False(t, info, clusterv1.DeletingV1Beta1Reason, "")
	case have > want:
		return v1beta1conditions.False(t, warning, controlplanev1.ScalingDownV1Beta1Reason, fmt.Sprintf("Scaling down control plane to %d replicas (actual %d)", want, have))
	case have == want && int(ready) == have:
		return v1beta1conditions.True(t)
	case have < want, joining, was == nil:
		return v1beta1conditions.False(t, warning, controlplanev1.ScalingUpV1Beta1Reason, fmt.Sprintf("Scaling up control plane to %d replicas (actual %d)", want, have))
	}
	return *was
}

func (s Status) available() clusterv1.Condition {
	return v1beta1conditions.Done(controlplanev1.AvailableV1Beta1Condition, controlplane.Initialized(s.ControlPlane), controlplanev1.WaitingForKubeadmInitV1Beta1Reason)
}

// certificates returns the last condition if the certificates were not checked.
func (s Status) certificates(was *clusterv1.Condition) clusterv1.Condition {
	const t = controlplanev1.CertificatesAvailableV1Beta1Condition
	switch c := s.Certificates; {
	case c.Err != nil:
		return v1beta1conditions.False(t, warning, controlplanev1.CertificatesGenerationFailedV1Beta1Reason, c.Err.Error())
	case c.Checked, conditions.IsTrue(s.ControlPlane, controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition):
		return v1beta1conditions.True(t)
	case was != nil:
		return *was
	}
	return v1beta1conditions.None(t)
}

// summary is a condition of the control plane that summarizes its machines, with its
// v1beta1 names.
type summary struct {
	of                              string
	as                              clusterv1.ConditionType
	uninspected, unhealthy, unknown string
}

var (
	ofComponents = summary{
		of: controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition, as: controlplanev1.ControlPlaneComponentsHealthyV1Beta1Condition,
		uninspected: controlplanev1.ControlPlaneComponentsInspectionFailedV1Beta1Reason,
		unhealthy:   controlplanev1.ControlPlaneComponentsUnhealthyV1Beta1Reason,
		unknown:     controlplanev1.ControlPlaneComponentsUnknownV1Beta1Reason,
	}
	ofEtcd = summary{
		of: controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition, as: controlplanev1.EtcdClusterHealthyV1Beta1Condition,
		uninspected: controlplanev1.EtcdClusterInspectionFailedV1Beta1Reason,
		unhealthy:   controlplanev1.EtcdClusterUnhealthyV1Beta1Reason,
		unknown:     controlplanev1.EtcdClusterUnknownV1Beta1Reason,
	}
)

// health is None before there is anything to inspect, and for an external etcd.
func (s Status) health(what summary) clusterv1.Condition {
	c := conditions.Get(s.ControlPlane, what.of)
	switch {
	case c == nil || !controlplane.Initialized(s.ControlPlane):
		return v1beta1conditions.None(what.as)
	case c.Status == metav1.ConditionTrue:
		return v1beta1conditions.True(what.as)
	case c.Status == metav1.ConditionFalse:
		return v1beta1conditions.False(what.as, s.severity(what), what.unhealthy, c.Message)
	case c.Reason == clusterv1.InspectionFailedReason || c.Reason == clusterv1.ConnectionDownReason:
		return v1beta1conditions.Unknown(what.as, what.uninspected, c.Message)
	}
	return v1beta1conditions.Unknown(what.as, what.unknown, c.Message)
}

// severity is that of the worst component. If no component has failed, etcd has members
// without a machine.
func (s Status) severity(what summary) clusterv1.ConditionSeverity {
	var parts []clusterv1.Condition
	for _, m := range s.Machines {
		if m.Node() != "" {
			parts = append(parts, components(m, func(t component) bool { return t.member == (what.as == ofEtcd.as) })...)
		}
	}
	if c := v1beta1conditions.Merge(what.as, 0, parts...); c.Severity != "" {
		return c.Severity
	}
	return severe
}
