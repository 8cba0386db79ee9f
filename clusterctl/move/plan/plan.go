// SPDX-License-Identifier: Apache-2.0

// Package plan decides which objects a move transfers, in which order, and which ones it
// leaves behind and why. It is pure: package move reads the management clusters, and
// changes them.
//
// An object moves if a Cluster, ClusterClass or ClusterResourceSet owns it, directly or
// not; if it belongs to one by its name, as the certificates of a cluster do; or if it,
// one of its owners, or its CustomResourceDefinition has a label for it.
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
)

// Kind is one kind of object that may move.
type Kind struct {
	schema.GroupVersionKind `json:",inline"`
	// Resource is the plural name of the kind in the API.
	Resource string `json:"resource"`
	// Namespaced is false for kinds of the whole management cluster.
	Namespaced bool `json:"namespaced,omitempty"`
	// Move and Hierarchy mean that the definition has the label of that name, which then
	// applies to all objects of the kind.
	Move      bool `json:"move,omitempty"`
	Hierarchy bool `json:"hierarchy,omitempty"`
}

// Input is what a plan is computed from.
type Input struct {
	// Namespace is the one that moves.
	Namespace string
	Kinds     map[schema.GroupKind]Kind
	// Objects were found: those of the namespace and of the whole cluster, Secrets of
	// infrastructure providers, and classes that the Clusters use in other namespaces.
	Objects []*unstructured.Unstructured
	// Clusters are those of all namespaces, from which the plan computes whose classes
	// are still in use.
	Clusters []*unstructured.Unstructured
	// CertificateOf reports whether a Secret of that name holds a certificate, or the
	// kubeconfig, of a cluster.
	CertificateOf func(cluster, secret string) bool
	// All moves all objects: they were selected before.
	All bool
}

// Item is one object that moves.
type Item struct {
	Kind      Kind      `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"` // at the source
	// Group counts from 0: all owners of an object are in groups before its own.
	Group int `json:"group"`
	// Keep is the reason why the object stays at the source as well; empty for one that
	// is deleted there.
	Keep string `json:"keep,omitempty"`
	// Global objects are created if they are missing, and never changed.
	Global bool `json:"global,omitempty"`
}

// String names the object: "Secret default/demo-ca".
func (i Item) String() string { return name(i.Kind.Kind, i.Namespace, i.Name) }

// Of reports whether the item is of a kind.
func (i Item) Of(kind schema.GroupKind) bool { return i.Kind.GroupKind() == kind }

// Left is an object that does not move.
type Left struct{ Object, Why string }

// Plan is the result of planning a move.
type Plan struct {
	// Items are what moves, in the order in which it is created at the target.
	Items []Item `json:"items"`
	// Left are objects that stay behind.
	Left []Left `json:"-"`
	// Notes are additional information for the user.
	Notes []string `json:"-"`
}

// Groups returns the items that can be created at the same time, in order.
func (p *Plan) Groups() (groups [][]Item) {
	for _, i := range p.Items {
		for len(groups) <= i.Group {
			groups = append(groups, nil)
		}
		groups[i.Group] = append(groups[i.Group], i)
	}
	return groups
}

// Kinds are those of the items, in order.
func (p *Plan) Kinds() (kinds []Kind) {
	for _, i := range p.Items {
		if !slices.Contains(kinds, i.Kind) {
			kinds = append(kinds, i.Kind)
		}
	}
	return kinds
}

// Dropped compares a plan with the next one: stay are the items that moved, and stay at the
// source by the next one, left those that are no longer part of it.
func (p *Plan) Dropped(next *Plan) (stay, left *Plan) {
	moves := map[types.UID]Item{}
	for _, i := range next.Items {
		moves[i.UID] = i
	}
	stay, left = &Plan{}, &Plan{}
	for _, i := range p.Items {
		now, moves := moves[i.UID]
		if !moves {
			left.Items = append(left.Items, i)
		}
		if i.Keep == "" && (!moves || now.Keep != "") {
			stay.Items = append(stay.Items, i)
		}
	}
	return stay, left
}

// String is the plan for people. The steps are those of the copy; what moves is
// deleted at the source in their reverse order.
func (p *Plan) String() string {
	var out strings.Builder
	for n, group := range p.Groups() {
		fmt.Fprintf(&out, "Step %d:\n", n+1)
		for _, i := range group {
			fmt.Fprintf(&out, "  %s", i)
			if i.Keep != "" {
				fmt.Fprintf(&out, " (stays at the source too: %s)", i.Keep)
			}
			out.WriteByte('\n')
		}
	}
	if len(p.Items) == 0 {
		out.WriteString("Nothing to move.\n")
	}
	if len(p.Left) > 0 {
		out.WriteString("Left behind:\n")
	}
	for _, l := range p.Left {
		fmt.Fprintf(&out, "  %s: %s\n", l.Object, l.Why)
	}
	for _, note := range p.Notes {
		fmt.Fprintf(&out, "Note: %s\n", note)
	}
	return out.String()
}

func name(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// Name names an object as plans and errors do.
func Name(obj *unstructured.Unstructured) string {
	return name(obj.GetKind(), obj.GetNamespace(), obj.GetName())
}

// Make decides what moves. It returns an error if the objects cannot be ordered.
func Make(in Input) (*Plan, error) {
	g := newGraph(in)
	p := &Plan{}
	if err := g.arrange(); err != nil {
		return nil, err
	}
	for _, n := range g.nodes {
		if !n.moves {
			if why := g.left(n); why != "" {
				p.Left = append(p.Left, Left{Name(n.obj), why})
			}
			continue
		}
		item := Item{
			Kind: n.kind, Namespace: n.obj.GetNamespace(), Name: n.obj.GetName(), UID: n.obj.GetUID(), Group: n.group,
			Keep: g.keep(n), Global: g.global(n) != nil,
		}
		p.Items = append(p.Items, item)
		for _, ref := range n.obj.GetOwnerReferences() {
			if o := g.byUID[ref.UID]; o == nil || !o.moves {
				p.Notes = append(p.Notes, fmt.Sprintf("%s loses its owner %s %s, which does not move", item, ref.Kind, ref.Name))
			}
		}
	}
	slices.SortFunc(p.Items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind.Kind, b.Kind.Kind), cmp.Compare(a.Kind.Group, b.Kind.Group),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(p.Left, func(a, b Left) int { return cmp.Compare(a.Object, b.Object) })
	slices.Sort(p.Notes)
	return p, nil
}

// KindOf is the kind that a CustomResourceDefinition defines, at the version in which
// its objects are stored, with the labels that apply to all of them.
func KindOf(crd *unstructured.Unstructured) Kind {
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(crd.Object, append([]string{"spec"}, fields...)...)
		return s
	}
	k := Kind{Resource: text("names", "plural"), Namespaced: text("scope") == "Namespaced"}
	k.GroupVersionKind = schema.GroupVersionKind{Group: text("group"), Kind: text("names", "kind"), Version: storage(crd)}
	_, k.Hierarchy = crd.GetLabels()[clusterctlv1.ClusterctlMoveHierarchyLabel]
	_, k.Move = crd.GetLabels()[clusterctlv1.ClusterctlMoveLabel]
	return k
}

// storage is the version in which a definition has its objects stored.
func storage(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if v, ok := v.(map[string]any); ok && v["storage"] == true {
			name, _ := v["name"].(string)
			return name
		}
	}
	return ""
}
