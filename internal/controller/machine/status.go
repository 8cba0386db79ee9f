// SPDX-License-Identifier: Apache-2.0

package machine

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
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/reference"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// report fills the status from the state. It is pure, and runs after a failure
// too; failed is what the phases returned.
func report(s *state, failed error) {
	m := s.machine
	generation := patch.Generation(m, s.specBefore, m.Spec)
	set := func(c metav1.Condition) {
		c.ObservedGeneration = generation
		conditions.Set(m, s.now, c)
	}
	noteFailures(s)
	set(bootstrapConfigReady(s))
	set(infrastructureReady(s))
	for _, c := range nodeConditions(s) {
		set(c)
	}
	set(updating(s))
	set(deleting(s))
	if s.set != nil && s.deployment != nil { // else it is judged by whoever manages it, or by nobody
		set(rollout.UpToDate(s.deployment, s.set, m, s.now))
	}
	set(ready(s))
	set(available(s))
	set(pause.Condition(s.cluster, m))
	if p := string(phaseOf(s)); p != m.Status.Phase {
		m.Status.Phase = p
		m.Status.LastUpdated = metav1.NewTime(s.now.UTC().Truncate(time.Second))
	}
	if failed == nil {
		m.Status.ObservedGeneration = generation
	}
}

// noteFailures shows what providers report of failures; it stays until something
// else is reported.
func noteFailures(s *state) {
	reason, message := reference.Failure(s.bootstrapConfig.Known(), s.infraMachine.Known())
	if reason == "" && message == "" {
		return
	}
	shown := clusterv1.MachineV1Beta1DeprecatedStatus{}
	if d := s.machine.Status.Deprecated; d != nil && d.V1Beta1 != nil {
		shown = *d.V1Beta1
	}
	if reason != "" {
		shown.FailureReason = &reason
	}
	if message != "" {
		shown.FailureMessage = &message
	}
	s.machine.Status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &shown}
}

func bootstrapConfigReady(s *state) metav1.Condition {
	const target = clusterv1.MachineBootstrapConfigReadyCondition
	m, ref := s.machine, s.bootstrapConfig
	if !ref.Ref.IsDefined() {
		if m.Spec.Bootstrap.DataSecretName != nil {
			return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineBootstrapDataSecretProvidedReason, "")
		}
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineBootstrapConfigNotReadyReason, "spec.bootstrap has neither configRef nor dataSecretName: set one of them")
	}
	created := ptr.Deref(m.Status.Initialization.BootstrapDataSecretCreated, false)
	return referred(s, ref, referredTo{
		target: target, ready: created, lacks: s.dataLacks,
		awaited: fmt.Sprintf("Waiting for %s to create bootstrap data", ref),
		gone:    "its bootstrap data is still there",
	})
}

func infrastructureReady(s *state) metav1.Condition {
	return referred(s, s.infraMachine, referredTo{
		target: clusterv1.MachineInfrastructureReadyCondition, ready: ptr.Deref(s.machine.Status.Initialization.InfrastructureProvisioned, false), lacks: s.hostLacks,
		awaited: fmt.Sprintf("Waiting for %s to be provisioned", s.infraMachine),
		gone:    "delete the Machine to replace it",
	})
}

// referredTo says how to report on an object that the Machine refers to.
type referredTo struct {
	target  string
	ready   bool   // the object has done its part at least once
	awaited string // until then
	lacks   string // the field that it has not set, though it says that it is done
	gone    string // what its disappearance means
}

// referred mirrors the Ready condition of an object that the Machine refers to.
func referred(s *state, ref provider.Reference, to referredTo) metav1.Condition {
	isDeleting := !s.machine.DeletionTimestamp.IsZero()
	switch {
	case ref.Held():
		return conditions.New(to.target, metav1.ConditionFalse, clusterv1.NotReadyReason, ref.Err.Error())
	case ref.Err != nil:
		return conditions.New(to.target, metav1.ConditionUnknown, clusterv1.InternalErrorReason, ref.Err.Error())
	case ref.Obj == nil && !ref.Missing:
		return conditions.New(to.target, metav1.ConditionUnknown, clusterv1.InternalErrorReason, fmt.Sprintf("Waiting for Cluster %s, named by spec.clusterName, to exist", s.machine.Spec.ClusterName))
	case ref.Missing && isDeleting && to.ready:
		return conditions.New(to.target, metav1.ConditionUnknown, clusterv1.ObjectDeletedReason, fmt.Sprintf("%s has been deleted", ref))
	case ref.Missing && to.ready:
		return conditions.New(to.target, metav1.ConditionFalse, clusterv1.ObjectDeletedReason, fmt.Sprintf("%s has been deleted while the Machine still exists: %s", ref, to.gone))
	case ref.Missing && isDeleting:
		return conditions.New(to.target, metav1.ConditionUnknown, clusterv1.ObjectDoesNotExistReason, fmt.Sprintf("%s does not exist", ref))
	case ref.Missing:
		return conditions.New(to.target, metav1.ConditionFalse, clusterv1.ObjectDoesNotExistReason, fmt.Sprintf("%s does not exist: create it, or correct the reference", ref))
	}
	if to.lacks != "" {
		return conditions.New(to.target, metav1.ConditionFalse, clusterv1.NotReadyReason, fmt.Sprintf("Waiting for %s to set %s", ref, to.lacks))
	}
	reported, err := conditions.FromUnstructured(ref.Obj.Unstructured)
	if err != nil {
		return conditions.New(to.target, metav1.ConditionUnknown, clusterv1.InvalidConditionReportedReason, err.Error())
	}
	fallback := conditions.New(to.target, metav1.ConditionFalse, clusterv1.NotReadyReason, to.awaited)
	if to.ready {
		fallback = conditions.New(to.target, metav1.ConditionTrue, clusterv1.ReadyReason, "")
	}
	return conditions.Mirror(reported, contract.ReadyCondition, to.target, fallback)
}

func updating(s *state) metav1.Condition {
	const target = clusterv1.MachineUpdatingCondition
	if _, ok := s.machine.Annotations[clusterv1.UpdateInProgressAnnotation]; ok {
		return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineInPlaceUpdateFailedReason,
			fmt.Sprintf("Updates in place are not supported: remove the annotation %s, and replace the Machine", clusterv1.UpdateInProgressAnnotation))
	}
	return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotUpdatingReason, "")
}

func deleting(s *state) metav1.Condition {
	const target = clusterv1.MachineDeletingCondition
	if s.machine.DeletionTimestamp.IsZero() {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotDeletingReason, "")
	}
	return conditions.New(target, metav1.ConditionTrue, s.deletion.plan.Reason, s.deletion.plan.Message)
}

// ready sums up the Machine. The parts of a control plane that have the same to
// say share a line.
func ready(s *state) metav1.Condition {
	m := s.machine
	o := conditions.SummaryOptions{
		Types: []string{
			clusterv1.MachineDeletingCondition, clusterv1.MachineUpdatingCondition, clusterv1.MachineBootstrapConfigReadyCondition,
			clusterv1.MachineInfrastructureReadyCondition, clusterv1.MachineNodeHealthyCondition, clusterv1.MachineHealthCheckSucceededCondition,
		},
		Negative: []string{clusterv1.MachineDeletingCondition, clusterv1.MachineUpdatingCondition},
		Optional: []string{clusterv1.MachineHealthCheckSucceededCondition},
		Join:     joinControlPlane,
		Reasons: conditions.Reasons{
			Issue: clusterv1.MachineNotReadyReason, Unknown: clusterv1.MachineReadyUnknownReason, Info: clusterv1.MachineReadyReason,
		},
	}
	for _, g := range m.Spec.ReadinessGates {
		o.Types = append(o.Types, g.ConditionType)
		if g.Polarity == clusterv1.NegativePolarityCondition {
			o.Negative = append(o.Negative, g.ConditionType)
		}
	}
	if !m.DeletionTimestamp.IsZero() {
		o.Overrides = []metav1.Condition{conditions.New(clusterv1.MachineDeletingCondition, metav1.ConditionTrue,
			s.deletion.plan.Reason, "Machine deletion in progress, stage: "+s.deletion.plan.Reason)}
	}
	return conditions.Summary(m, clusterv1.MachineReadyCondition, o)
}

// joinControlPlane makes one line of the parts of a control plane that have
// the same message.
func joinControlPlane(all []metav1.Condition) (out []metav1.Condition) {
	isPart := func(c metav1.Condition) bool {
		return strings.HasSuffix(c.Type, "PodHealthy") || c.Type == "EtcdMemberHealthy"
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

// available tells whether the Machine has been ready for long enough.
func available(s *state) metav1.Condition {
	const target = clusterv1.MachineAvailableCondition
	at, isReady := s.availableAt()
	switch {
	case !isReady:
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotReadyReason, "")
	case s.now.Before(at):
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineWaitingForMinReadySecondsReason, "")
	default:
		return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineAvailableReason, "")
	}
}

// availableAt is when a ready Machine becomes, or became, available.
func (s *state) availableAt() (time.Time, bool) {
	c := conditions.Get(s.machine, clusterv1.MachineReadyCondition)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}, false
	}
	var seconds int32
	if s.machine.Spec.MinReadySeconds != nil {
		seconds = *s.machine.Spec.MinReadySeconds
	}
	return c.LastTransitionTime.Add(time.Duration(seconds) * time.Second), true
}

// deadline is when time alone changes the status next; zero if it never does.
func (s *state) deadline() time.Time {
	var next time.Time
	consider := func(t time.Time) {
		if t.After(s.now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if at, ok := s.availableAt(); ok {
		consider(at)
	}
	if !s.connected {
		consider(s.graceEnds)
	}
	return next
}

func phaseOf(s *state) clusterv1.MachinePhase {
	m := s.machine
	i := m.Status.Initialization
	switch {
	case !m.DeletionTimestamp.IsZero():
		return clusterv1.MachinePhaseDeleting
	case ptr.Deref(i.InfrastructureProvisioned, false) && m.Status.NodeRef.IsDefined() && conditions.IsTrue(m, clusterv1.MachineUpdatingCondition):
		return clusterv1.MachinePhaseUpdating
	case ptr.Deref(i.InfrastructureProvisioned, false) && m.Status.NodeRef.IsDefined():
		return clusterv1.MachinePhaseRunning
	case ptr.Deref(i.InfrastructureProvisioned, false):
		return clusterv1.MachinePhaseProvisioned
	case ptr.Deref(i.BootstrapDataSecretCreated, false):
		return clusterv1.MachinePhaseProvisioning
	default:
		return clusterv1.MachinePhasePending
	}
}
