// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// report fills the status from the state. It is pure, and runs after a failure
// too; failed is what the phases returned.
func report(s *state, failed error) {
	c := s.cluster
	generation := patch.Generation(c, s.specBefore, c.Spec)
	set := func(condition metav1.Condition) {
		condition.ObservedGeneration = generation
		conditions.Set(c, s.now, condition)
	}
	countControlPlane(s)
	countWorkers(s)
	noteFailures(s)
	set(infrastructureReady(s))
	set(controlPlaneInitialized(s))
	set(controlPlaneAvailable(s))
	set(remoteConnectionProbe(s))
	for _, condition := range ofDescendants(s) {
		set(condition)
	}
	set(remediating(s))
	set(deleting(s))
	set(available(s))
	set(pause.Condition(c, c))
	c.Status.Phase = string(phaseOf(s))
	if failed == nil {
		c.Status.ObservedGeneration = generation
	}
}

// noteFailures shows what providers report of failures; it stays until something
// else is reported.
func noteFailures(s *state) {
	reason, message := provider.Failure(s.infra, s.controlPlane)
	if reason == "" && message == "" {
		return
	}
	shown := clusterv1.ClusterV1Beta1DeprecatedStatus{}
	if d := s.cluster.Status.Deprecated; d != nil && d.V1Beta1 != nil {
		shown = *d.V1Beta1
	}
	if reason != "" {
		shown.FailureReason = &reason
	}
	if message != "" {
		shown.FailureMessage = &message
	}
	s.cluster.Status.Deprecated = &clusterv1.ClusterDeprecatedStatus{V1Beta1: &shown}
}

// deadline is when time alone changes the status next; zero if it never does.
func (s *state) deadline() time.Time {
	h := s.health
	at := h.GraceStarts(ptr.Deref(s.cluster.Status.Initialization.ControlPlaneInitialized, false)).Add(connectionGrace)
	if (!h.Connected || h.Failures > 0) && at.After(s.now) {
		return at
	}
	return time.Time{}
}

func phaseOf(s *state) clusterv1.ClusterPhase {
	c := s.cluster
	switch {
	case !c.DeletionTimestamp.IsZero():
		return clusterv1.ClusterPhaseDeleting
	case ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false) && c.Spec.ControlPlaneEndpoint.IsValid():
		return clusterv1.ClusterPhaseProvisioned
	case s.infra.Ref.IsDefined() || s.controlPlane.Ref.IsDefined():
		return clusterv1.ClusterPhaseProvisioning
	}
	return clusterv1.ClusterPhasePending
}

// counts are replicas of one kind of machines.
type counts struct{ desired, current, ready, available, upToDate int32 }

// machine counts one that nobody else counts.
func (n *counts) machine(m *clusterv1.Machine) {
	n.desired++
	n.current++
	n.ready += one(conditions.IsTrue(m, clusterv1.MachineReadyCondition))
	n.available += one(conditions.IsTrue(m, clusterv1.MachineAvailableCondition))
	n.upToDate += one(conditions.IsTrue(m, clusterv1.MachineUpToDateCondition))
}

func one(yes bool) int32 {
	if yes {
		return 1
	}
	return 0
}

// countControlPlane takes the counters of the control plane object, or counts
// the control plane Machines if there is none.
func countControlPlane(s *state) {
	status := &s.cluster.Status
	if s.controlPlane.Ref.IsDefined() {
		if s.controlPlane.Obj == nil {
			return // what was known stays
		}
		r := s.counters
		status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
			DesiredReplicas: r.Desired, Replicas: r.Current, ReadyReplicas: r.Ready, AvailableReplicas: r.Available, UpToDateReplicas: r.UpToDate,
			Versions: s.versions,
		}
		if equality.Semantic.DeepEqual(*status.ControlPlane, clusterv1.ClusterControlPlaneStatus{}) {
			status.ControlPlane = nil
		}
		return
	}
	if len(s.controllers) == 0 {
		status.ControlPlane = nil
		return
	}
	var n counts
	versions := versionCount{}
	for _, m := range s.controllers {
		n.machine(m)
		versions.machine(m)
	}
	status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: &n.desired, Replicas: &n.current, ReadyReplicas: &n.ready, AvailableReplicas: &n.available, UpToDateReplicas: &n.upToDate,
		Versions: versions.list(),
	}
}

// countWorkers sums up deployments, pools, standalone sets and Machines.
func countWorkers(s *state) {
	var n counts
	versions := versionCount{}
	add := func(desired *int32, status counts, found []clusterv1.StatusVersion) {
		n.desired += ptr.Deref(desired, 0)
		n.current += status.current
		n.ready += status.ready
		n.available += status.available
		n.upToDate += status.upToDate
		versions.add(found)
	}
	for _, d := range s.deployments {
		st := d.Status
		add(d.Spec.Replicas, counts{current: ptr.Deref(st.Replicas, 0), ready: ptr.Deref(st.ReadyReplicas, 0), available: ptr.Deref(st.AvailableReplicas, 0), upToDate: ptr.Deref(st.UpToDateReplicas, 0)}, st.Versions)
	}
	for _, set := range s.sets {
		st := set.Status
		add(set.Spec.Replicas, counts{current: ptr.Deref(st.Replicas, 0), ready: ptr.Deref(st.ReadyReplicas, 0), available: ptr.Deref(st.AvailableReplicas, 0), upToDate: ptr.Deref(st.UpToDateReplicas, 0)}, st.Versions)
	}
	for _, p := range s.pools {
		st := p.Status
		add(p.Spec.Replicas, counts{current: ptr.Deref(st.Replicas, 0), ready: ptr.Deref(st.ReadyReplicas, 0), available: ptr.Deref(st.AvailableReplicas, 0), upToDate: ptr.Deref(st.UpToDateReplicas, 0)}, st.Versions)
	}
	for _, m := range s.workers {
		if isStandalone(m) {
			n.machine(m)
			versions.machine(m)
		}
	}
	s.cluster.Status.Workers = &clusterv1.WorkersStatus{
		DesiredReplicas: &n.desired, Replicas: &n.current, ReadyReplicas: &n.ready, AvailableReplicas: &n.available, UpToDateReplicas: &n.upToDate,
		Versions: versions.list(),
	}
}

// versionCount counts machines by Kubernetes version.
type versionCount map[string]int32

func (c versionCount) add(found []clusterv1.StatusVersion) {
	for _, v := range found {
		c[v.Version] += v.Replicas
	}
}

// machine counts the version that its Node runs.
func (c versionCount) machine(m *clusterv1.Machine) {
	if m.Status.NodeInfo != nil && m.Status.NodeInfo.KubeletVersion != "" {
		c[m.Status.NodeInfo.KubeletVersion]++
	}
}

// list orders the versions by their names, so that equal counts make equal lists.
func (c versionCount) list() (out []clusterv1.StatusVersion) {
	for v, n := range c {
		out = append(out, clusterv1.StatusVersion{Version: v, Replicas: n})
	}
	slices.SortFunc(out, func(a, b clusterv1.StatusVersion) int { return cmp.Compare(a.Version, b.Version) })
	return out
}

// bullets makes a list of lines.
func bullets(lines []string) string {
	return "* " + strings.Join(lines, "\n* ")
}
