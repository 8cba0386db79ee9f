// SPDX-License-Identifier: Apache-2.0

// Package causes finds why an object is not as it should be: it follows conditions from
// the object of a user to the objects that they depend on, until no object reports
// anything further.
//
// It is pure: the caller reads the objects, Find follows them, and the program that
// explains them renders the result. One table, edges, states which object a condition
// depends on; another, remedies, what a user can do about a cause.
package causes

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Key identifies an object. A kind that is not namespaced has no Namespace.
type Key struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

func (k Key) String() string { return k.Kind + " " + strings.TrimPrefix(k.Namespace+"/"+k.Name, "/") }

// Ref is a reference of an object.
type Ref struct {
	Field string `json:"field"`
	To    Key    `json:"to"`
}

// Warning is the last Event of type Warning with a reason.
type Warning struct {
	Reason  string      `json:"reason"`
	Message string      `json:"message"`
	Last    metav1.Time `json:"last"`
}

// Object is what Find reads of one object.
type Object struct {
	Key        `json:",inline"`
	UID        string             `json:"uid,omitempty"`
	Owners     []string           `json:"owners,omitempty"` // UIDs
	Created    metav1.Time        `json:"created,omitzero"`
	Deleted    *metav1.Time       `json:"deleted,omitempty"`
	Finalizers []string           `json:"finalizers,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Refs       []Ref              `json:"refs,omitempty"`
	// Paused is the field or annotation that pauses the object, empty if none does, and Mover
	// the move that set it.
	Paused string `json:"paused,omitempty"`
	Mover  string `json:"mover,omitempty"`
	// Hooks are the annotations that make an upgrade or a deletion wait.
	Hooks []string `json:"hooks,omitempty"`
	// Exhausted are the limits of a ResourceQuota that allow no further object, as
	// count/machines.cluster.x-k8s.io.
	Exhausted []string `json:"exhausted,omitempty"`
	// Unset are the fields of the contract without a value that a Cluster, or an object that is
	// provisioned or ready, must have.
	Unset []string `json:"unset,omitempty"`
	// Manager is the external system that provisions the object, as long as it has not.
	Manager string `json:"manager,omitempty"`
	// Untouched means that no controller has written to the object of a provider.
	Untouched bool `json:"untouched,omitempty"`
	// Provider is the label of the provider to which the kind of the object, or a Deployment,
	// belongs; empty if the Deployments could not be read.
	Provider string `json:"provider,omitempty"`
	// Resources are those of a ClusterResourceSet, as "Secret a", or those that a
	// ClusterResourceSetBinding has applied, after the name of the set.
	Resources []string  `json:"resources,omitempty"`
	Warnings  []Warning `json:"warnings,omitempty"`
	// Missing means that the object does not exist: others only refer to it.
	Missing bool `json:"missing,omitempty"`
}

// Link is one condition of one object in a chain of causes.
type Link struct {
	Object Key `json:"object"`
	// Condition is the type of the condition. Facts that no condition reports have one of
	// the types Missing, Paused, Hook, Quota, Warning, Contract, Provider and Deleting.
	Condition string                 `json:"condition"`
	Status    metav1.ConditionStatus `json:"status"`
	Reason    string                 `json:"reason,omitempty"`
	Message   string                 `json:"message,omitempty"`
	Since     *metav1.Time           `json:"since,omitempty"` // nil if it is unknown
}

// Remedy is what a user can do about a cause.
type Remedy struct {
	Text string `json:"text"`
	// Command is a command line, empty if there is none.
	Command string `json:"command,omitempty"`
}

// Cause is one reason for what a user sees.
type Cause struct {
	// Chain starts with the condition that no other condition explains and ends with one of
	// the object that the user named.
	Chain []Link `json:"chain"`
	// Others are further objects with the same cause.
	Others []Key   `json:"others,omitempty"`
	Remedy *Remedy `json:"remedy,omitempty"`
}

// Result explains one object.
type Result struct {
	Object Key `json:"object"`
	// Certain means that an object reports each of Causes. Otherwise Causes has only the
	// condition that changed first of those that no other condition explains.
	Certain bool `json:"certain"`
	// Causes are sorted by the time at which they started. There are none if nothing is wrong.
	Causes []Cause `json:"causes,omitempty"`
	// Progress has conditions of the object that report a change which nothing blocks.
	Progress []Link `json:"progress,omitempty"`
	// Follows is the number of further conditions that the causes explain.
	Follows int `json:"follows,omitempty"`
	// Unread are resources that the user may not read: they may have further causes.
	Unread []string `json:"unread,omitempty"`
}

// Find explains the object with the key start. Objects are all that may have a cause; an
// object that is not among them has nothing to report.
func Find(objects []Object, start Key) Result {
	w := newWalk(objects)
	r := Result{Object: start}
	at := w.byKey[start]
	if at == nil {
		return r
	}
	w.from(at)
	stuck, moving := w.prune()
	for _, n := range moving {
		if n.object == at {
			r.Progress = append(r.Progress, n.link())
		}
	}
	if len(stuck) == 0 {
		return r
	}
	slices.SortStableFunc(stuck, first)
	certain := slices.DeleteFunc(slices.Clone(stuck), func(n *node) bool { return !w.certain(n) })
	if r.Certain = len(certain) > 0 && (!later(certain[0]) || later(stuck[0])); !r.Certain {
		certain = stuck[:1]
	}
	shown := map[*node]bool{}
	groups := map[string]int{}
	for _, n := range certain {
		same := n.likeness()
		if i, ok := groups[same]; ok {
			if n.object.Key != r.Causes[i].Chain[0].Object {
				r.Causes[i].Others = append(r.Causes[i].Others, n.object.Key)
			}
			shown[n] = true
			continue
		}
		groups[same] = len(r.Causes)
		c := Cause{Remedy: w.remedy(n)}
		for m := n; m != nil; m = m.parent {
			c.Chain = append(c.Chain, m.link())
			shown[m] = true
		}
		r.Causes = append(r.Causes, c)
	}
	for _, n := range w.nodes {
		if !shown[n] && !n.pruned {
			r.Follows++
		}
	}
	return r
}

// later reports whether a finding does not explain other conditions: it is about the repair
// of a Machine, or about what is applied to a cluster.
func later(n *node) bool {
	return n.object.Kind == kindCheck || n.object.Kind == kindResourceSet || n.Type == clusterv1.MachineOwnerRemediatedCondition || n.Type == clusterv1.MachineExternallyRemediatedCondition
}

// likeness is equal for causes that differ only in the name of their object.
func (n *node) likeness() string {
	message := n.Message
	for _, name := range []string{n.object.Name, "\n"} {
		if name != "" {
			message = strings.ReplaceAll(message, name, " ")
		}
	}
	if n.Type == typeMissing || n.Type == typeQuota {
		return n.Type + n.object.String()
	}
	return strings.Join([]string{n.object.Kind, n.Type, n.Reason, message}, "\x00")
}

// first sorts causes before what only keeps them from being repaired and before pauses
// apart, then by time, unknown times last, then the one that is furthest from the start.
func first(a, b *node) int {
	x, y := a.since(), b.since()
	return cmp.Or(last(later(a), later(b)), last(a.apart, b.apart), last(x.IsZero(), y.IsZero()), x.Compare(y.Time),
		b.depth-a.depth, strings.Compare(a.object.String(), b.object.String()))
}

// last sorts true after false.
func last(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
