// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

const (
	// FirstContact is how long the first machine need not answer.
	FirstContact = time.Minute

	// comingUp is how long the state of a new machine is not described: it changes
	// constantly, and each change would be a write.
	comingUp = 10 * time.Second
)

// inProgress is the message that a machine is not up to date yet.
const inProgress = "Update in place is in progress"

// Outcome is the result of a reconcile's decisions and actions.
type Outcome struct {
	Action      Action       // the change of machines that is due; nil if none is
	Blocked     []string     // what blocks the action
	Held        []string     // which machines must not terminate yet, and why
	Remediation *Remediation // nil if no machine must be replaced
	Deletion    Deletion     // of the control plane
	Addons      *Addons      // nil if they were not checked
	Failed      bool         // it ended with an error
}

// Addons is why kube-proxy and CoreDNS differ from the spec until a user changes
// something; empty if they do not.
type Addons struct{ Blocked string }

// Deletion is the progress of the deletion of a control plane.
type Deletion struct{ Reason, Message string }

// BlockedBy is the state of a deletion that waits for workers; zero if there are none.
func BlockedBy(machines []string, pools []clusterv1.MachinePool) (d Deletion) {
	var by, names []string
	if n := len(machines); n > 0 {
		by = append(by, conditions.Count(n, "worker Machine")+": "+conditions.Names(machines))
	}
	for i := range pools {
		names = append(names, pools[i].Name)
	}
	if n := len(names); n > 0 {
		by = append(by, conditions.Count(n, "MachinePool")+": "+conditions.Names(names))
	}
	if len(by) > 0 {
		d.Reason, d.Message = controlplanev1.KubeadmControlPlaneDeletingWaitingForWorkersDeletionReason, "KubeadmControlPlane deletion blocked by "+strings.Join(by, "; ")
	}
	return d
}

// reporter builds a status, and determines until when it is valid.
type reporter struct {
	Facts
	Outcome
	due time.Time
}

// later reports whether a time is in the future. If so, the status must be rebuilt at
// that time.
func (r *reporter) later(at time.Time) bool {
	if !at.After(r.Now) {
		return false
	}
	if r.due.IsZero() || at.Before(r.due) {
		r.due = at
	}
	return true
}

// Report builds the status of a control plane, and returns when time alone will change
// facts, decisions or the status; zero if it never will. The parts that were not
// observed this time stay as they were reported last.
func Report(f Facts, o Outcome) (controlplanev1.KubeadmControlPlaneStatus, time.Time) {
	r := &reporter{Facts: f, Outcome: o}
	next := controlplanev1.KubeadmControlPlane{Status: f.ControlPlane.Status}
	r.count(&next.Status)
	all := []metav1.Condition{
		r.initialized(), r.certificatesAvailable(), componentsHealthy(f), r.machinesReady(), machinesUpToDate(f), r.rollingOut(),
		r.scalingUp(), r.scalingDown(), r.remediating(), r.deleting(), r.available(), pause.Condition(f.Cluster, f.ControlPlane),
	}
	if ManagesEtcd(f.ControlPlane) {
		all = append(all, etcdHealthy(f))
	} else {
		conditions.Delete(&next, controlplanev1.KubeadmControlPlaneEtcdClusterHealthyCondition)
	}
	if o.Addons != nil && o.Addons.Blocked == "" {
		conditions.Delete(&next, controlplanev1.KubeadmControlPlaneAddonsUpToDateCondition)
	} else if o.Addons != nil {
		all = append(all, conditions.New(controlplanev1.KubeadmControlPlaneAddonsUpToDateCondition, metav1.ConditionFalse,
			controlplanev1.KubeadmControlPlaneAddonsUpdateBlockedReason, o.Addons.Blocked))
	}
	for _, c := range all {
		c.ObservedGeneration = f.ControlPlane.Generation
		conditions.Set(&next, f.Now, c)
	}
	if !o.Failed {
		next.Status.ObservedGeneration = f.ControlPlane.Generation
	}
	r.timers()
	return next.Status, r.due
}

// timers are those of facts and decisions, in addition to those of the conditions.
func (r *reporter) timers() {
	r.later(r.Etcd.Expires())
	if !r.ControlPlane.DeletionTimestamp.IsZero() {
		return
	}
	if Initialized(r.ControlPlane) && !r.Workload.Connected {
		r.later(r.graceEnds())
	}
	for _, m := range r.Machines {
		if held, until := r.firstHeld(m); held {
			r.later(until)
		}
	}
	r.later(rolloutDue(r.ControlPlane, r.Machines, r.Now))
	r.later(r.OrdersHeldUntil)
	if r.Remediation != nil {
		r.later(r.Remediation.Retry)
	}
}

// ReportMachine builds the conditions of a machine, or reports that they must not be
// written yet: those of a new machine are written together.
func ReportMachine(f Facts, o Outcome, m *Machine) (all []metav1.Condition, write bool) {
	if !f.ControlPlane.DeletionTimestamp.IsZero() {
		return nil, false // no client reads it any longer
	}
	remediation := o.remediationOf(m)
	if held, _ := f.firstHeld(m); held && (o.Remediation == nil || o.Remediation.Machine != m) {
		return nil, false
	}
	var to clusterv1.Machine
	to.SetConditions(m.Health)
	conditions.Set(&to, f.Now, upToDate(m))
	if remediation == nil {
		conditions.Delete(&to, clusterv1.MachineOwnerRemediatedCondition)
	} else {
		conditions.Set(&to, f.Now, *remediation)
	}
	return to.GetConditions(), true
}

func upToDate(m *Machine) metav1.Condition {
	if inplace.InProgress(m) {
		return conditions.New(clusterv1.MachineUpToDateCondition, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, "* "+inProgress)
	}
	if m.UpToDate {
		return metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionTrue, Reason: clusterv1.MachineUpToDateReason}
	}
	return metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineNotUpToDateReason, Message: m.Message()}
}

// remediationOf is the condition OwnerRemediated of a machine: from this decision, else
// the current one, unless the machine is healthy again; nil for none.
func (o Outcome) remediationOf(m *Machine) *metav1.Condition {
	const t = clusterv1.MachineOwnerRemediatedCondition
	switch {
	case o.Remediation != nil && o.Remediation.Machine == m && o.Remediation.Reason != "":
		return new(conditions.New(t, metav1.ConditionFalse, o.Remediation.Reason, o.Remediation.Message))
	case !m.Deleting() && !conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition):
		return nil
	}
	return conditions.Get(m, t)
}

// count fills the counters, which the scale subresource and the Cluster read.
func (r *reporter) count(st *controlplanev1.KubeadmControlPlaneStatus) {
	c, upToDate := &machinestatus.Counters{}, int32(0)
	for _, m := range r.Machines {
		c.Machine(m.Machine)
		if m.UpToDate && !inplace.InProgress(m) {
			upToDate++
		}
	}
	st.Selector = clusterv1.ClusterNameLabel + "=" + r.Cluster.Name + "," + clusterv1.MachineControlPlaneLabel
	st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpToDateReplicas = &c.Replicas, &c.Ready, &c.Available, &upToDate
	st.Versions = c.Versions(machinestatus.MostOfGroup)
	st.Version = ""
	if len(st.Versions) > 0 {
		st.Version = st.Versions[0].Version
	}
}

func (r *reporter) initialized() metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneInitializedCondition
	if Initialized(r.ControlPlane) {
		return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneInitializedReason, "")
	}
	return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotInitializedReason, r.waitsFor())
}

// waitsFor returns what a control plane that is not initialized waits for.
func (r *reporter) waitsFor() string {
	infra := r.Cluster.Status.Initialization.InfrastructureProvisioned
	switch {
	case infra == nil || !*infra:
		return "Waiting for the Cluster's infrastructure to be provisioned"
	case r.Certificates.Err != nil:
		return ""
	case r.Cluster.Spec.ControlPlaneEndpoint.IsZero():
		return "Waiting for the Cluster's spec.controlPlaneEndpoint to be set"
	case len(r.Machines) > 0 && !r.Workload.Connected:
		return r.slowStart()
	}
	return ""
}

// slowStart returns why the workload cluster does not answer, once it should have. Until
// that is known, also after a restart, it returns the last message.
func (r *reporter) slowStart() string {
	if r.later(r.Machines[0].CreationTimestamp.Add(FirstContact)) {
		return ""
	}
	if r.Workload.Why != "" {
		return "Waiting for the workload cluster to answer: " + r.Workload.Why
	}
	return conditions.Message(r.ControlPlane, controlplanev1.KubeadmControlPlaneInitializedCondition)
}

func (r *reporter) certificatesAvailable() metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition
	switch {
	case r.Certificates.Err != nil:
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneCertificatesNotAvailableReason, r.Certificates.Err.Error())
	case r.Certificates.Checked:
		return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneCertificatesAvailableReason, "")
	}
	if old := conditions.Get(r.ControlPlane, t); old != nil {
		return *old
	}
	return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneCertificatesNotAvailableReason, r.waitsFor())
}

func (r *reporter) machinesReady() metav1.Condition {
	described := conditions.Objects("Machine", r.Machines...)
	for i, m := range r.Machines {
		if !conditions.IsTrue(m, clusterv1.MachineReadyCondition) && !m.Deleting() && r.later(m.CreationTimestamp.Add(comingUp)) {
			described[i].Conditions = []metav1.Condition{{Type: clusterv1.MachineReadyCondition, Status: metav1.ConditionUnknown, Message: "Machine is coming up"}}
		}
	}
	return conditions.Aggregate(described, clusterv1.MachineReadyCondition, controlplanev1.KubeadmControlPlaneMachinesReadyCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{
			Issue:   controlplanev1.KubeadmControlPlaneMachinesNotReadyReason,
			Unknown: controlplanev1.KubeadmControlPlaneMachinesReadyUnknownReason,
			Info:    controlplanev1.KubeadmControlPlaneMachinesReadyReason,
		},
		Empty: metav1.Condition{Status: metav1.ConditionTrue, Reason: controlplanev1.KubeadmControlPlaneMachinesReadyNoReplicasReason},
	})
}

func machinesUpToDate(f Facts) metav1.Condition {
	judged := conditions.Objects("Machine", f.Machines...)
	for i, m := range f.Machines {
		judged[i].Conditions = []metav1.Condition{upToDate(m)}
	}
	return conditions.Aggregate(judged, clusterv1.MachineUpToDateCondition, controlplanev1.KubeadmControlPlaneMachinesUpToDateCondition, conditions.AggregateOptions{
		Reasons: conditions.Reasons{
			Issue:   controlplanev1.KubeadmControlPlaneMachinesNotUpToDateReason,
			Unknown: controlplanev1.KubeadmControlPlaneMachinesUpToDateUnknownReason,
			Info:    controlplanev1.KubeadmControlPlaneMachinesUpToDateReason,
		},
		Empty: metav1.Condition{Status: metav1.ConditionTrue, Reason: controlplanev1.KubeadmControlPlaneMachinesUpToDateNoReplicasReason},
	})
}

func (r *reporter) rollingOut() metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneRollingOutCondition
	outdated, why := 0, []string{}
	for _, m := range r.Machines {
		reasons := m.Why
		if inplace.InProgress(m) {
			reasons = append(slices.Clone(reasons), inProgress)
		}
		if len(reasons) == 0 {
			continue
		}
		outdated++
		for _, line := range reasons {
			if line = "* " + line; !slices.Contains(why, line) {
				why = append(why, line)
			}
		}
	}
	if outdated == 0 {
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotRollingOutReason, "")
	}
	if r.Action != nil && len(r.Machines) == wanted(r.Facts) { // else ScalingUp or ScalingDown reports it
		for _, awaited := range r.Blocked {
			why = append(why, "* "+awaited)
		}
	}
	message := fmt.Sprintf("Rolling out %d not up-to-date %s", outdated, replicas(outdated))
	return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneRollingOutReason, strings.Join(append([]string{message}, why...), "\n"))
}

func replicas(n int) string {
	if n == 1 {
		return "replica"
	}
	return "replicas"
}

func (r *reporter) scalingUp() metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneScalingUpCondition
	if r.ControlPlane.Spec.Replicas == nil {
		return conditions.New(t, metav1.ConditionUnknown, controlplanev1.KubeadmControlPlaneScalingUpWaitingForReplicasSetReason, "Waiting for spec.replicas set")
	}
	want, have := wanted(r.Facts), len(r.Machines)
	if have >= want {
		message := ""
		if r.Template != "" && r.ControlPlane.DeletionTimestamp.IsZero() {
			message = "Scaling up would be blocked because " + r.Template
		}
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotScalingUpReason, message)
	}
	message := fmt.Sprintf("Scaling up from %d to %d %s", have, want, replicas(want))
	blocked := slices.Clone(r.Blocked)
	if r.Template != "" && !slices.Contains(blocked, r.Template) {
		blocked = append(blocked, r.Template)
	}
	return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneScalingUpReason, message+scaling.BlockedBecause(blocked))
}

func (r *reporter) scalingDown() metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneScalingDownCondition
	if r.ControlPlane.Spec.Replicas == nil {
		return conditions.New(t, metav1.ConditionUnknown, controlplanev1.KubeadmControlPlaneScalingDownWaitingForReplicasSetReason, "Waiting for spec.replicas set")
	}
	want, have := wanted(r.Facts), len(r.Machines)
	if have <= want {
		// A machine that another client deletes is not one too many, but its deletion is
		// reported.
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotScalingDownReason, strings.Join(r.Held, "\n"))
	}
	message := fmt.Sprintf("Scaling down from %d to %d %s", have, want, replicas(want))
	return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneScalingDownReason, message+scaling.BlockedBecause(slices.Concat(r.Blocked, r.Held)))
}

// wanted is the desired number of machines; none when all are being deleted, and as many
// as there are until a number is set.
func wanted(f Facts) int {
	if !f.ControlPlane.DeletionTimestamp.IsZero() {
		return 0
	}
	return int(ptr.Deref(f.ControlPlane.Spec.Replicas, int32(len(f.Machines))))
}

func (r *reporter) remediating() metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneRemediatingCondition
	var under []string
	for _, m := range r.Machines {
		if c := r.remediationOf(m); c != nil && c.Status == metav1.ConditionFalse {
			under = append(under, fmt.Sprintf("* Machine %s: %s", m.Name, c.Message))
		}
	}
	if len(under) > 0 {
		return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneRemediatingReason, strings.Join(under, "\n"))
	}
	return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotRemediatingReason, "")
}

func (r *reporter) deleting() metav1.Condition {
	const t = controlplanev1.KubeadmControlPlaneDeletingCondition
	switch {
	case r.ControlPlane.DeletionTimestamp.IsZero():
		return conditions.New(t, metav1.ConditionFalse, controlplanev1.KubeadmControlPlaneNotDeletingReason, "")
	case r.Deletion.Reason == "" && r.Failed:
		return conditions.New(t, metav1.ConditionTrue, controlplanev1.KubeadmControlPlaneDeletingInternalErrorReason, "Looking for what is left to delete failed")
	}
	return conditions.New(t, metav1.ConditionTrue, r.Deletion.Reason, r.Deletion.Message)
}
