// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
)

const waitingForInit = "Waiting for Cluster control plane to be initialized"

// failureGracePeriod is how long a new failure of a component is not reported while the
// control plane is still available.
const failureGracePeriod = 10 * time.Second

var etcdConditions = []string{
	controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
	controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition,
}

// reasons of a condition that summarizes others.
type reasons struct{ uninspected, down, healthy, failing, unknown string }

func etcdHealthy(f Facts) metav1.Condition {
	var issues []string
	for _, o := range Orphans(f) {
		issues = append(issues, fmt.Sprintf("* Etcd member %s does not have a corresponding Machine", o))
	}
	return typed(controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition, sum(f, []string{controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition}, issues, reasons{
		uninspected: controlplanev1.KubeadmControlPlaneEtcdClusterInspectionFailedReason,
		down:        controlplanev1.KubeadmControlPlaneEtcdClusterConnectionDownReason,
		healthy:     controlplanev1.KubeadmControlPlaneEtcdClusterHealthyReason,
		failing:     controlplanev1.KubeadmControlPlaneEtcdClusterNotHealthyReason,
		unknown:     controlplanev1.KubeadmControlPlaneEtcdClusterHealthUnknownReason,
	}))
}

func componentsHealthy(f Facts) metav1.Condition {
	types := slices.DeleteFunc(ComponentConditions(ManagesEtcd(f.ControlPlane)), func(t string) bool {
		return t == controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition
	})
	return typed(controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition, sum(f, types, nil, reasons{
		uninspected: controlplanev1.KubeadmControlPlaneControlPlaneComponentsInspectionFailedReason,
		down:        controlplanev1.KubeadmControlPlaneControlPlaneComponentsConnectionDownReason,
		healthy:     controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyReason,
		failing:     controlplanev1.KubeadmControlPlaneControlPlaneComponentsNotHealthyReason,
		unknown:     controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthUnknownReason,
	}))
}

// sum aggregates the health of all machines that have a Node to one condition.
func sum(f Facts, types, issues []string, r reasons) metav1.Condition {
	if !Initialized(f.ControlPlane) {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: r.uninspected, Message: waitingForInit}
	}
	var unknown []string
	seen, down := 0, false
	for _, m := range f.Machines {
		if m.Node() == "" {
			continue
		}
		seen++
		for _, t := range types {
			c := conditions.Get(m.Health, t)
			switch {
			case c == nil:
				unknown = append(unknown, fmt.Sprintf("* Machine %s: %s: not yet reported", m.Name, t))
			case c.Status == metav1.ConditionFalse:
				issues = append(issues, fmt.Sprintf("* Machine %s: %s: %s", m.Name, t, c.Message))
			case c.Status == metav1.ConditionUnknown:
				down = down || c.Reason == clusterv1.ConnectionDownReason
				unknown = append(unknown, fmt.Sprintf("* Machine %s: %s: %s", m.Name, t, c.Message))
			}
		}
	}
	switch {
	case len(issues) > 0:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: r.failing, Message: strings.Join(append(issues, unknown...), "\n")}
	case down:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: r.down, Message: strings.Join(unknown, "\n")}
	case len(unknown) > 0 || seen == 0:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: r.unknown, Message: strings.Join(unknown, "\n")}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: r.healthy}
}

// available is True when the control plane can be used and has the fault tolerance that
// its replicas provide.
func (r *reporter) available() metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneAvailableCondition
	if !Initialized(r.ControlPlane) {
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotAvailableReason, strings.TrimSuffix(fmt.Sprintf("Control plane not yet initialized: %v", r.Certificates.Err), ": <nil>"))
	}
	down := isDown(r.Facts)
	if old := conditions.Get(r.ControlPlane, t); !r.Workload.Connected && r.ControlPlane.DeletionTimestamp.IsZero() && old != nil && !down {
		return *old // no new information
	}
	if down {
		return conditions.New(t, metav1.ConditionUnknown, controlplanev1.KubeadmControlPlaneAvailableInspectionFailedReason, "* The workload cluster does not answer")
	}
	issues, notes := r.unavailable()
	if len(issues) > 0 {
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotAvailableReason, strings.Join(issues, "\n"))
	}
	return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneAvailableReason, strings.Join(notes, "\n"))
}

// isDown reports whether the state of the components is unknown because the connection
// is down.
func isDown(f Facts) bool {
	for _, m := range f.Machines {
		for _, t := range reported(ManagesEtcd(f.ControlPlane)) {
			if conditions.Reason(m.Health, t) == clusterv1.ConnectionDownReason {
				return true
			}
		}
	}
	return false
}

// unavailable lists the issues that make the control plane unavailable, and notes on
// those that do not.
func (r *reporter) unavailable() (issues, notes []string) {
	if !r.ControlPlane.DeletionTimestamp.IsZero() {
		issues = append(issues, "* Control plane metadata.deletionTimestamp is set")
	}
	if c := r.certificatesAvailable(); c.Status == metav1.ConditionFalse {
		issues = append(issues, strings.TrimSuffix("* Control plane certificates are not available: "+c.Message, ": "))
	}
	managed := ManagesEtcd(r.ControlPlane)
	working, members := 0, 0
	for _, m := range r.Machines {
		if r.all(m, ComponentConditions(false), &notes) && (!managed || r.all(m, etcdConditions, &notes)) {
			working++
		}
		if conditions.IsTrue(m.Health, controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition) {
			members++
		}
	}
	if working == 0 {
		issues = append(issues, "* There are no Machines with healthy control plane components, at least 1 required")
	}
	if managed {
		voting, _ := quorum.Votes(r.Etcd.Members)
		if r.Etcd.Err != nil {
			voting = len(r.Machines)
		}
		if needed := quorum.Needed(voting); members < needed {
			issues = append(issues, fmt.Sprintf("* %d of %d etcd members are healthy, at least %d required for etcd quorum", members, voting, needed))
		}
	}
	return issues, notes
}

// all reports whether all conditions of a machine are True, and appends to notes those
// that have not been for longer than failureGracePeriod.
func (r *reporter) all(m *Machine, types []string, notes *[]string) bool {
	held, _ := r.firstHeld(m)
	good := true
	for _, t := range types {
		c := conditions.Get(m.Health, t)
		if c != nil && c.Status == metav1.ConditionTrue {
			continue
		}
		good = false
		if c == nil || m.Node() == "" || held || r.later(c.LastTransitionTime.Add(failureGracePeriod)) {
			continue
		}
		*notes = append(*notes, fmt.Sprintf("* Machine %s: %s: %s", m.Name, t, c.Message))
	}
	return good
}
