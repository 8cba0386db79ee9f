// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
)

// youngMachine is how long a Machine may be without the UpToDate condition
// before that counts: its owner writes it a moment after the creation.
const youngMachine = 10 * time.Second

func infrastructureReady(s *state) metav1.Condition {
	const target = clusterv1.ClusterInfrastructureReadyCondition
	if !s.infra.Ref.IsDefined() && !s.cluster.Spec.Topology.IsDefined() {
		return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterInfrastructureReadyReason, "")
	}
	return mirrored(s, s.infra, mirror{
		source: contract.ReadyCondition, target: target, done: ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false),
		good: clusterv1.ClusterInfrastructureReadyReason, bad: clusterv1.ClusterInfrastructureNotReadyReason,
		awaited: fmt.Sprintf("Waiting for %s to be provisioned", s.infra),
	})
}

func controlPlaneAvailable(s *state) metav1.Condition {
	const target = clusterv1.ClusterControlPlaneAvailableCondition
	initialized := ptr.Deref(s.cluster.Status.Initialization.ControlPlaneInitialized, false)
	if !s.controlPlane.Ref.IsDefined() && !s.cluster.Spec.Topology.IsDefined() {
		if initialized {
			return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterControlPlaneAvailableReason, "")
		}
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterControlPlaneNotAvailableReason, "Waiting for the first control plane Machine to have a Node")
	}
	return mirrored(s, s.controlPlane, mirror{
		source: contract.AvailableCondition, target: target, done: initialized,
		good: clusterv1.ClusterControlPlaneAvailableReason, bad: clusterv1.ClusterControlPlaneNotAvailableReason,
		awaited: fmt.Sprintf("Waiting for %s to be initialized", s.controlPlane),
	})
}

// mirror says how to show a condition of an object that the Cluster refers to.
type mirror struct {
	source, target string
	done           bool   // the object has done its part at least once
	good, bad      string // reasons while the object has no such condition
	awaited        string // until then
}

func mirrored(s *state, ref provider.Reference, m mirror) metav1.Condition {
	isDeleting := !s.cluster.DeletionTimestamp.IsZero()
	switch {
	case ref.Held():
		return conditions.New(m.target, metav1.ConditionFalse, m.bad, ref.Err.Error())
	case ref.Err != nil:
		return conditions.New(m.target, metav1.ConditionUnknown, clusterv1.InternalErrorReason, ref.Err.Error())
	case !ref.Ref.IsDefined():
		return conditions.New(m.target, metav1.ConditionFalse, clusterv1.ObjectDoesNotExistReason, fmt.Sprintf("Waiting for the topology controller to set %s", ref.Field))
	case ref.Obj == nil && !ref.Missing: // a deletion that has not come so far
		if old := conditions.Get(s.cluster, m.target); old != nil {
			return *old
		}
		return conditions.New(m.target, metav1.ConditionUnknown, clusterv1.InternalErrorReason, fmt.Sprintf("%s has not been read", ref))
	case ref.Missing && m.done && !isDeleting:
		return conditions.New(m.target, metav1.ConditionFalse, clusterv1.ObjectDeletedReason, fmt.Sprintf("%s has been deleted while the Cluster still exists", ref))
	case ref.Missing && m.done:
		return conditions.New(m.target, metav1.ConditionFalse, clusterv1.ObjectDeletedReason, fmt.Sprintf("%s has been deleted", ref))
	case ref.Missing:
		return conditions.New(m.target, metav1.ConditionFalse, clusterv1.ObjectDoesNotExistReason, fmt.Sprintf("%s does not exist: create it, or correct %s", ref, ref.Field))
	}
	reported, err := conditions.FromUnstructured(ref.Obj.Unstructured)
	if err != nil {
		return conditions.New(m.target, metav1.ConditionUnknown, clusterv1.InvalidConditionReportedReason, err.Error())
	}
	fallback := conditions.New("", metav1.ConditionFalse, m.bad, m.awaited)
	if m.done {
		fallback = conditions.New("", metav1.ConditionTrue, m.good, "")
	}
	return conditions.Mirror(reported, m.source, m.target, fallback)
}

func controlPlaneInitialized(s *state) metav1.Condition {
	const target = clusterv1.ClusterControlPlaneInitializedCondition
	if ptr.Deref(s.cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterControlPlaneInitializedReason, "")
	}
	if s.controlPlane.Err != nil && !s.controlPlane.Held() {
		return conditions.New(target, metav1.ConditionUnknown, clusterv1.ClusterControlPlaneInitializedInternalErrorReason, s.controlPlane.Err.Error())
	}
	awaited := "Waiting for the first control plane Machine to have a Node"
	switch {
	case s.controlPlane.Held():
		awaited = s.controlPlane.Err.Error()
	case s.controlPlane.Missing:
		awaited = fmt.Sprintf("Waiting for %s to exist", s.controlPlane)
	case s.controlPlane.Ref.IsDefined():
		awaited = fmt.Sprintf("Waiting for %s to be initialized", s.controlPlane)
	}
	return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterControlPlaneNotInitializedReason, awaited)
}

// remoteConnectionProbe tells whether the API server of the cluster answers. A
// few failures in a row are forgiven, and so is that this process, which may
// have started just now, has not reached a cluster yet that others have.
func remoteConnectionProbe(s *state) metav1.Condition {
	const target = clusterv1.ClusterRemoteConnectionProbeCondition
	why := ""
	if w := s.health.Why(); w != "" {
		why = ": " + w
	}
	h, initialized := s.health, ptr.Deref(s.cluster.Status.Initialization.ControlPlaneInitialized, false)
	forgiven := s.now.Before(h.GraceStarts(initialized).Add(connectionGrace))
	if h.LastProbeSuccess.IsZero() {
		if old := conditions.Get(s.cluster, target); old != nil && (initialized && forgiven || tellsMore(*old, why)) {
			return *old
		}
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterRemoteConnectionProbeFailedReason, notEstablished+why)
	}
	if forgiven || (h.Connected && h.Failures == 0) {
		return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterRemoteConnectionProbeSucceededReason, "")
	}
	return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterRemoteConnectionProbeFailedReason,
		fmt.Sprintf("Remote connection probe failed, probe last succeeded at %s%s", h.LastProbeSuccess.UTC().Format(time.RFC3339), why))
}

const notEstablished = "Remote connection not established yet"

// tellsMore reports whether what an earlier process found tells more than a
// process that has never been connected can: since when, or why until that is
// known again.
func tellsMore(old metav1.Condition, why string) bool {
	return old.Status == metav1.ConditionFalse && (why == "" || !strings.HasPrefix(old.Message, notEstablished))
}

// ofDescendants sums up the conditions of control plane, workers and machines.
func ofDescendants(s *state) []metav1.Condition {
	workers := conditions.Objects("MachineDeployment", s.deployments...)
	workers = append(workers, conditions.Objects("MachinePool", s.pools...)...)
	scaling := append(controlPlaneObject(s), workers...)
	scaling = append(scaling, conditions.Objects("MachineSet", s.sets...)...)
	rolling := append(controlPlaneObject(s), workers...)

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
		conditions.Aggregate(conditions.Objects(machine, s.controllers...), clusterv1.MachineReadyCondition, clusterv1.ClusterControlPlaneMachinesReadyCondition, readyOptions),
		conditions.Aggregate(conditions.Objects(machine, s.workers...), clusterv1.MachineReadyCondition, clusterv1.ClusterWorkerMachinesReadyCondition, readyOptions),
		conditions.Aggregate(conditions.Objects(machine, judged(s, s.controllers)...), clusterv1.MachineUpToDateCondition, clusterv1.ClusterControlPlaneMachinesUpToDateCondition, upToDateOptions),
		conditions.Aggregate(conditions.Objects(machine, judged(s, s.workers)...), clusterv1.MachineUpToDateCondition, clusterv1.ClusterWorkerMachinesUpToDateCondition, upToDateOptions),
		conditions.Aggregate(rolling, clusterv1.RollingOutCondition, clusterv1.ClusterRollingOutCondition,
			negative(clusterv1.ClusterRollingOutReason, clusterv1.ClusterRollingOutUnknownReason, clusterv1.ClusterNotRollingOutReason)),
		conditions.Aggregate(scaling, clusterv1.ScalingUpCondition, clusterv1.ClusterScalingUpCondition,
			negative(clusterv1.ClusterScalingUpReason, clusterv1.ClusterScalingUpUnknownReason, clusterv1.ClusterNotScalingUpReason)),
		conditions.Aggregate(scaling, clusterv1.ScalingDownCondition, clusterv1.ClusterScalingDownCondition,
			negative(clusterv1.ClusterScalingDownReason, clusterv1.ClusterScalingDownUnknownReason, clusterv1.ClusterNotScalingDownReason)),
	}
}

// judged leaves out Machines too young to have been judged up to date or not.
func judged(s *state, machines []*clusterv1.Machine) (out []*clusterv1.Machine) {
	for _, m := range machines {
		if conditions.Has(m, clusterv1.MachineUpToDateCondition) || s.now.Sub(m.CreationTimestamp.Time) >= youngMachine {
			out = append(out, m)
		}
	}
	return out
}

// controlPlaneObject is the control plane as something to aggregate. One that
// reports no condition of a kind says nothing about it.
func controlPlaneObject(s *state) []conditions.Object {
	if s.controlPlane.Obj == nil {
		return nil
	}
	reported, err := conditions.FromUnstructured(s.controlPlane.Obj.Unstructured)
	if err != nil || !conditions.Has(reported, clusterv1.RollingOutCondition) {
		return nil
	}
	return []conditions.Object{{Kind: s.controlPlane.Ref.Kind, Name: s.controlPlane.Ref.Name, Conditions: reported}}
}

func reasons(issue, unknown, info string) conditions.Reasons {
	return conditions.Reasons{Issue: issue, Unknown: unknown, Info: info}
}

// remediating names the Machines that are being replaced because they are
// unhealthy, or failing that, those that are unhealthy.
func remediating(s *state) metav1.Condition {
	const target = clusterv1.ClusterRemediatingCondition
	var replaced, unhealthy []string
	for _, m := range append(append([]*clusterv1.Machine{}, s.controllers...), s.workers...) {
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
		return conditions.New(target, metav1.ConditionTrue, clusterv1.ClusterRemediatingReason, bullets(replaced))
	case len(unhealthy) > 0:
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterNotRemediatingReason, fmt.Sprintf("Not healthy, and not to be replaced: %s", conditions.Names(unhealthy)))
	}
	return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterNotRemediatingReason, "")
}

func deleting(s *state) metav1.Condition {
	const target = clusterv1.ClusterDeletingCondition
	if s.cluster.DeletionTimestamp.IsZero() {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.ClusterNotDeletingReason, "")
	}
	return conditions.New(target, metav1.ConditionTrue, s.stage.reason, s.stage.message)
}

// available sums up the Cluster.
func available(s *state) metav1.Condition {
	c := s.cluster
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
	}
	for _, g := range c.Spec.AvailabilityGates {
		o.Types = append(o.Types, g.ConditionType)
		if g.Polarity == clusterv1.NegativePolarityCondition {
			o.Negative = append(o.Negative, g.ConditionType)
		}
	}
	return conditions.Summary(c, clusterv1.ClusterAvailableCondition, o)
}
