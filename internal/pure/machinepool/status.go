// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// Facts are the input of the status of a pool.
type Facts struct {
	Pool       *clusterv1.MachinePool
	Cluster    *clusterv1.Cluster // nil: it does not exist
	Generation int64              // observed generation of the status
	Now        time.Time
	Failed     bool // this reconcile failed: the status is what was read before

	BootstrapConfig, Infrastructure reference.Object
	DataLacks                       string // the field that a bootstrap config must still set although it reports completion
	Report                          Report

	Machines []*clusterv1.Machine // those of the pool, or the placeholders of its infrastructure machines
	StandIns bool
	Problems []string  // of infrastructure machines and Nodes, as sentences
	Unseen   string    // why the Nodes of the placeholders could not be read; "" if they were
	Until    time.Time // until when their last observed state is still shown; zero except for a lost connection
	Leaving  string    // what a deletion waits for
}

// FillStatus fills the status of the pool.
func FillStatus(f Facts) {
	p := f.Pool
	f.Machines = scaling.WithUpToDate(f.Machines, f.Now, func(m *clusterv1.Machine) *metav1.Condition { return new(UpToDate(p, m)) })
	if p.Status.Replicas == nil {
		p.Status.Replicas = new(int32(len(f.Machines)))
	}
	all := []metav1.Condition{bootstrapConfigReady(f), infrastructureReady(f), deleting(f), pause.Condition(f.Cluster, p)}
	if f.Unseen == "" {
		n := machinestatus.CountMachines(f.Machines)
		p.Status.ReadyReplicas, p.Status.AvailableReplicas, p.Status.UpToDateReplicas = &n.Ready, &n.Available, &n.UpToDate
		p.Status.Versions = n.Versions(machinestatus.MostOfGroup)
		all = append(all, f.group().Conditions()...)
		all = append(all, rollingOut(f), available(f))
	} else if !f.Now.Before(f.Until) {
		all = append(all, unseen(f)...)
	}
	for _, c := range all {
		if c.Type == clusterv1.MachinesReadyCondition {
			c = withProblems(c, append(slices.Clone(f.Report.Problems), f.Problems...))
		}
		c.ObservedGeneration = f.Generation
		conditions.Set(p, f.Now, c)
	}
	p.Status.SetTypedPhase(phaseOf(f))
	if !f.Failed {
		p.Status.ObservedGeneration = f.Generation
	}
}

// Deadline is when the status next changes through time alone; zero if it never does.
func Deadline(f Facts) (next time.Time) {
	consider := func(t time.Time) {
		if t.After(f.Now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if f.Unseen != "" {
		consider(f.Until)
	}
	if f.StandIns { // real Machines report it themselves
		for _, m := range f.Machines {
			if at, isReady := machinestatus.AvailableAt(m); isReady {
				consider(at)
			}
		}
	}
	return next
}

func (f Facts) want() int {
	if f.Pool.Spec.Replicas == nil || Autoscaled(f.Pool) {
		return int(ptr.Deref(f.Pool.Status.Replicas, 0))
	}
	return int(*f.Pool.Spec.Replicas)
}

// Autoscaled reports whether an external controller sets the number of machines of a
// pool.
func Autoscaled(p *clusterv1.MachinePool) bool {
	by, ok := p.Annotations[clusterv1.ReplicasManagedByAnnotation]
	return ok && by != "false"
}

func (f Facts) group() scaling.Group {
	g := scaling.Group{
		Machines: f.Machines, Current: f.Pool.Status.Replicas, Replicas: f.Pool.Spec.Replicas, Deleting: !f.Pool.DeletionTimestamp.IsZero(),
	}
	if f.StandIns {
		g.Kind = "Node"
	}
	return g
}

func bootstrapConfigReady(f Facts) metav1.Condition {
	const target = clusterv1.BootstrapConfigReadyCondition
	ref := f.BootstrapConfig
	if !ref.Defined() {
		if f.Pool.Spec.Template.Spec.Bootstrap.DataSecretName != nil {
			return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineBootstrapDataSecretProvidedReason, "")
		}
		return conditions.New(target, metav1.ConditionFalse, clusterv1.NotReadyReason, "spec.template.spec.bootstrap has neither configRef nor dataSecretName: set one of them")
	}
	created := ptr.Deref(f.Pool.Status.Initialization.BootstrapDataSecretCreated, false)
	return ref.Mirror(reference.Mirrored{
		Source: contract.ReadyCondition, Target: target, Done: created, Good: clusterv1.ReadyReason, Bad: clusterv1.NotReadyReason,
		Lacks: f.DataLacks, Awaited: fmt.Sprintf("Waiting for %s to create bootstrap data", ref),
		Absent: ref.Absent(dependent(f, created, "new machines get the bootstrap data that it left")),
	})
}

func infrastructureReady(f Facts) metav1.Condition {
	ref, provisioned := f.Infrastructure, f.provisioned()
	return ref.Mirror(reference.Mirrored{
		Source: contract.ReadyCondition, Target: clusterv1.InfrastructureReadyCondition, Done: provisioned, Good: clusterv1.ReadyReason, Bad: clusterv1.NotReadyReason,
		Awaited: fmt.Sprintf("Waiting for %s to be provisioned", ref),
		Absent:  ref.Absent(dependent(f, provisioned, "delete the MachinePool, or restore the object from a backup")),
	})
}

func (f Facts) provisioned() bool {
	return ptr.Deref(f.Pool.Status.Initialization.InfrastructureProvisioned, false)
}

// dependent is a pool as the dependent of an object that did its part, if done.
func dependent(f Facts, done bool, remedy string) reference.Dependent {
	return reference.Dependent{Kind: "MachinePool", Cluster: f.Pool.Spec.ClusterName, Deleting: !f.Pool.DeletionTimestamp.IsZero(), Done: done, Remedy: remedy}
}

func deleting(f Facts) metav1.Condition {
	const target = clusterv1.DeletingCondition
	switch {
	case f.Pool.DeletionTimestamp.IsZero():
		return conditions.New(target, metav1.ConditionFalse, clusterv1.NotDeletingReason, "")
	case f.Leaving == "":
		return conditions.New(target, metav1.ConditionTrue, clusterv1.DeletionCompletedReason, "Deletion completed")
	default:
		return conditions.New(target, metav1.ConditionTrue, clusterv1.DeletingReason, f.Leaving)
	}
}

func rollingOut(f Facts) metav1.Condition {
	const target = clusterv1.RollingOutCondition
	behind := 0
	for _, m := range f.Machines {
		if conditions.IsFalse(m, clusterv1.MachineUpToDateCondition) {
			behind++
		}
	}
	if behind == 0 {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.NotRollingOutReason, "")
	}
	return conditions.New(target, metav1.ConditionTrue, clusterv1.RollingOutReason, fmt.Sprintf("Rolling out %d not up-to-date replicas", behind))
}

func available(f Facts) metav1.Condition {
	const target = clusterv1.AvailableCondition
	have := int(ptr.Deref(f.Pool.Status.AvailableReplicas, 0))
	switch {
	case !f.Pool.DeletionTimestamp.IsZero():
		return conditions.New(target, metav1.ConditionFalse, clusterv1.NotAvailableReason, "Deletion in progress")
	case !f.provisioned():
		return conditions.New(target, metav1.ConditionFalse, clusterv1.NotAvailableReason, fmt.Sprintf("Waiting for %s to be provisioned", f.Infrastructure))
	case have < f.want():
		return conditions.New(target, metav1.ConditionFalse, clusterv1.NotAvailableReason, fmt.Sprintf("%d available replicas, %d required", have, f.want()))
	}
	return conditions.New(target, metav1.ConditionTrue, clusterv1.AvailableReason, "")
}

// unseen are the conditions while Nodes have not been readable for long.
func unseen(f Facts) []metav1.Condition {
	reason := clusterv1.ConnectionDownReason
	if f.Until.IsZero() {
		reason = clusterv1.InternalErrorReason
	}
	return []metav1.Condition{
		conditions.New(clusterv1.MachinesReadyCondition, metav1.ConditionUnknown, reason, f.Unseen),
		conditions.New(clusterv1.AvailableCondition, metav1.ConditionUnknown, reason, f.Unseen),
	}
}

// mostProblems is how many problems are listed at a time.
const mostProblems = 5

// withProblems adds problems of infrastructure machines and Nodes to their condition.
func withProblems(c metav1.Condition, problems []string) metav1.Condition {
	if len(problems) == 0 {
		return c
	}
	lines := slices.Clone(problems[:min(len(problems), mostProblems)])
	if more := len(problems) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("... (%d more)", more))
	}
	message := "* " + strings.Join(lines, "\n* ")
	if c.Status != metav1.ConditionTrue && c.Message != "" {
		message += "\n" + c.Message
	}
	return conditions.New(c.Type, metav1.ConditionFalse, clusterv1.NotReadyReason, message)
}

func phaseOf(f Facts) clusterv1.MachinePoolPhase {
	have, want := int(ptr.Deref(f.Pool.Status.Replicas, 0)), int(ptr.Deref(f.Pool.Spec.Replicas, 0))
	switch {
	case !f.Pool.DeletionTimestamp.IsZero():
		return clusterv1.MachinePoolPhaseDeleting
	case !f.provisioned() && !ptr.Deref(f.Pool.Status.Initialization.BootstrapDataSecretCreated, false):
		return clusterv1.MachinePoolPhasePending
	case !f.provisioned():
		return clusterv1.MachinePoolPhaseProvisioning
	case have != want && Autoscaled(f.Pool):
		return clusterv1.MachinePoolPhaseScaling
	case have < want:
		return clusterv1.MachinePoolPhaseScalingUp
	case have > want:
		return clusterv1.MachinePoolPhaseScalingDown
	case len(f.Pool.Status.NodeRefs) < have:
		return clusterv1.MachinePoolPhaseProvisioned
	}
	return clusterv1.MachinePoolPhaseRunning
}
