// SPDX-License-Identifier: Apache-2.0

// Package clusterstatus reports the status of a Cluster: it aggregates the objects that
// the Cluster refers to, its workers and Machines, and the connection to it.
//
//   - Progress that was observed once is permanent: that the infrastructure is
//     provisioned, and the control plane initialized.
//   - The endpoint is from the first object that reports one, and never changes again.
//   - Replicas of the control plane are those that its object reports. Without an
//     object, the control plane Machines are counted.
//   - Workers are counted once: deployments, pools, and the sets and Machines without a
//     controller.
//   - A cluster counts as reachable for 50 seconds after the last successful probe. The
//     same time is granted after this process started to probe, if the cluster answered
//     an earlier process.
package clusterstatus

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/planguard"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// connectionGrace is how long a cluster counts as reachable after the last successful
// probe.
const connectionGrace = 50 * time.Second

// Facts are the input of the status.
type Facts struct {
	Cluster    *clusterv1.Cluster
	Generation int64 // observed generation of the status
	Now        time.Time
	Failed     bool // this reconcile failed: the status is what was read before

	Infrastructure reference.Object
	ControlPlane   reference.Object
	Replicas       contract.Replicas         // reported by the control plane object
	Versions       []clusterv1.StatusVersion // reported by the control plane object
	Members
	Connection Connection
	Deletion   Stage
	// ClassGates are the availability gates of the Cluster's class.
	ClassGates []clusterv1.ClusterAvailabilityGate
	// Guard is the PlanGuard of the Cluster; nil if there is none.
	Guard *planv1.PlanGuard
}

// Stage is the progress of a deletion.
type Stage struct{ Reason, Message string }

// Connection is the state of the connection to the workload cluster.
type Connection struct {
	Failing     bool      // not connected, or the last probe failed
	LastProbe   time.Time // last success; zero if none since the process started
	GraceStarts time.Time // from when failures are tolerated; zero: they are not
	Why         string    // the cause, if it fails for long enough to report it
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
	set(available(f)) // last: it summarizes the others
	set(pause.Condition(c, c))
	if held, ok := planguard.Condition(f.Guard, f.Machines, f.Now); ok {
		set(held)
	} else {
		conditions.Delete(c, planv1.PlanHeldCondition)
	}
	c.Status.Phase = string(phaseOf(f))
	if !f.Failed {
		c.Status.ObservedGeneration = f.Generation
	}
}

// Deadline is when the status next changes through time alone; zero if it never does.
func Deadline(f Facts) time.Time {
	guard := planguard.Deadline(f.Guard, f.Now)
	if at := f.Connection.graceEnds(); f.Connection.Failing && at.After(f.Now) && (guard.IsZero() || at.Before(guard)) {
		return at
	}
	return guard
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

// countControlPlane copies the counters of the control plane object, or counts the
// control plane Machines if there is none. The upgrade plan stays: it belongs to the
// topology controller.
func countControlPlane(f Facts) {
	status := &f.Cluster.Status
	var plan []clusterv1.StatusUpgradePlanVersion
	if was := status.ControlPlane; was != nil {
		plan = was.UpgradePlan
	}
	if f.ControlPlane.Defined() {
		if f.ControlPlane.Obj == nil {
			return // the last counters stay
		}
		r := f.Replicas
		status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
			UpgradePlan: plan, DesiredReplicas: r.Desired, Replicas: r.Current, ReadyReplicas: r.Ready, AvailableReplicas: r.Available, UpToDateReplicas: r.UpToDate,
			Versions: machinestatus.ListedVersions(f.Versions, machinestatus.MostOfCluster),
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
	n := machinestatus.CountMachines(f.ControlPlaneMachines)
	status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: &n.Desired, Replicas: &n.Replicas, ReadyReplicas: &n.Ready, AvailableReplicas: &n.Available, UpToDateReplicas: &n.UpToDate,
		Versions: n.Versions(machinestatus.MostOfCluster),
	}
}

// countWorkers adds up deployments, pools, standalone sets and Machines.
func countWorkers(f Facts) {
	n := machinestatus.CountMachines(f.StandaloneWorkers())
	for _, d := range f.Deployments {
		st := d.Status
		n.Group(machinestatus.Group{
			Desired: d.Spec.Replicas, Replicas: st.Replicas, Ready: st.ReadyReplicas, Available: st.AvailableReplicas, UpToDate: st.UpToDateReplicas, Versions: st.Versions,
		})
	}
	for _, set := range f.StandaloneSets() {
		st := set.Status
		n.Group(machinestatus.Group{
			Desired: set.Spec.Replicas, Replicas: st.Replicas, Ready: st.ReadyReplicas, Available: st.AvailableReplicas, UpToDate: st.UpToDateReplicas, Versions: st.Versions,
		})
	}
	for _, p := range f.Pools {
		st := p.Status
		n.Group(machinestatus.Group{
			Desired: p.Spec.Replicas, Replicas: st.Replicas, Ready: st.ReadyReplicas, Available: st.AvailableReplicas, UpToDate: st.UpToDateReplicas, Versions: st.Versions,
		})
	}
	var plan []clusterv1.StatusUpgradePlanVersion
	if was := f.Cluster.Status.Workers; was != nil {
		plan = was.UpgradePlan
	}
	f.Cluster.Status.Workers = &clusterv1.WorkersStatus{
		UpgradePlan: plan, DesiredReplicas: &n.Desired, Replicas: &n.Replicas, ReadyReplicas: &n.Ready, AvailableReplicas: &n.Available, UpToDateReplicas: &n.UpToDate,
		Versions: n.Versions(machinestatus.MostOfCluster),
	}
}
