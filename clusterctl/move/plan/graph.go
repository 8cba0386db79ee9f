// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// node is one object of a graph.
type node struct {
	obj    *unstructured.Unstructured
	kind   Kind
	owners []*node // by reference; those that were not found are left out
	soft   []*node // owners without a reference
	used   string  // of a class: a Cluster that uses it and does not move
	moves  bool
	group  int
}

func (n *node) is(kind schema.GroupKind) bool { return n.kind.GroupKind() == kind }

func (n *node) parents() []*node { return slices.Concat(n.owners, n.soft) }

// graph is the objects that were found, with their relations.
type graph struct {
	namespace string
	nodes     []*node
	byUID     map[types.UID]*node
}

// Kinds with separate rules in a plan.
var (
	secrets    = schema.GroupKind{Kind: "Secret"}
	configMaps = schema.GroupKind{Kind: "ConfigMap"}
	providers  = schema.GroupKind{Group: clusterctlv1.GroupVersion().Group, Kind: "Provider"}
)

// Clusters is the kind of Clusters.
func Clusters() schema.GroupKind {
	return schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: "Cluster"}
}

// ClusterClasses is the kind of ClusterClasses.
func ClusterClasses() schema.GroupKind {
	return schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: "ClusterClass"}
}

func newGraph(in Input) *graph {
	g := &graph{namespace: in.Namespace, byUID: map[types.UID]*node{}}
	for _, obj := range in.Objects {
		if g.byUID[obj.GetUID()] != nil {
			continue
		}
		n := &node{obj: obj, kind: in.Kinds[obj.GroupVersionKind().GroupKind()]}
		g.byUID[obj.GetUID()] = n
		g.nodes = append(g.nodes, n)
	}
	slices.SortFunc(g.nodes, func(a, b *node) int { return cmp.Compare(Name(a.obj), Name(b.obj)) })
	for _, n := range g.nodes {
		for _, ref := range n.obj.GetOwnerReferences() {
			if o := g.byUID[ref.UID]; o != nil {
				n.owners = append(n.owners, o)
			}
		}
	}
	g.soften(in)
	for _, n := range g.nodes {
		n.moves = in.All || forced(n) || reaches(n, isRoot, (*node).parents) != nil
	}
	return g
}

// soften finds relations without a reference.
func (g *graph) soften(in Input) {
	classes, bindings, free := map[types.NamespacedName]*node{}, map[types.NamespacedName]*node{}, map[string][]*node{}
	for _, n := range g.nodes {
		k := keyOf(n.obj)
		switch {
		case n.is(ClusterClasses()):
			classes[k] = n
		case n.kind.Kind == "ClusterResourceSetBinding":
			bindings[k] = n
		case n.is(secrets) && len(n.obj.GetOwnerReferences()) == 0:
			free[k.Namespace] = append(free[k.Namespace], n)
		}
	}
	for _, n := range g.nodes {
		if !n.is(Clusters()) {
			continue
		}
		if class := classes[ClassOf(n.obj)]; class != nil {
			n.soft = append(n.soft, class)
		}
		if b := bindings[keyOf(n.obj)]; b != nil {
			b.soft = append(b.soft, n)
		}
		for _, s := range free[n.obj.GetNamespace()] {
			if in.CertificateOf(n.obj.GetName(), s.obj.GetName()) {
				s.soft = append(s.soft, n)
			}
		}
	}
	for _, c := range in.Clusters {
		if class := classes[ClassOf(c)]; class != nil && g.byUID[c.GetUID()] == nil {
			class.used = Name(c)
		}
	}
}

func keyOf(obj *unstructured.Unstructured) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// ClassOf returns the class of a Cluster; it is empty if the Cluster has none.
func ClassOf(cluster *unstructured.Unstructured) (class types.NamespacedName) {
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(cluster.Object, append([]string{"spec", "topology"}, fields...)...)
		return s
	}
	// v1beta1 has it next to the reference.
	class.Name = cmp.Or(text("classRef", "name"), text("class"))
	if class.Name != "" {
		class.Namespace = cmp.Or(text("classRef", "namespace"), text("classNamespace"), cluster.GetNamespace())
	}
	return class
}

// forced reports whether a label requires an object to move.
func forced(n *node) bool {
	_, labelled := n.obj.GetLabels()[clusterctlv1.ClusterctlMoveLabel]
	return labelled || n.kind.Move
}

// isRoot reports whether what an object owns moves with it.
func isRoot(n *node) bool {
	_, labelled := n.obj.GetLabels()[clusterctlv1.ClusterctlMoveHierarchyLabel]
	return labelled || n.kind.Hierarchy || n.is(Clusters()) || n.is(ClusterClasses()) || n.kind.Kind == "ClusterResourceSet" && n.kind.Group == "addons.cluster.x-k8s.io"
}

// reaches returns an object for which is returns true, among one and those above it.
// Cycles are allowed: each object is visited once.
func reaches(n *node, is func(*node) bool, above func(*node) []*node) *node {
	seen := map[*node]bool{n: true}
	for next := []*node{n}; len(next) > 0; next = next[1:] {
		if is(next[0]) {
			return next[0]
		}
		for _, o := range above(next[0]) {
			if !seen[o] {
				seen[o] = true
				next = append(next, o)
			}
		}
	}
	return nil
}

// global returns the object that makes another one belong to the whole management
// cluster: itself, or one that owns it.
func (g *graph) global(n *node) *node {
	return reaches(n, func(o *node) bool { return !o.kind.Namespaced }, func(o *node) []*node { return o.owners })
}

// keep returns the reason why an object stays at the source.
func (g *graph) keep(n *node) string {
	switch by := g.global(n); {
	case by == n:
		return "it is of the whole management cluster"
	case by != nil:
		return "it belongs to " + Name(by.obj) + ", which is of the whole management cluster"
	}
	class := reaches(n, func(o *node) bool { return o.used != "" }, func(o *node) []*node { return o.owners })
	if class == nil {
		return ""
	}
	return class.used + " uses " + Name(class.obj)
}

// left returns the reason why an object does not move; empty for an object that is not
// expected to move.
func (g *graph) left(n *node) string {
	refs := n.obj.GetOwnerReferences()
	kind, _, _ := unstructured.NestedString(n.obj.Object, "type")
	switch {
	case n.kind.Namespaced && n.obj.GetNamespace() != g.namespace:
		return "" // it was only read
	case n.is(configMaps) && n.obj.GetName() == "kube-root-ca.crt":
		return "every namespace is given its own"
	case n.is(providers):
		return "it says what is installed here"
	case n.is(secrets) && kind == "kubernetes.io/service-account-token":
		return "it is a token of a ServiceAccount here"
	case len(refs) > 0 && len(n.owners) == 0:
		return fmt.Sprintf("it belongs to %s %s, which does not move", refs[0].Kind, refs[0].Name)
	case len(n.owners) > 0:
		return "it belongs to " + Name(n.owners[0].obj) + ", which does not move"
	}
	return "no Cluster, ClusterClass or ClusterResourceSet owns it, and it has no label " + clusterctlv1.ClusterctlMoveLabel
}

// arrange assigns its group to each object that moves.
func (g *graph) arrange() error {
	waits, after := map[*node]int{}, map[*node][]*node{}
	var ready []*node
	for _, n := range g.nodes {
		if !n.moves {
			continue
		}
		for _, o := range n.parents() {
			if o.moves {
				waits[n]++
				after[o] = append(after[o], n)
			}
		}
		if waits[n] == 0 {
			ready = append(ready, n)
		}
	}
	for ; len(ready) > 0; ready = ready[1:] {
		for _, n := range after[ready[0]] {
			n.group = max(n.group, ready[0].group+1)
			if waits[n]--; waits[n] == 0 {
				ready = append(ready, n)
			}
		}
	}
	for _, n := range g.nodes {
		if waits[n] > 0 {
			return &CycleError{circle(n, waits)}
		}
	}
	return nil
}

// circle follows the owners of an object that waits for itself, or for one that does.
func circle(n *node, waits map[*node]int) (names []string) {
	at := map[*node]int{}
	for {
		if begin, seen := at[n]; seen {
			return append(names[begin:], Name(n.obj))
		}
		at[n] = len(names)
		names = append(names, Name(n.obj))
		parents := n.parents()
		n = parents[slices.IndexFunc(parents, func(o *node) bool { return waits[o] > 0 })]
	}
}

// CycleError means that objects own each other.
type CycleError struct {
	// Circle starts and ends with the same object; each is owned by the next.
	Circle []string
}

func (e *CycleError) Error() string {
	return fmt.Sprintf("owner references go round in a circle: %s: take one of these ownerReferences away", strings.Join(e.Circle, " belongs to "))
}
