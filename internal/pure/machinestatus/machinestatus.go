// SPDX-License-Identifier: Apache-2.0

// Package machinestatus reports the status of a Machine: it summarizes the objects that
// the Machine refers to, and its Node.
//
//   - Progress that was observed once is permanent: that bootstrap data exists, and that
//     the infrastructure is provisioned.
//   - The last observed state of the Node stays for a grace period after the connection
//     to its cluster is lost; then it is unknown.
//   - A Machine is ready if all its conditions are good, and available once it has been
//     ready for spec.minReadySeconds.
//
// Counters count machines, individually or by groups that were counted before, for the
// statuses of all objects that have machines.
//
//   - A Machine that is being updated in place is neither ready, nor available, nor up
//     to date, regardless of its conditions.
//   - The version of a Machine is the one that its Node reports or, without a Node, the
//     one in its spec.
//   - Versions are listed oldest first, and invalid versions last. Versions that a
//     status cannot hold are omitted: otherwise the API would reject the whole status.
package machinestatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// Facts are the input of the status.
type Facts struct {
	Machine    *clusterv1.Machine
	Cluster    *clusterv1.Cluster // nil: it does not exist
	Generation int64              // observed generation of the status
	Now        time.Time
	Failed     bool // this reconcile failed: the status is what was read before

	BootstrapConfig, Infrastructure reference.Object
	// The field that a provider must still set although it reports completion; empty for
	// none.
	DataLacks, HostLacks string
	Node                 Node
	UpToDate             *metav1.Condition // nil: set by the owner of the Machine, or not at all
	Deletion             Stage
	Update               Stage // in place; without a reason there is none
}

// Node is the observed state of the Node.
type Node struct {
	Node      *corev1.Node // nil: it does not exist, or could not be read
	Gone      bool         // it existed before and was deleted
	Awaited   string       // what must happen before it can be read
	Failure   string       // why it could not be read
	Connected bool         // to the workload cluster
	LastProbe time.Time    // last success; zero if this process has seen none
	GraceEnds time.Time    // when a lost connection makes the state unknown; zero: not lost
}

// Stage is the progress of a deletion or of an update in place.
type Stage struct{ Reason, Message string }

// Report fills the status of the Machine.
func Report(f Facts) {
	m := f.Machine
	all := append([]metav1.Condition{bootstrapConfigReady(f), infrastructureReady(f)}, nodeConditions(f)...)
	all = append(all, updating(f), deleting(f))
	if f.UpToDate != nil {
		all = append(all, *f.UpToDate)
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration = f.Generation
		conditions.Set(m, f.Now, c)
	}
	for _, c := range all {
		set(c)
	}
	set(ready(f))            // summarizes those before it
	set(Available(m, f.Now)) // reports since when
	set(pause.Condition(f.Cluster, m))
	if p := string(phaseOf(f)); p != m.Status.Phase {
		m.Status.Phase = p
		m.Status.LastUpdated = metav1.NewTime(f.Now.UTC().Truncate(time.Second))
	}
	if !f.Failed {
		m.Status.ObservedGeneration = f.Generation
	}
}

// Deadline is when the reported status next changes through time alone; zero if it never
// does.
func Deadline(f Facts) time.Time {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(f.Now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if at, isReady := AvailableAt(f.Machine); isReady {
		consider(at)
	}
	if !f.Node.Connected {
		consider(f.Node.GraceEnds)
	}
	return next
}

func bootstrapConfigReady(f Facts) metav1.Condition {
	const target = clusterv1.MachineBootstrapConfigReadyCondition
	m, ref := f.Machine, f.BootstrapConfig
	if !ref.Defined() {
		if m.Spec.Bootstrap.DataSecretName != nil {
			return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineBootstrapDataSecretProvidedReason, "")
		}
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineBootstrapConfigNotReadyReason, "spec.bootstrap has neither configRef nor dataSecretName: set one of them")
	}
	created := ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false)
	return ref.Mirror(reference.Mirrored{
		Source: contract.ReadyCondition, Target: target, Done: created, Good: clusterv1.ReadyReason, Bad: clusterv1.NotReadyReason,
		Lacks: f.DataLacks, Awaited: fmt.Sprintf("Waiting for %s to create bootstrap data", ref),
		Absent: ref.Absent(dependent(f, created, "its bootstrap data is still there")),
	})
}

func infrastructureReady(f Facts) metav1.Condition {
	ref, provisioned := f.Infrastructure, ptr.Deref(f.Machine.Status.Initialization.InfrastructureProvisioned, false)
	return ref.Mirror(reference.Mirrored{
		Source: contract.ReadyCondition, Target: clusterv1.MachineInfrastructureReadyCondition, Done: provisioned, Good: clusterv1.ReadyReason, Bad: clusterv1.NotReadyReason,
		Lacks: f.HostLacks, Awaited: fmt.Sprintf("Waiting for %s to be provisioned", ref),
		Absent: ref.Absent(dependent(f, provisioned, "delete the Machine to replace it")),
	})
}

// dependent is a Machine as the dependent of an object that did its part, if done.
func dependent(f Facts, done bool, remedy string) reference.Dependent {
	return reference.Dependent{Kind: "Machine", Cluster: f.Machine.Spec.ClusterName, Deleting: !f.Machine.DeletionTimestamp.IsZero(), Done: done, Remedy: remedy}
}

func updating(f Facts) metav1.Condition {
	const target = clusterv1.MachineUpdatingCondition
	if f.Update.Reason != "" {
		return conditions.New(target, metav1.ConditionTrue, f.Update.Reason, f.Update.Message)
	}
	return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotUpdatingReason, "")
}

func deleting(f Facts) metav1.Condition {
	const target = clusterv1.MachineDeletingCondition
	if f.Machine.DeletionTimestamp.IsZero() {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotDeletingReason, "")
	}
	return conditions.New(target, metav1.ConditionTrue, f.Deletion.Reason, f.Deletion.Message)
}

// ready summarizes the Machine. Control plane components with the same message share a
// line.
func ready(f Facts) metav1.Condition {
	m := f.Machine
	o := conditions.SummaryOptions{
		Types: []string{
			clusterv1.MachineDeletingCondition, clusterv1.MachineUpdatingCondition, clusterv1.MachineBootstrapConfigReadyCondition,
			clusterv1.MachineInfrastructureReadyCondition, clusterv1.MachineNodeHealthyCondition,
		},
		Negative: []string{clusterv1.MachineDeletingCondition, clusterv1.MachineUpdatingCondition},
		Join:     joinControlPlane,
		Reasons: conditions.Reasons{
			Issue: clusterv1.MachineNotReadyReason, Unknown: clusterv1.MachineReadyUnknownReason, Info: clusterv1.MachineReadyReason,
		},
	}
	// That a health check is Unknown only means that the cluster does not answer, which
	// NodeHealthy reports after its grace period.
	if checked := conditions.Get(m, clusterv1.MachineHealthCheckSucceededCondition); checked != nil && checked.Status != metav1.ConditionUnknown {
		o.Types = append(o.Types, checked.Type)
	}
	for _, g := range m.Spec.ReadinessGates {
		o.Types = append(o.Types, g.ConditionType)
		if g.Polarity == clusterv1.NegativePolarityCondition {
			o.Negative = append(o.Negative, g.ConditionType)
		}
	}
	if !m.DeletionTimestamp.IsZero() {
		o.Overrides = []metav1.Condition{conditions.New(clusterv1.MachineDeletingCondition, metav1.ConditionTrue,
			f.Deletion.Reason, "Machine deletion in progress, stage: "+f.Deletion.Reason)}
	}
	return conditions.Summary(m, clusterv1.MachineReadyCondition, o)
}

// joinControlPlane merges the conditions of control plane components with the same
// message into one line.
func joinControlPlane(all []metav1.Condition) (out []metav1.Condition) {
	isPart := func(c metav1.Condition) bool {
		return strings.HasSuffix(c.Type, "PodHealthy") || c.Type == "EtcdMemberHealthy" || c.Type == "NodeKubeadmLabelsAndTaintsSet"
	}
	for _, c := range all {
		at := slices.IndexFunc(out, func(have metav1.Condition) bool {
			return isPart(c) && (isPart(have) || have.Type == controlPlaneParts) && have.Message == c.Message
		})
		if at < 0 {
			out = append(out, c)
			continue
		}
		out[at].Type = controlPlaneParts
	}
	return out
}

const controlPlaneParts = "Control plane components"

// Available reports whether a Machine has been ready for long enough.
func Available(m *clusterv1.Machine, now time.Time) metav1.Condition {
	const target = clusterv1.MachineAvailableCondition
	at, isReady := AvailableAt(m)
	switch {
	case !isReady:
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotReadyReason, "")
	case now.Before(at):
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineWaitingForMinReadySecondsReason, "")
	default:
		return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineAvailableReason, "")
	}
}

// AvailableAt is when a ready Machine becomes, or became, available.
func AvailableAt(m *clusterv1.Machine) (time.Time, bool) {
	c := conditions.Get(m, clusterv1.MachineReadyCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	return c.LastTransitionTime.Add(time.Duration(ptr.Deref(m.Spec.MinReadySeconds, 0)) * time.Second), true
}

func phaseOf(f Facts) clusterv1.MachinePhase {
	m := f.Machine
	switch i, provisioned := m.Status.Initialization, ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false); {
	case !m.DeletionTimestamp.IsZero():
		return clusterv1.MachinePhaseDeleting
	case !provisioned && ptr.Deref(i.BootstrapDataSecretCreated, false):
		return clusterv1.MachinePhaseProvisioning
	case !provisioned:
		return clusterv1.MachinePhasePending
	case !m.Status.NodeRef.IsDefined():
		return clusterv1.MachinePhaseProvisioned
	case conditions.IsTrue(m, clusterv1.MachineUpdatingCondition):
		return clusterv1.MachinePhaseUpdating
	}
	return clusterv1.MachinePhaseRunning
}
