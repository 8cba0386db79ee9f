// SPDX-License-Identifier: Apache-2.0

// Package tree arranges the objects of one Cluster as the tree that users think in:
// infrastructure, control plane, workers, and their machines.
//
// It is pure: the caller reads the objects, Build arranges them, and the program that
// shows the tree (describe, a console) renders it.
package tree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Counters are the replica counts of an object; a nil one is not reported.
type Counters struct {
	Desired   *int32 `json:"desired,omitempty"`
	Current   *int32 `json:"current,omitempty"`
	Ready     *int32 `json:"ready,omitempty"`
	Available *int32 `json:"available,omitempty"`
	UpToDate  *int32 `json:"upToDate,omitempty"`
}

// Object is what the tree shows of one object.
type Object struct {
	Kind       string                  `json:"kind"`
	Namespace  string                  `json:"namespace"`
	Name       string                  `json:"name"`
	UID        string                  `json:"uid"`
	Created    metav1.Time             `json:"created"`
	Deleted    *metav1.Time            `json:"deleted,omitempty"`
	Labels     map[string]string       `json:"labels,omitempty"`
	Owners     []metav1.OwnerReference `json:"owners,omitempty"`
	Conditions []metav1.Condition      `json:"conditions,omitempty"`
	Replicas   Counters                `json:"replicas,omitzero"`
	Version    string                  `json:"version,omitempty"` // of Kubernetes, as desired
	Paused     bool                    `json:"paused,omitempty"`
}

// Condition returns the condition of a type, or nil.
func (o *Object) Condition(conditionType string) *metav1.Condition {
	for i := range o.Conditions {
		if o.Conditions[i].Type == conditionType {
			return &o.Conditions[i]
		}
	}
	return nil
}

// Machine is a Machine or a MachinePool with the objects it refers to; either may
// be nil.
type Machine struct {
	Object
	Infrastructure, Bootstrap *Object
}

// Input is everything that belongs to one Cluster.
type Input struct {
	Cluster            Object
	Class              *Object // nil if it has none
	Infrastructure     *Object
	ControlPlane       *Object
	MachineDeployments []Object
	MachineSets        []Object
	MachinePools       []Machine
	ResourceSets       []Object // those that were applied to it
	HealthChecks       []Object
	Machines           []Machine
	Templates          map[string][]Object // templates, by UID of the object that refers to them
}

// Objects are all objects of the Input.
func (in *Input) Objects() []*Object {
	all := []*Object{&in.Cluster, in.Class, in.Infrastructure, in.ControlPlane}
	several := [][]Object{in.MachineDeployments, in.MachineSets, in.HealthChecks, in.ResourceSets}
	for _, objects := range slices.AppendSeq(several, maps.Values(in.Templates)) {
		for i := range objects {
			all = append(all, &objects[i])
		}
	}
	for _, machines := range [][]Machine{in.MachinePools, in.Machines} {
		for i := range machines {
			all = append(all, &machines[i].Object, machines[i].Infrastructure, machines[i].Bootstrap)
		}
	}
	return slices.DeleteFunc(all, func(o *Object) bool { return o == nil })
}

// Options choose what the tree shows beyond the quiet default.
type Options struct {
	ShowMachineSets  bool
	ShowResourceSets bool
	ShowTemplates    bool
	// Echo shows infrastructure and bootstrap objects of machines also when they report
	// nothing that the machine does not report.
	Echo bool
	// Grouping combines machines of one version with the same conditions into one row,
	// except those that Alone, if set, excludes.
	Grouping bool
	Alone    func(*Object) bool
}

// Node is one row of the tree, with the rows below it. Its JSON is what
// programs read.
type Node struct {
	// Title is what the row is called, such as "Cluster/demo" or "3 Machines...".
	Title string `json:"title"`
	// Role is what the object is to its parent, such as "ControlPlane"; it may be "".
	Role string `json:"role,omitempty"`
	// Object is nil for rows that only hold others, such as "Workers".
	Object *Object `json:"object,omitempty"`
	// Members are the names of the objects that a group row represents.
	Members  []string `json:"members,omitempty"`
	Children []*Node  `json:"children,omitempty"`
}

// Build arranges the objects. Siblings are ordered by name.
func Build(in Input, o Options) *Node {
	b := builder{in: in, o: o, used: map[string]bool{}}
	for _, machines := range [][]Machine{in.MachinePools, in.Machines} {
		slices.SortFunc(machines, func(x, y Machine) int { return cmp.Compare(x.Name, y.Name) })
	}
	root := b.node("", &in.Cluster)
	if in.Class != nil {
		root.add(b.node("", in.Class))
	}
	if in.Infrastructure != nil {
		root.add(b.node("ClusterInfrastructure", in.Infrastructure))
	}
	if o.ShowResourceSets && len(in.ResourceSets) > 0 {
		sets := &Node{Title: "ClusterResourceSets"}
		for i := range sorted(in.ResourceSets) {
			sets.add(b.node("", &in.ResourceSets[i]))
		}
		root.add(sets)
	}
	if in.ControlPlane != nil {
		root.add(b.controlPlane())
	}
	if workers := b.workers(); len(workers.Children) > 0 {
		root.add(workers)
	}
	if other := b.others(); len(other.Children) > 0 {
		root.add(other)
	}
	for i := range sorted(in.HealthChecks) {
		root.add(b.node("", &in.HealthChecks[i]))
	}
	return root
}

type builder struct {
	in   Input
	o    Options
	used map[string]bool // machines already in the tree, by name
}

func (n *Node) add(children ...*Node) { n.Children = append(n.Children, children...) }

func (b *builder) node(role string, o *Object) *Node {
	n := &Node{Title: o.Kind + "/" + o.Name, Role: role, Object: o}
	if !b.o.ShowTemplates {
		return n
	}
	for i := range b.in.Templates[o.UID] {
		t := &b.in.Templates[o.UID][i]
		n.add(&Node{Title: t.Kind + "/" + t.Name, Role: "Template", Object: t})
	}
	return n
}

func (b *builder) controlPlane() *Node {
	cp := b.in.ControlPlane
	n := b.node("ControlPlane", cp)
	n.add(b.machines(func(m *Machine) bool { return ownedBy(&m.Object, cp) })...)
	return n
}

func (b *builder) workers() *Node {
	workers := &Node{Title: "Workers"}
	for i := range sorted(b.in.MachineDeployments) {
		md := &b.in.MachineDeployments[i]
		n := b.node("", md)
		for j := range sorted(b.in.MachineSets) {
			if set := &b.in.MachineSets[j]; ownedBy(set, md) {
				under := n
				if b.o.ShowMachineSets {
					under = b.node("", set)
					n.add(under)
				}
				under.add(b.machines(func(m *Machine) bool { return ownedBy(&m.Object, set) })...)
			}
		}
		n.Children = b.regroup(n.Children)
		workers.add(n)
	}
	for i := range b.in.MachinePools {
		mp := &b.in.MachinePools[i]
		n := b.member(mp, "MachinePoolInfrastructure")
		n.add(b.machines(func(m *Machine) bool { return ownedBy(&m.Object, &mp.Object) })...)
		workers.add(n)
	}
	return workers
}

func (b *builder) others() *Node {
	other := &Node{Title: "Other"}
	for i := range sorted(b.in.MachineSets) {
		if set := &b.in.MachineSets[i]; !slices.ContainsFunc(set.Owners, func(r metav1.OwnerReference) bool { return r.Kind == "MachineDeployment" }) {
			n := b.node("", set)
			n.add(b.machines(func(m *Machine) bool { return ownedBy(&m.Object, set) })...)
			other.add(n)
		}
	}
	other.add(b.machines(func(m *Machine) bool { return !b.used[m.Name] })...)
	return other
}

// machines returns the rows of the machines that match.
func (b *builder) machines(match func(*Machine) bool) []*Node {
	var rows []*Node
	for i := range b.in.Machines {
		m := &b.in.Machines[i]
		if b.used[m.Name] || !match(m) {
			continue
		}
		b.used[m.Name] = true
		rows = append(rows, b.member(m, "MachineInfrastructure"))
	}
	return b.regroup(rows)
}

// member is the row of a Machine or MachinePool with what it is made of.
func (b *builder) member(m *Machine, infrastructure string) *Node {
	n := b.node("", &m.Object)
	if m.Infrastructure != nil && b.worthShowing(m, m.Infrastructure) {
		n.add(b.node(infrastructure, m.Infrastructure))
	}
	if m.Bootstrap != nil && b.worthShowing(m, m.Bootstrap) {
		n.add(b.node("BootstrapConfig", m.Bootstrap))
	}
	return n
}

// worthShowing hides an object of a machine that is ready, or that reports no more than
// the machine itself.
func (b *builder) worthShowing(m *Machine, o *Object) bool {
	if b.o.Echo {
		return true
	}
	theirs, ours := o.Condition(clusterv1.ReadyCondition), m.Condition(clusterv1.ReadyCondition)
	if theirs == nil {
		return false
	}
	if theirs.Status == metav1.ConditionTrue {
		return false
	}
	return ours == nil || ours.Status != theirs.Status || ours.Reason != theirs.Reason
}

// regroup combines rows of machines with the same conditions into one.
func (b *builder) regroup(rows []*Node) []*Node {
	if !b.o.Grouping {
		return rows
	}
	var out []*Node
	groups := map[string]*Node{}
	for _, row := range rows {
		if row.Object == nil || row.Object.Kind != "Machine" || len(row.Children) > 0 || b.o.Alone != nil && b.o.Alone(row.Object) {
			out = append(out, row)
			continue
		}
		key := saying(row.Object)
		g := groups[key]
		if g == nil {
			groups[key] = row
			row.Members = row.members()
			out = append(out, row)
			continue
		}
		g.Members = append(g.Members, row.members()...)
	}
	for _, row := range out {
		if len(row.Members) > 1 {
			row.Title = fmt.Sprintf("%d Machines...", len(row.Members))
		}
	}
	return out
}

// members are the names of the machines that the row represents.
func (n *Node) members() []string {
	if len(n.Members) > 0 {
		return n.Members
	}
	return []string{n.Object.Name}
}

// saying is what must be equal for machines to share a row.
func saying(o *Object) string {
	var s strings.Builder
	for _, t := range []string{clusterv1.AvailableCondition, clusterv1.ReadyCondition, clusterv1.MachineUpToDateCondition} {
		if c := o.Condition(t); c != nil {
			fmt.Fprintf(&s, "%s=%s/%s ", t, c.Status, c.Reason)
		}
	}
	fmt.Fprintf(&s, "deleting=%t paused=%t %s", o.Deleted != nil, o.Paused, o.Version)
	return s.String()
}

func ownedBy(o, owner *Object) bool {
	return slices.ContainsFunc(o.Owners, func(r metav1.OwnerReference) bool { return r.Kind == owner.Kind && r.Name == owner.Name })
}

func sorted(objects []Object) []Object {
	slices.SortFunc(objects, func(a, b Object) int { return cmp.Compare(a.Name, b.Name) })
	return objects
}
