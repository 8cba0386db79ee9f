// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Types of facts that no condition reports.
const (
	typeMissing  = "Missing"
	typePaused   = "Paused"
	typeHook     = "Hook"
	typeQuota    = "Quota"
	typeWarning  = "Warning"
	typeContract = "Contract"
	typeProvider = "Provider"
	typeDeleting = clusterv1.DeletingCondition
)

// finding is a condition, or a fact in the same form, that needs attention.
type finding = metav1.Condition

// node is a finding of an object that the walk has reached.
type node struct {
	*finding
	object   *Object
	parent   *node // the first that depends on it; nil for one of the start
	apart    bool  // the pause of a part of the Cluster of which nothing else is wrong
	depth    int
	children []*node
	into     []*node // all that depend on it
	live     int     // children that are not pruned
	pruned   bool
}

func (n *node) link() Link {
	l := Link{Object: n.object.Key, Condition: n.Type, Status: n.Status, Reason: n.Reason, Message: n.Message}
	if !n.LastTransitionTime.IsZero() {
		l.Since = &n.LastTransitionTime
	}
	return l
}

// walk is a graph of findings that grows from those of one object.
type walk struct {
	byKey    map[Key]*Object
	owned    map[string][]*Object // by the UID of the owner
	byUID    map[string]*Object
	users    map[Key][]*Object // objects that refer to an object
	roles    map[Key]string
	kinds    map[string][]*Object
	cluster  *Object
	findings map[*Object][]*finding
	reached  map[*finding]*node
	nodes    []*node
}

func newWalk(objects []Object) *walk {
	w := &walk{
		byKey: map[Key]*Object{}, owned: map[string][]*Object{}, byUID: map[string]*Object{}, users: map[Key][]*Object{},
		roles: map[Key]string{}, kinds: map[string][]*Object{}, findings: map[*Object][]*finding{}, reached: map[*finding]*node{},
	}
	for i := range objects {
		o := &objects[i]
		w.byKey[o.Key] = o
		w.kinds[o.Kind] = append(w.kinds[o.Kind], o)
		if o.UID != "" {
			w.byUID[o.UID] = o
		}
		for _, owner := range o.Owners {
			w.owned[owner] = append(w.owned[owner], o)
		}
		for _, ref := range o.Refs {
			w.users[ref.To] = append(w.users[ref.To], o)
			if role := roleOf[ref.Field]; role != "" && !strings.HasSuffix(ref.To.Kind, "Template") {
				w.roles[ref.To] = role
			}
		}
	}
	if clusters := w.kinds[clusterv1.ClusterKind]; len(clusters) == 1 {
		w.cluster = clusters[0]
	}
	return w
}

// roleOf is the role of the object that a field refers to.
var roleOf = map[string]string{
	fieldControlPlane:           roleControlPlane,
	fieldBootstrap:              roleBootstrap,
	fieldTemplateInfrastructure: roleInfrastructure, // of a MachinePool
	fieldTemplateBootstrap:      roleBootstrap,
	fieldInfrastructure:         roleInfrastructure, // of a Cluster or Machine
}

// Fields with references.
const (
	fieldInfrastructure         = "spec.infrastructureRef"
	fieldControlPlane           = "spec.controlPlaneRef"
	fieldBootstrap              = "spec.bootstrap.configRef"
	fieldTemplateInfrastructure = "spec.template.spec.infrastructureRef"
	fieldTemplateBootstrap      = "spec.template.spec.bootstrap.configRef"
	fieldMachineTemplate        = "spec.machineTemplate.spec.infrastructureRef"
	fieldClass                  = "spec.topology.classRef"
	fieldSets                   = "spec.bindings"
)

// Roles of objects in the table of edges. Objects without one of these have their kind.
const (
	roleControlPlane   = "control plane"
	roleInfrastructure = "infrastructure"
	roleBootstrap      = "bootstrap"
)

func (w *walk) role(o *Object) string {
	if role := w.roles[o.Key]; role != "" {
		return role
	}
	return o.Kind
}

// from adds the findings of the start and all that they depend on, breadth first, so that
// chains are as short as possible.
func (w *walk) from(start *Object) {
	all := w.of(start)
	if len(all) == 0 {
		all = conditionsOf(start, outdated)
	}
	for _, f := range all {
		if f.Type != typeWarning {
			w.reach(nil, start, f)
		}
	}
	for i := 0; i < len(w.nodes); i++ {
		w.expand(w.nodes[i])
	}
	if start == w.cluster {
		w.reachUnreported()
	}
	for _, n := range w.nodes {
		n.apart = n.Type == typePaused && n.object != start && n.object.Group == clusterv1.GroupVersion().Group && len(w.of(n.object)) == 1 &&
			(n.parent == nil || n.parent.object == w.cluster)
	}
}

// reachUnreported adds what no condition of the Cluster reports: ClusterResourceSets that
// are not applied to it, and objects that are paused, whose conditions do not report what
// they would do otherwise.
func (w *walk) reachUnreported() {
	for _, o := range unapplied(w, nil) {
		if f := find(w.of(o), addonsv1.ClusterResourceSetResourcesAppliedCondition); f != nil {
			w.reach(nil, o, f)
		}
	}
	if w.cluster.Paused != "" {
		return // and with it all that belongs to it
	}
	for _, o := range w.byKey {
		if o.Paused != "" {
			w.reach(nil, o, find(w.of(o), typePaused))
		}
	}
}

// since is when a finding started; that of a fact without a time is when a condition that
// depends on it did.
func (n *node) since() metav1.Time {
	for n.LastTransitionTime.IsZero() && n.parent != nil {
		n = n.parent
	}
	return n.LastTransitionTime
}

func (w *walk) reach(parent *node, o *Object, f *finding) {
	n := w.reached[f]
	if n == nil {
		n = &node{finding: f, object: o, parent: parent}
		if parent != nil {
			n.depth = parent.depth + 1
		}
		w.reached[f] = n
		w.nodes = append(w.nodes, n)
	}
	// All edges of a node are followed before those of another.
	if parent != nil && n != parent && (len(n.into) == 0 || n.into[len(n.into)-1] != parent) {
		parent.children = append(parent.children, n)
		parent.live++
		n.into = append(n.into, parent)
	}
}

func (w *walk) expand(n *node) {
	role := w.role(n.object)
	for i := range edges {
		e := &edges[i]
		if !e.matches(role, n) {
			continue
		}
		for _, to := range e.to(w, n) {
			for _, f := range w.of(to) {
				if e.leads(n, f) {
					w.reach(n, to, f)
				}
			}
		}
	}
}

// prune removes conditions that report progress and depend on nothing that is stuck. It
// returns those that are stuck and depend on nothing, and those that it removed.
func (w *walk) prune() (stuck, moving []*node) {
	queue := slices.Clone(w.nodes)
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		if n.pruned || n.live > 0 || !inProgress(n) {
			continue
		}
		n.pruned = true
		moving = append(moving, n)
		for _, m := range n.into {
			m.live--
			queue = append(queue, m)
		}
	}
	for _, n := range w.nodes {
		if !n.pruned && n.live == 0 {
			stuck = append(stuck, n)
		}
	}
	explained := map[*node]bool{}
	explain := func(n *node) {
		for queue = []*node{n}; len(queue) > 0; queue = queue[1:] {
			if m := queue[0]; !explained[m] {
				explained[m] = true
				queue = append(queue, m.into...)
			}
		}
	}
	for _, n := range stuck {
		explain(n)
	}
	for _, certain := range []bool{true, false} { // the furthest of conditions that depend on each other
		for _, n := range slices.Backward(w.nodes) {
			if !n.pruned && !explained[n] && w.certain(n) == certain {
				stuck = append(stuck, n)
				explain(n)
			}
		}
	}
	return stuck, moving
}

// of returns the findings of an object.
func (w *walk) of(o *Object) []*finding {
	all, ok := w.findings[o]
	if !ok {
		all = append(findingsOf(o), w.providing(o)...)
		w.findings[o] = all
	}
	return all
}

func fact(t, reason, message string) *finding {
	return &finding{Type: t, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func findingsOf(o *Object) []*finding {
	if o.Missing {
		return []*finding{fact(typeMissing, "NotFound", o.String()+" does not exist")}
	}
	all := conditionsOf(o, nil)
	if o.Paused != "" {
		by := ""
		if o.Mover != "" {
			by = " by " + o.Mover
		}
		paused := fact(typePaused, "Paused", o.Paused+" is set on "+o.String()+by)
		all = slices.DeleteFunc(all, func(f *finding) bool {
			if f.Type == clusterv1.PausedCondition {
				paused.LastTransitionTime = f.LastTransitionTime
			}
			return f.Type == clusterv1.PausedCondition
		})
		all = append(all, paused)
	}
	if topology := find(all, clusterv1.ClusterTopologyReconciledCondition); topology != nil && says(topology, "hooks are blocking", clusterv1.ClusterTopologyReconciledHookBlockingReason) {
		hook := fact(typeHook, "HookBlocking", line(topology.Message, "hooks are blocking"))
		hook.LastTransitionTime = topology.LastTransitionTime
		all = append(all, hook)
	}
	if o.Deleted != nil {
		all = deletionOf(o, all)
	}
	for _, limit := range o.Exhausted {
		all = append(all, fact(typeQuota, limit, fmt.Sprintf("the limit of %s is used up", limit)))
	}
	for _, warning := range o.Warnings {
		f := fact(typeWarning, warning.Reason, warning.Message)
		f.LastTransitionTime = warning.Last
		all = append(all, f)
	}
	return all
}

// deletionOf returns the findings of an object that is being deleted: those that only report
// what its deletion has ended are left out.
func deletionOf(o *Object, all []*finding) []*finding {
	deleting := find(all, typeDeleting)
	if deleting == nil {
		deleting = fact(typeDeleting, "DeletionRequested", "")
		deleting.LastTransitionTime = *o.Deleted
		all = append(all, deleting)
	}
	if deleting.Reason == "DeletionRequested" || deleting.Reason == completed {
		text := *deleting
		text.Message = cmp.Or(deleting.Message, "Deletion was requested") + "; finalizers: " + strings.Join(o.Finalizers, ", ")
		all[slices.Index(all, deleting)] = &text
	}
	ends := says(deleting, clusterv1.ClusterDeletingWaitingForControlPlaneDeletionReason, clusterv1.ClusterDeletingWaitingForInfrastructureDeletionReason,
		clusterv1.MachineDeletingWaitingForBootstrapDeletionReason, clusterv1.MachineDeletingDeletingNodeReason, completed)
	return slices.DeleteFunc(all, func(f *finding) bool {
		return f.Reason == clusterv1.ObjectDeletedReason || f.Reason == clusterv1.ObjectDoesNotExistReason || ends && slices.Contains(inside, f.Type)
	})
}

// conditionsOf returns the conditions of an object that need attention: of the types, or
// all but those that only repeat others.
func conditionsOf(o *Object, types []string) (all []*finding) {
	var summaries []*finding
	for i := range o.Conditions {
		c := &o.Conditions[i]
		good := metav1.ConditionTrue
		if slices.Contains(negative, c.Type) {
			good = metav1.ConditionFalse
		}
		switch {
		case c.Status == good, types == nil && slices.Contains(outdated, c.Type), types != nil && !slices.Contains(types, c.Type):
		case slices.Contains(summary, c.Type):
			summaries = append(summaries, c)
		default:
			all = append(all, c)
		}
	}
	stuck := slices.ContainsFunc(all, func(f *finding) bool { return !slices.Contains(negative, f.Type) || f.Type == typeDeleting })
	if len(summaries) > 0 && !stuck {
		all = append(all, summaries[0])
	}
	return all
}

func find(all []*finding, t string) *finding {
	for _, f := range all {
		if f.Type == t {
			return f
		}
	}
	return nil
}

// line is the line of a message that contains a text.
func line(message, text string) string {
	for l := range strings.Lines(message) {
		if strings.Contains(l, text) {
			return strings.TrimPrefix(strings.TrimSpace(l), "* ")
		}
	}
	return message
}
