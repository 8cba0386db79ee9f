// SPDX-License-Identifier: Apache-2.0

// Package clusterstatus tells how a Cluster is: it sums up the objects that the
// Cluster refers to, its workers and Machines, and the connection to it.
//
//   - What an object was seen to have done once stays done: that the
//     infrastructure is provisioned, and the control plane initialized.
//   - The endpoint comes from whoever knows it first, and never changes again.
//   - Replicas of the control plane are what its object says. Without one, the
//     control plane Machines are counted.
//   - Of workers, those are counted that nobody else counts: deployments, pools,
//     and sets and Machines that nobody manages.
//   - A cluster counts as reachable for 50 seconds after the last probe that
//     succeeded, and likewise after this process has begun to ask, if it
//     answered an earlier one.
package clusterstatus

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/counting"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// connectionGrace is how long a cluster counts as reachable after the last
// probe that succeeded.
const connectionGrace = 50 * time.Second

// Facts are what the status tells of.
type Facts struct {
	Cluster    *clusterv1.Cluster
	Generation int64 // that the status is about
	Now        time.Time
	Failed     bool // this reconcile has: the status is about what was seen

	Infrastructure reference.Object
	ControlPlane   reference.Object
	Replicas       contract.Replicas         // that the control plane object counts
	Versions       []clusterv1.StatusVersion // that it reports
	Members
	Connection Connection
	Deletion   Stage
	// ClassGates are the availability gates of its class.
	ClassGates []clusterv1.ClusterAvailabilityGate
}

// Stage is how far a deletion has come.
type Stage struct{ Reason, Message string }

// Connection is the state of the one to the workload cluster.
type Connection struct {
	Failing     bool      // not connected, or the last probe failed
	LastProbe   time.Time // that succeeded; zero if none did since the process started
	GraceStarts time.Time // from when on failures are forgiven; zero: they are not
	Why         string    // it fails, if it does so for long enough to tell
}

func (c Connection) graceEnds() time.Time { return c.GraceStarts.Add(connectionGrace) }

func (f Facts) initialized() bool {
	return ptr.Deref(f.Cluster.Status.Initialization.ControlPlaneInitialized, false)
}

// Report fills the status of the Cluster.
func Report(f Facts) {
	c := f.Cluster
	countControlPlane(f)
	countWorkers(f)
	set := func(condition metav1.Condition) {
		condition.ObservedGeneration = f.Generation
		conditions.Set(c, f.Now, condition)
	}
	set(infrastructureReady(f))
	set(controlPlaneInitialized(f))
	set(controlPlaneAvailable(f))
	set(remoteConnectionProbe(f))
	for _, condition := range ofDescendants(f) {
		set(condition)
	}
	set(remediating(f))
	set(deleting(f))
	set(available(f)) // last: it sums up the others
	set(pause.Condition(c, c))
	c.Status.Phase = string(phaseOf(f))
	if !f.Failed {
		c.Status.ObservedGeneration = f.Generation
	}
}

// Deadline is when time alone changes the status next; zero if it never does.
func Deadline(f Facts) time.Time {
	if at := f.Connection.graceEnds(); f.Connection.Failing && at.After(f.Now) {
		return at
	}
	return time.Time{}
}

func phaseOf(f Facts) clusterv1.ClusterPhase {
	c := f.Cluster
	switch {
	case !c.DeletionTimestamp.IsZero():
		return clusterv1.ClusterPhaseDeleting
	case ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false) && c.Spec.ControlPlaneEndpoint.IsValid():
		return clusterv1.ClusterPhaseProvisioned
	case f.Infrastructure.Defined() || f.ControlPlane.Defined():
		return clusterv1.ClusterPhaseProvisioning
	}
	return clusterv1.ClusterPhasePending
}

// countControlPlane takes the counters of the control plane object, or counts
// the control plane Machines if there is none. The plan of an upgrade stays: it is
// the topology controller's.
func countControlPlane(f Facts) {
	status := &f.Cluster.Status
	var plan []clusterv1.StatusUpgradePlanVersion
	if was := status.ControlPlane; was != nil {
		plan = was.UpgradePlan
	}
	if f.ControlPlane.Defined() {
		if f.ControlPlane.Obj == nil {
			return // what was known stays
		}
		r := f.Replicas
		status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
			UpgradePlan: plan, DesiredReplicas: r.Desired, Replicas: r.Current, ReadyReplicas: r.Ready, AvailableReplicas: r.Available, UpToDateReplicas: r.UpToDate,
			Versions: counting.Listed(f.Versions, counting.MostOfCluster),
		}
		if equality.Semantic.DeepEqual(*status.ControlPlane, clusterv1.ClusterControlPlaneStatus{}) {
			status.ControlPlane = nil
		}
		return
	}
	if len(f.ControlPlaneMachines) == 0 {
		status.ControlPlane = nil
		return
	}
	n := counting.Machines(f.ControlPlaneMachines)
	status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: &n.Desired, Replicas: &n.Replicas, ReadyReplicas: &n.Ready, AvailableReplicas: &n.Available, UpToDateReplicas: &n.UpToDate,
		Versions: n.Versions(counting.MostOfCluster),
	}
}

// countWorkers sums up deployments, pools, standalone sets and Machines.
func countWorkers(f Facts) {
	n := counting.Machines(f.StandaloneWorkers())
	for _, d := range f.Deployments {
		st := d.Status
		n.Group(counting.Group{
			Desired: d.Spec.Replicas, Replicas: st.Replicas, Ready: st.ReadyReplicas, Available: st.AvailableReplicas, UpToDate: st.UpToDateReplicas, Versions: st.Versions,
		})
	}
	for _, set := range f.StandaloneSets() {
		st := set.Status
		n.Group(counting.Group{
			Desired: set.Spec.Replicas, Replicas: st.Replicas, Ready: st.ReadyReplicas, Available: st.AvailableReplicas, UpToDate: st.UpToDateReplicas, Versions: st.Versions,
		})
	}
	for _, p := range f.Pools {
		st := p.Status
		n.Group(counting.Group{
			Desired: p.Spec.Replicas, Replicas: st.Replicas, Ready: st.ReadyReplicas, Available: st.AvailableReplicas, UpToDate: st.UpToDateReplicas, Versions: st.Versions,
		})
	}
	var plan []clusterv1.StatusUpgradePlanVersion
	if was := f.Cluster.Status.Workers; was != nil {
		plan = was.UpgradePlan
	}
	f.Cluster.Status.Workers = &clusterv1.WorkersStatus{
		UpgradePlan: plan, DesiredReplicas: &n.Desired, Replicas: &n.Replicas, ReadyReplicas: &n.Ready, AvailableReplicas: &n.Available, UpToDateReplicas: &n.UpToDate,
		Versions: n.Versions(counting.MostOfCluster),
	}
}

// bullets makes a list of lines.
func bullets(lines []string) string {
	return "* " + strings.Join(lines, "\n* ")
}
