// SPDX-License-Identifier: Apache-2.0

// Package planguard decides what a PlanGuard admits, and when it ends.
package planguard

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
)

// Limits of PlanGuardStatus, from its definition.
const (
	maxHeld = 20
	maxWhy  = 1024
)

// New returns the guard of a Cluster, which owns it.
func New(c *clusterv1.Cluster, owner metav1.OwnerReference, spec planv1.PlanGuardSpec) *planv1.PlanGuard {
	return &planv1.PlanGuard{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: c.Name, OwnerReferences: []metav1.OwnerReference{owner},
			Labels: map[string]string{clusterv1.ClusterNameLabel: c.Name},
		},
		Spec: spec,
	}
}

// ClusterOf is the name of the Cluster that an object is, or that it belongs to by its spec
// or label; "" if it does not have that.
func ClusterOf(obj *unstructured.Unstructured) string {
	if obj.GetKind() == "Cluster" {
		return obj.GetName()
	}
	if name, _, _ := unstructured.NestedString(obj.Object, "spec", "clusterName"); name != "" {
		return name
	}
	return obj.GetLabels()[clusterv1.ClusterNameLabel]
}

// maxSize is the size in bytes of a stored plan: etcd takes 1.5 MiB, and what the guard
// refuses comes on top.
const maxSize = 1 << 20

// Fit returns what a guard stores of a plan of a Cluster. Of a large plan, that is only what
// the guard decides by: what is not in it is refused anyway. The error is that of a plan
// which is too large for that, too.
func Fit(spec planv1.PlanGuardSpec) (planv1.PlanGuardSpec, error) {
	size, err := sizeOf(spec)
	if err != nil || size <= maxSize {
		return spec, err
	}
	of := spec.Cluster.DeepCopy()
	spec.Cluster, of.Objects, of.Hooks, of.Blocked = of, nil, nil, nil
	of.Machines = slices.DeleteFunc(of.Machines, func(m planv1.Machine) bool { return m.Action == planv1.Kept })
	for i, m := range of.Machines {
		of.Machines[i] = planv1.Machine{Name: m.Name, UID: m.UID, Owner: m.Owner, Action: m.Action, Wave: m.Wave}
	}
	for i := range of.Pools {
		of.Pools[i].Fields = nil
	}
	if size, err = sizeOf(spec); err == nil && size > maxSize {
		err = fmt.Errorf("the plan of Cluster %s/%s is too large for a guard, with %d objects and %d Machines that change: make several plans", of.Namespace, of.Name, len(spec.Change), len(of.Machines))
	}
	return spec, err
}

func sizeOf(spec planv1.PlanGuardSpec) (int, error) {
	data, err := json.Marshal(spec)
	return len(data), err
}

// Holds reports whether a guard refuses what its plan does not have. It is nil if there
// is none.
func Holds(g *planv1.PlanGuard, now time.Time) bool {
	switch {
	case g == nil, !g.DeletionTimestamp.IsZero():
		return false
	case g.Spec.Required:
		return true
	}
	return g.Spec.Plan != "" && now.Before(g.Spec.Deadline.Time)
}

// carriesOut reports whether a guard has a plan whose deadline has not passed.
func carriesOut(g *planv1.PlanGuard, now time.Time) bool {
	return g.Spec.Plan != "" && g.Spec.Cluster != nil && now.Before(g.Spec.Deadline.Time)
}

// machine returns what the plan does to a Machine, or nil.
func machine(g *planv1.PlanGuard, m *clusterv1.Machine) *planv1.Machine {
	i := slices.IndexFunc(g.Spec.Cluster.Machines, func(p planv1.Machine) bool { return p.UID != "" && p.UID == m.UID })
	if i < 0 {
		return nil
	}
	return &g.Spec.Cluster.Machines[i]
}

// Deletes reports whether the plan deletes a Machine. Of Machines that the plan itself
// creates, also in the second of the guard, it deletes those of an owner whose Machines it
// creates and deletes again.
func Deletes(g *planv1.PlanGuard, m *clusterv1.Machine, now time.Time) bool {
	if !carriesOut(g, now) {
		return false
	}
	if p := machine(g, m); p != nil {
		return p.Action == planv1.Replaced || p.Action == planv1.Deleted
	}
	return !m.CreationTimestamp.Before(&g.CreationTimestamp) &&
		slices.ContainsFunc(g.Spec.Cluster.Machines, func(p planv1.Machine) bool {
			return p.Action == planv1.Transient && p.Owner == outcome.Owner(m)
		})
}

// Updates reports whether the plan changes a Machine in place.
func Updates(g *planv1.PlanGuard, m *clusterv1.Machine, now time.Time) bool {
	if !carriesOut(g, now) {
		return false
	}
	p := machine(g, m)
	return p != nil && p.Action == planv1.Changed
}

// Shrinks reports whether the plan lets a MachinePool have so few replicas.
func Shrinks(g *planv1.PlanGuard, pool string, replicas int32, now time.Time) bool {
	return carriesOut(g, now) && slices.ContainsFunc(g.Spec.Cluster.Pools, func(of planv1.Pool) bool {
		return of.Name == pool && of.Then <= replicas
	})
}

// Writes reports whether the plan writes an object.
func Writes(g *planv1.PlanGuard, kind, namespace, name string, now time.Time) bool {
	return carriesOut(g, now) && slices.ContainsFunc(g.Spec.Change, func(o planv1.Object) bool {
		return o.Kind == kind && o.Name == name && (o.Namespace == "" || o.Namespace == namespace)
	})
}

// settling is how long after the change a guard holds at least: until then, controllers
// may not have seen the change, and nothing shows what they will do.
const settling = 30 * time.Second

// Settled is when a guard can end at the earliest; zero if the change was not sent.
func Settled(g *planv1.PlanGuard) time.Time {
	if g.Status.Sent.IsZero() {
		return time.Time{}
	}
	return g.Status.Sent.Add(settling)
}

// Done reports whether the plan has been carried out: its end was Reached, and no
// controller can have missed the change.
func Done(g *planv1.PlanGuard, machines []*clusterv1.Machine, now time.Time) bool {
	return g.Spec.Cluster == nil || !g.Status.Sent.IsZero() && !now.Before(Settled(g)) && Reached(g, machines)
}

// Ended reports whether the plan of a guard has ended: carried out, too late, or none. One
// that holds something back ends when a user releases it.
func Ended(g *planv1.PlanGuard, machines func() []*clusterv1.Machine, now time.Time) bool {
	return !carriesOut(g, now) || len(g.Status.Held) == 0 && Done(g, machines(), now)
}

// Reached reports whether the Machines are as the plan leaves them: what it deletes does
// not exist any longer, each owner has as many Machines as it foresees, and all are up to
// date. Of a plan that ends blocked, as many as it foresees can still be out of date or
// being deleted.
func Reached(g *planv1.PlanGuard, machines []*clusterv1.Machine) bool {
	now := map[string]planv1.Group{}
	for _, m := range machines {
		of := now[outcome.Owner(m)]
		of.Then++
		p := machine(g, m)
		switch {
		case !m.DeletionTimestamp.IsZero():
			of.Deleting++
		case p != nil && (p.Action == planv1.Replaced || p.Action == planv1.Deleted):
			return false
		case outcome.OutOfDate(m):
			of.OutOfDate++
		}
		now[outcome.Owner(m)] = of
	}
	for _, of := range g.Spec.Cluster.Groups {
		is := now[of.Owner]
		if is.Then != of.Then || is.Deleting > of.Deleting || is.OutOfDate > of.OutOfDate {
			return false
		}
		delete(now, of.Owner)
	}
	for _, unknown := range now {
		if unknown.Deleting+unknown.OutOfDate > 0 {
			return false
		}
	}
	return true
}

// Next is what the Cluster controller does with a guard. The zero value leaves it.
type Next struct {
	// Delete deletes it.
	Delete bool
	// Spec must be stored, in a new guard if there is none; nil for none.
	Spec *planv1.PlanGuardSpec
	// Ended is the reason of an event about a plan that ends, and Message its text.
	Ended, Message string
}

// Decide decides about the guard of a Cluster, which is nil if there is none.
func Decide(g *planv1.PlanGuard, required bool, machines func() []*clusterv1.Machine, now time.Time) (n Next) {
	if g == nil {
		if required {
			n.Spec = &planv1.PlanGuardSpec{Required: true}
		}
		return n
	}
	switch {
	case !g.DeletionTimestamp.IsZero():
		return n
	case g.Spec.Plan != "" && !now.Before(g.Spec.Deadline.Time):
		n.Ended, n.Message = "PlanExpired", fmt.Sprintf("The deadline of plan %s has passed before it was carried out", g.Spec.Plan)
	case g.Spec.Plan != "" && Ended(g, machines, now):
		n.Ended, n.Message = "PlanCarriedOut", fmt.Sprintf("Plan %s has been carried out", g.Spec.Plan)
	case g.Spec.Plan == "" && !required:
		n.Delete = true
		return n
	}
	switch {
	case n.Ended != "" && !required:
		n.Delete = true
	case n.Ended != "": // without a plan it holds everything
		n.Spec = &planv1.PlanGuardSpec{Required: true}
	case g.Spec.Required != required:
		n.Spec = g.Spec.DeepCopy()
		n.Spec.Required = required
	}
	return n
}

// Deadline is when time alone changes what Decide decides; zero if it does not.
func Deadline(g *planv1.PlanGuard, now time.Time) time.Time {
	if g == nil || g.Spec.Plan == "" {
		return time.Time{}
	}
	if at := Settled(g); now.Before(at) {
		return at
	}
	return g.Spec.Deadline.Time
}

// Hold adds a refusal to those of a guard, and reports whether it was not among them.
// The oldest ones are dropped.
func Hold(s *planv1.PlanGuardStatus, h planv1.Held) bool {
	if slices.ContainsFunc(s.Held, func(was planv1.Held) bool {
		return was.Kind == h.Kind && was.Name == h.Name && was.UID == h.UID && was.User == h.User && was.What == h.What
	}) {
		return false
	}
	h.Why = strings.ToValidUTF8(h.Why[:min(len(h.Why), maxWhy)], "")
	s.Held = append(s.Held, h)
	s.Held = s.Held[max(0, len(s.Held)-maxHeld):]
	return true
}

// Condition is PlanHeldCondition of a Cluster, and false if it has none. Refusals about
// Machines that do not exist any longer are left out.
func Condition(g *planv1.PlanGuard, machines func() []*clusterv1.Machine, now time.Time) (metav1.Condition, bool) {
	if !Holds(g, now) {
		return metav1.Condition{}, false
	}
	var lines []string
	for _, h := range g.Status.Held {
		gone := h.Kind == "Machine" && !slices.ContainsFunc(machines(), func(m *clusterv1.Machine) bool { return m.UID == h.UID })
		if !gone {
			lines = append(lines, "* "+Sentence(g, h))
		}
	}
	switch {
	case len(lines) > 0 && carriesOut(g, now):
		return conditions.New(planv1.PlanHeldCondition, metav1.ConditionFalse, planv1.NotInPlanReason, strings.Join(lines, "\n")), true
	case len(lines) > 0:
		return conditions.New(planv1.PlanHeldCondition, metav1.ConditionFalse, planv1.PlanRequiredReason, strings.Join(lines, "\n")), true
	case carriesOut(g, now):
		return conditions.New(planv1.PlanHeldCondition, metav1.ConditionTrue, planv1.CarryingOutReason,
			fmt.Sprintf("Plan %s is being carried out until %s: no other Machine is deleted", g.Spec.Plan, g.Spec.Deadline.UTC().Format(time.RFC3339))), true
	}
	return metav1.Condition{}, false
}

// Sentence says what was refused, why it was requested, and what a user can do.
func Sentence(g *planv1.PlanGuard, h planv1.Held) string {
	text := fmt.Sprintf("%s %s is not %s", h.Kind, h.Name, h.What)
	if h.Why != "" {
		text += " (" + h.Why + ")"
	}
	return fmt.Sprintf("%s, as %s requested at %s: %s", text, h.User, h.At.UTC().Format(time.RFC3339), Missing(g))
}

// Missing says that something is not in the plan, and what a user can do.
func Missing(g *planv1.PlanGuard) string {
	switch {
	case g.Spec.Plan != "":
		return fmt.Sprintf("plan %s, which is being carried out, does not have that; `capstan apply --release cluster/%s -n %s` ends the plan", g.Spec.Plan, g.Name, g.Namespace)
	default:
		return fmt.Sprintf("Cluster %s requires a plan (annotation %s): save one with `capstan plan --save FILE`, and carry it out with `capstan apply FILE`", g.Name, planv1.RequirePlanAnnotation)
	}
}

// harmless are the fields whose change neither deletes nor replaces a Machine: they are
// changed in place, or say how Machines are replaced for another reason.
var harmless = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^spec\.((template|machineTemplate)\.metadata|((template|machineTemplate)\.spec\.)?(deletion|readinessGates|taints|minReadySeconds)|paused|remediation|machineNaming` +
		`|topology\.(controlPlane|workers\.(machineDeployments|machinePools)\[[^\]]*\])\.(metadata|deletion|readinessGates|taints|minReadySeconds))($|[.\[])`)
})

// Replaces returns the fields of a change that can delete or replace Machines. Of a
// Cluster, only its topology can. Of a change of so many fields that not all are
// listed, any can.
func Replaces(kind string, fields []planv1.Field) (paths []string) {
	part := "spec"
	if kind == "Cluster" {
		part = "spec.topology"
	}
	for _, f := range fields {
		if strings.HasPrefix(f.Path, part) && !harmless().MatchString(f.Path) && (!strings.HasSuffix(f.Path, ".replicas") || fewer(f)) {
			paths = append(paths, f.Path)
		}
	}
	if len(paths) == 0 && len(fields) >= outcome.MaxFields {
		paths = []string{part}
	}
	return paths
}

// fewer reports whether a number of replicas decreases, or may.
func fewer(f planv1.Field) bool {
	var from, to int
	if _, err := fmt.Sscan(f.From, &from); err != nil {
		return false // the field was not set: nothing had set the number
	}
	if _, err := fmt.Sscan(f.To, &to); err != nil {
		return true
	}
	return to < from
}
