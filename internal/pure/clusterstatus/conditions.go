// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// youngMachine is how long a Machine can be without the UpToDate condition before that
// counts: its owner writes the condition shortly after creation.
const youngMachine = 10 * time.Second

func infrastructureReady(f Facts) metav1.Condition {
	const target = clusterv1.ClusterInfrastructureReadyCondition
	if !f.Infrastructure.Defined() && !f.Cluster.Spec.Topology.IsDefined() {
		return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterInfrastructureReadyReason, "")
	}
	done := ptr.Deref(f.Cluster.Status.Initialization.InfrastructureProvisioned, false)
	return f.Infrastructure.Mirror(reference.Mirrored{
		Source: contract.ReadyCondition, Target: target, Done: done,
		Good: clusterv1.ClusterInfrastructureReadyReason, Bad: clusterv1.ClusterInfrastructureNotReadyReason,
		Awaited: fmt.Sprintf("Waiting for %s to be provisioned", f.Infrastructure),
		Absent:  absent(f, f.Infrastructure, target, done),
	})
}

func controlPlaneAvailable(f Facts) metav1.Condition {
	const target = clusterv1.ClusterControlPlaneAvailableCondition
	if !f.ControlPlane.Defined() && !f.Cluster.Spec.Topology.IsDefined() {
		if f.initialized() {
			return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterControlPlaneAvailableReason, "")
		}
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterControlPlaneNotAvailableReason, "Waiting for the first control plane Machine to have a Node")
	}
	return f.ControlPlane.Mirror(reference.Mirrored{
		Source: contract.AvailableCondition, Target: target, Done: f.initialized(),
		Good: clusterv1.ClusterControlPlaneAvailableReason, Bad: clusterv1.ClusterControlPlaneNotAvailableReason,
		Awaited: fmt.Sprintf("Waiting for %s to be initialized", f.ControlPlane),
		Absent:  absent(f, f.ControlPlane, target, f.initialized()),
	})
}

// absent is the condition while there is no object to read; done says that the object
// did its part before.
func absent(f Facts, ref reference.Object, target string, done bool) metav1.Condition {
	switch {
	case !ref.Defined():
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ObjectDoesNotExistReason, "Waiting for cluster topology to be reconciled")
	case !ref.Missing: // the deletion has not reached it yet
		if old := conditions.Get(f.Cluster, target); old != nil {
			return *old
		}
		return conditions.New(target, metav1.ConditionUnknown, clusterv1.InternalErrorReason, fmt.Sprintf("%s has not been read", ref))
	case done && f.Cluster.DeletionTimestamp.IsZero():
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ObjectDeletedReason, fmt.Sprintf("%s has been deleted while the Cluster still exists", ref))
	case done:
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ObjectDeletedReason, fmt.Sprintf("%s has been deleted", ref))
	default:
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ObjectDoesNotExistReason, fmt.Sprintf("%s does not exist: create it, or correct %s", ref, ref.Field))
	}
}

func controlPlaneInitialized(f Facts) metav1.Condition {
	const target = clusterv1.ClusterControlPlaneInitializedCondition
	if f.initialized() {
		return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterControlPlaneInitializedReason, "")
	}
	if f.ControlPlane.Err != "" && !f.ControlPlane.Held {
		return conditions.New(target, metav1.ConditionUnknown, clusterv1.ClusterControlPlaneInitializedInternalErrorReason, f.ControlPlane.Err)
	}
	awaited := "Waiting for the first control plane Machine to have a Node"
	switch {
	case f.ControlPlane.Held:
		awaited = f.ControlPlane.Err
	case f.ControlPlane.Missing:
		awaited = fmt.Sprintf("Waiting for %s to exist", f.ControlPlane)
	case f.ControlPlane.Defined():
		awaited = fmt.Sprintf("Waiting for %s to be initialized", f.ControlPlane)
	}
	return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterControlPlaneNotInitializedReason, awaited)
}

// remoteConnectionProbe reports whether the API server of the cluster answers. A few
// consecutive failures are tolerated. So is a process that started recently and has not
// reached a cluster yet that another process reached.
func remoteConnectionProbe(f Facts) metav1.Condition {
	const target = clusterv1.ClusterRemoteConnectionProbeCondition
	why := cmp.Or(awaitedEndpoint(f), f.Connection.Why)
	if why != "" {
		why = ": " + why
	}
	c, forgiven := f.Connection, f.Now.Before(f.Connection.graceEnds())
	if c.LastProbe.IsZero() {
		if old := conditions.Get(f.Cluster, target); old != nil && (f.initialized() && forgiven || hasMoreDetail(*old, why)) {
			return *old
		}
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterRemoteConnectionProbeFailedReason, notEstablished+why)
	}
	if forgiven || !c.Failing {
		return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterRemoteConnectionProbeSucceededReason, "")
	}
	return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterRemoteConnectionProbeFailedReason,
		fmt.Sprintf("Remote connection probe failed, probe last succeeded at %s%s", c.LastProbe.UTC().Format(time.RFC3339), why))
}

// awaitedEndpoint reports which objects can set the control plane endpoint, while it
// is incomplete though the infrastructure is provisioned: none of their own conditions
// need name it, since the contract has either of them set it.
func awaitedEndpoint(f Facts) string {
	if c := f.Cluster; !ptr.Deref(c.Status.Initialization.InfrastructureProvisioned, false) || c.Spec.ControlPlaneEndpoint.IsValid() {
		return ""
	}
	setters := []string{"the Cluster"}
	for _, ref := range []reference.Object{f.Infrastructure, f.ControlPlane} {
		if ref.Defined() {
			setters = append(setters, ref.String())
		}
	}
	return "Waiting for host and port in spec.controlPlaneEndpoint of " + strings.Join(setters, " or ")
}

const notEstablished = "Remote connection not established yet"

// hasMoreDetail reports whether the result of an earlier process has more detail than a
// process that was never connected can report: since when, or why until a new cause is
// known.
func hasMoreDetail(old metav1.Condition, why string) bool {
	return old.Status == metav1.ConditionFalse && (why == "" || !strings.HasPrefix(old.Message, notEstablished))
}

// ofDescendants aggregates the conditions of control plane, workers and machines.
func ofDescendants(f Facts) []metav1.Condition {
	workers := conditions.Objects("MachineDeployment", f.Deployments...)
	workers = append(workers, conditions.Objects("MachinePool", f.Pools...)...)
	scaling := append(workers, conditions.Objects("MachineSet", f.StandaloneSets()...)...)

	ready := reasons(clusterv1.NotReadyReason, clusterv1.ReadyUnknownReason, clusterv1.ReadyReason)
	upToDate := reasons(clusterv1.NotUpToDateReason, clusterv1.UpToDateUnknownReason, clusterv1.UpToDateReason)
	none := func(reason string) conditions.AggregateOptions {
		return conditions.AggregateOptions{Empty: conditions.New("", metav1.ConditionTrue, reason, "")}
	}
	negative := func(yes, unknown, no string) conditions.AggregateOptions {
		return conditions.AggregateOptions{Negative: true, Reasons: reasons(yes, unknown, no), Empty: conditions.New("", metav1.ConditionFalse, no, "")}
	}
	available := none(clusterv1.ClusterWorkersAvailableNoWorkersReason)
	available.Reasons = reasons(clusterv1.NotAvailableReason, clusterv1.AvailableUnknownReason, clusterv1.AvailableReason)
	readyOptions, upToDateOptions := none(clusterv1.NoReplicasReason), none(clusterv1.NoReplicasReason)
	readyOptions.Reasons, upToDateOptions.Reasons = ready, upToDate

	const machine = "Machine"
	return []metav1.Condition{
		conditions.Aggregate(workers, clusterv1.AvailableCondition, clusterv1.ClusterWorkersAvailableCondition, available),
		conditions.Aggregate(conditions.Objects(machine, f.ControlPlaneMachines...), clusterv1.MachineReadyCondition, clusterv1.ClusterControlPlaneMachinesReadyCondition, readyOptions),
		conditions.Aggregate(conditions.Objects(machine, f.Workers...), clusterv1.MachineReadyCondition, clusterv1.ClusterWorkerMachinesReadyCondition, readyOptions),
		conditions.Aggregate(conditions.Objects(machine, oldEnough(f, f.ControlPlaneMachines)...), clusterv1.MachineUpToDateCondition, clusterv1.ClusterControlPlaneMachinesUpToDateCondition, upToDateOptions),
		conditions.Aggregate(conditions.Objects(machine, oldEnough(f, f.Workers)...), clusterv1.MachineUpToDateCondition, clusterv1.ClusterWorkerMachinesUpToDateCondition, upToDateOptions),
		conditions.Aggregate(withControlPlane(f, workers, clusterv1.RollingOutCondition), clusterv1.RollingOutCondition, clusterv1.ClusterRollingOutCondition,
			negative(clusterv1.ClusterRollingOutReason, clusterv1.ClusterRollingOutUnknownReason, clusterv1.ClusterNotRollingOutReason)),
		conditions.Aggregate(withControlPlane(f, scaling, clusterv1.ScalingUpCondition), clusterv1.ScalingUpCondition, clusterv1.ClusterScalingUpCondition,
			negative(clusterv1.ClusterScalingUpReason, clusterv1.ClusterScalingUpUnknownReason, clusterv1.ClusterNotScalingUpReason)),
		conditions.Aggregate(withControlPlane(f, scaling, clusterv1.ScalingDownCondition), clusterv1.ScalingDownCondition, clusterv1.ClusterScalingDownCondition,
			negative(clusterv1.ClusterScalingDownReason, clusterv1.ClusterScalingDownUnknownReason, clusterv1.ClusterNotScalingDownReason)),
	}
}

// oldEnough omits Machines that are too young to have the UpToDate condition.
func oldEnough(f Facts, machines []*clusterv1.Machine) (out []*clusterv1.Machine) {
	for _, m := range machines {
		if conditions.Has(m, clusterv1.MachineUpToDateCondition) || f.Now.Sub(m.CreationTimestamp.Time) >= youngMachine {
			out = append(out, m)
		}
	}
	return out
}

// withControlPlane adds the control plane to the objects of an aggregate, if it reports
// the condition: the contract does not require that.
func withControlPlane(f Facts, workers []conditions.Object, condition string) []conditions.Object {
	if f.ControlPlane.Obj == nil {
		return workers
	}
	reported, err := conditions.FromUnstructured(f.ControlPlane.Obj)
	if err != nil || !conditions.Has(reported, condition) {
		return workers
	}
	return append([]conditions.Object{{Kind: f.ControlPlane.Ref.Kind, Name: f.ControlPlane.Ref.Name, Conditions: reported}}, workers...)
}

func reasons(issue, unknown, info string) conditions.Reasons {
	return conditions.Reasons{Issue: issue, Unknown: unknown, Info: info}
}

// remediating lists the Machines that are being replaced because they are unhealthy or,
// if there are none, the unhealthy Machines.
func remediating(f Facts) metav1.Condition {
	const target = clusterv1.ClusterRemediatingCondition
	var replaced, unhealthy []string
	for _, m := range f.Machines() {
		if !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) {
			continue
		}
		if owned := conditions.Get(m, clusterv1.MachineOwnerRemediatedCondition); owned != nil && owned.Status == metav1.ConditionFalse {
			replaced = append(replaced, fmt.Sprintf("Machine %s: %s", m.Name, owned.Message))
			continue
		}
		unhealthy = append(unhealthy, m.Name)
	}
	switch {
	case len(replaced) > 0:
		return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterRemediatingReason, "* "+strings.Join(replaced, "\n* "))
	case len(unhealthy) > 0:
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterNotRemediatingReason, fmt.Sprintf("Not healthy, and not to be replaced: %s", conditions.Names(unhealthy)))
	}
	return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterNotRemediatingReason, "")
}

func deleting(f Facts) metav1.Condition {
	const target = clusterv1.ClusterDeletingCondition
	if f.Cluster.DeletionTimestamp.IsZero() {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterNotDeletingReason, "")
	}
	return conditions.New(target, metav1.ConditionTrue, f.Deletion.Reason, f.Deletion.Message)
}

// topologyPriority is the priority of the topology's condition. A Cluster that is being
// created or upgraded, or whose upgrade is held by a user, is not degraded by that.
func topologyPriority(c metav1.Condition) (conditions.Priority, bool) {
	if c.Type != clusterv1.ClusterTopologyReconciledCondition || c.Status != metav1.ConditionFalse {
		return conditions.Info, false
	}
	switch c.Reason {
	case clusterv1.ClusterTopologyReconciledFailedReason, clusterv1.ClusterTopologyReconciledClusterClassNotReconciledReason:
		return conditions.Issue, true
	}
	return conditions.Info, true
}

// gates are the gates of the Cluster or, if it has none, of its class.
func (f Facts) gates() []clusterv1.ClusterAvailabilityGate {
	if own := f.Cluster.Spec.AvailabilityGates; len(own) > 0 {
		return own
	}
	return f.ClassGates
}

// available summarizes the Cluster.
func available(f Facts) metav1.Condition {
	c := f.Cluster
	o := conditions.SummaryOptions{
		Types: []string{
			clusterv1.ClusterDeletingCondition, clusterv1.ClusterRemoteConnectionProbeCondition, clusterv1.ClusterInfrastructureReadyCondition,
			clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterWorkersAvailableCondition,
		},
		Negative: []string{clusterv1.ClusterDeletingCondition},
		Reasons:  reasons(clusterv1.ClusterNotAvailableReason, clusterv1.ClusterAvailableUnknownReason, clusterv1.ClusterAvailableReason),
	}
	if c.Spec.Topology.IsDefined() {
		o.Types = append(o.Types, clusterv1.ClusterTopologyReconciledCondition)
		o.Priority = topologyPriority
	}
	for _, g := range f.gates() {
		o.Types = append(o.Types, g.ConditionType)
		if g.Polarity == clusterv1.NegativePolarityCondition {
			o.Negative = append(o.Negative, g.ConditionType)
		}
	}
	return conditions.Summary(c, clusterv1.ClusterAvailableCondition, o)
}
