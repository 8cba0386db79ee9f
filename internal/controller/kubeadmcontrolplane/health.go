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
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/pure/quorum"
)

const waitingForInit = "Waiting for Cluster control plane to be initialized"

var etcdConditions = []string{
	controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
	controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition,
}

// reasons of a condition that sums up others.
type reasons struct{ uninspected, down, healthy, failing, unknown string }

func etcdHealthy(s *state) metav1.Condition {
	var issues []string
	for _, m := range s.orphanMembers() {
		issues = append(issues, fmt.Sprintf("* Etcd member %s does not have a corresponding Machine", m))
	}
	c := sum(s, []string{controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition}, issues, reasons{
		uninspected: controlplanev1.KubeadmControlPlaneEtcdClusterInspectionFailedReason,
		down:        controlplanev1.KubeadmControlPlaneEtcdClusterConnectionDownReason,
		healthy:     controlplanev1.KubeadmControlPlaneEtcdClusterHealthyReason,
		failing:     controlplanev1.KubeadmControlPlaneEtcdClusterNotHealthyReason,
		unknown:     controlplanev1.KubeadmControlPlaneEtcdClusterHealthUnknownReason,
	})
	c.Type = controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition
	return c
}

func componentsHealthy(s *state) metav1.Condition {
	types := slices.DeleteFunc(kubeadmcontrolplane.ComponentConditions(kubeadmcontrolplane.ManagesEtcd(s.ControlPlane)), func(t string) bool {
		return t == controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition
	})
	c := sum(s, types, nil, reasons{
		uninspected: controlplanev1.KubeadmControlPlaneControlPlaneComponentsInspectionFailedReason,
		down:        controlplanev1.KubeadmControlPlaneControlPlaneComponentsConnectionDownReason,
		healthy:     controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyReason,
		failing:     controlplanev1.KubeadmControlPlaneControlPlaneComponentsNotHealthyReason,
		unknown:     controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthUnknownReason,
	})
	c.Type = controlplanev1.KubeadmControlPlaneControlPlaneComponentsHealthyCondition
	return c
}

// sum makes one condition of some conditions of all machines that have a Node.
func sum(s *state, types, issues []string, r reasons) metav1.Condition {
	if !kubeadmcontrolplane.Initialized(s.ControlPlane) {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: r.uninspected, Message: waitingForInit}
	}
	var unknown []string
	seen, down := 0, false
	for _, m := range s.Machines {
		if m.Node() == "" {
			continue
		}
		seen++
		for _, t := range types {
			c := conditions.Get(m, t)
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

// failureGracePeriod is how long a new failure of a component is not mentioned
// while the control plane is available all the same.
const failureGracePeriod = 10 * time.Second

// available is True when the control plane can be used and would survive what
// it is made to survive.
func available(s *state) metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneAvailableCondition
	if !kubeadmcontrolplane.Initialized(s.ControlPlane) {
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotAvailableReason, "Control plane not yet initialized")
	}
	if old := conditions.Get(s.ControlPlane, t); s.client == nil && s.ControlPlane.DeletionTimestamp.IsZero() && old != nil && !s.isDown() {
		return *old // nothing new is known
	}
	if s.isDown() {
		return conditions.New(t, metav1.ConditionUnknown, controlplanev1.KubeadmControlPlaneAvailableInspectionFailedReason, "* The workload cluster does not answer")
	}
	issues, notes := s.unavailable()
	if len(issues) > 0 {
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotAvailableReason, strings.Join(issues, "\n"))
	}
	return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneAvailableReason, strings.Join(notes, "\n"))
}

// isDown reports whether the components are not known any more.
func (s *state) isDown() bool {
	for _, m := range s.Machines {
		for _, t := range reported(s) {
			if conditions.Reason(m, t) == clusterv1.ConnectionDownReason {
				return true
			}
		}
	}
	return false
}

// unavailable lists what makes the control plane unavailable, and what does not.
func (s *state) unavailable() (issues, notes []string) {
	if !s.ControlPlane.DeletionTimestamp.IsZero() {
		issues = append(issues, "* Control plane metadata.deletionTimestamp is set")
	}
	if conditions.IsFalse(s.ControlPlane, controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition) {
		issues = append(issues, "* Control plane certificates are not available")
	}
	managed := kubeadmcontrolplane.ManagesEtcd(s.ControlPlane)
	pods := slices.DeleteFunc(kubeadmcontrolplane.ComponentConditions(managed), func(t string) bool { return slices.Contains(etcdConditions, t) })
	working, members := 0, 0
	for _, m := range s.Machines {
		if s.all(m, pods, &notes) && (!managed || s.all(m, etcdConditions, &notes)) {
			working++
		}
		if conditions.IsTrue(m, controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition) {
			members++
		}
	}
	if working == 0 {
		issues = append(issues, "* There are no Machines with healthy control plane components, at least 1 required")
	}
	if managed {
		voting, _ := quorum.Votes(s.etcd.members)
		if !s.etcd.asked() || s.etcd.listErr != nil {
			voting = len(s.Machines)
		}
		if needed := quorum.Needed(voting); members < needed {
			issues = append(issues, fmt.Sprintf("* %d of %d etcd members are healthy, at least %d required for etcd quorum", members, voting, needed))
		}
	}
	return issues, notes
}

// all reports whether all conditions of a machine are True, and notes those that
// have not been for a while.
func (s *state) all(m *kubeadmcontrolplane.Machine, types []string, notes *[]string) bool {
	good := true
	for _, t := range types {
		c := conditions.Get(m, t)
		if c != nil && c.Status == metav1.ConditionTrue {
			continue
		}
		good = false
		if c == nil || m.Node() == "" || s.pending[m.Name] {
			continue
		}
		if at := c.LastTransitionTime.Add(failureGracePeriod); at.After(s.Now) {
			s.due(at)
			continue
		}
		*notes = append(*notes, fmt.Sprintf("* Machine %s: %s: %s", m.Name, t, c.Message))
	}
	return good
}
