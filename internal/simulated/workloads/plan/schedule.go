// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Node is what decisions need of one.
type Node struct {
	Name          string
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
	Ready         corev1.ConditionStatus // empty if nobody ever said
	Leaving       bool
	Address       string
	PodCIDR       string
	Has           Resources
	Version       string
}

// NodeOf takes from a Node what decisions need.
func NodeOf(n *corev1.Node) Node {
	out := Node{
		Name: n.Name, Labels: n.Labels, Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable, PodCIDR: n.Spec.PodCIDR,
		Leaving: n.DeletionTimestamp != nil, Version: n.Status.NodeInfo.KubeletVersion,
		Has: Resources{
			CPU: n.Status.Allocatable.Cpu().MilliValue(), Memory: n.Status.Allocatable.Memory().Value(), Pods: n.Status.Allocatable.Pods().Value(),
		},
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			out.Ready = c.Status
		}
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && out.Address == "" {
			out.Address = a.Address
		}
	}
	return out
}

// Lives reports whether a kubelet speaks for the Node: it says that it is
// ready, or that it is not.
func (n Node) Lives() bool {
	return n.Ready == corev1.ConditionTrue || n.Ready == corev1.ConditionFalse
}

func (n Node) object() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
}

// Place is a Node with what runs on it.
type Place struct {
	Node
	Used Resources
	Own  int // Pods there that have the same controller as the one to place
}

// Needs is what a Pod asks of a Node, worked out once for all Nodes.
type Needs struct {
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	resources   Resources
}

// NeedsOf works out what a Pod asks of its Node.
func NeedsOf(p *corev1.Pod) Needs {
	return Needs{nodeaffinity.GetRequiredNodeAffinity(p), p.Spec.Tolerations, asked(&p.Spec)}
}

// Match reports whether the Pod's selector and required affinity let it be on
// the Node.
func (n Needs) Match(node Node) bool {
	ok, err := n.affinity.Match(node.object())
	return ok && err == nil
}

// Untolerated finds a taint of the Node with one of the effects that the Pod
// does not tolerate.
func (n Needs) Untolerated(node Node, effects ...corev1.TaintEffect) (corev1.Taint, bool) {
	for _, t := range node.Taints {
		if slices.Contains(effects, t.Effect) && !tolerated(n.tolerations, &t) {
			return t, true
		}
	}
	return corev1.Taint{}, false
}

func tolerated(tolerations []corev1.Toleration, t *corev1.Taint) bool {
	return slices.ContainsFunc(tolerations, func(x corev1.Toleration) bool {
		return (x.Effect == "" || x.Effect == t.Effect) && (x.Key == "" && x.Operator == corev1.TolerationOpExists ||
			x.Key == t.Key && (x.Operator == corev1.TolerationOpExists || x.Value == t.Value && x.Operator != corev1.TolerationOpExists))
	})
}

// unschedulable is the taint that the node controller gives to a Node that is
// cordoned; it need not be there for the Node to be.
var unschedulable = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// refuses says why a Pod cannot be on a Node now, in the words of the
// scheduler; empty if it can.
func (n Needs) refuses(at Place) string {
	if at.Unschedulable && !tolerated(n.tolerations, &unschedulable) {
		return "node(s) were unschedulable"
	}
	if !n.Match(at.Node) {
		return "node(s) didn't match Pod's node affinity/selector"
	}
	if t, ok := n.Untolerated(at.Node, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute); ok {
		return fmt.Sprintf("node(s) had untolerated taint(s) {%s: %s}", t.Key, t.Value)
	}
	used := at.Used.Plus(n.resources, 1)
	switch {
	case used.Pods > at.Has.Pods:
		return "Too many pods"
	case n.resources.CPU > 0 && used.CPU > at.Has.CPU:
		return "Insufficient cpu"
	case n.resources.Memory > 0 && used.Memory > at.Has.Memory:
		return "Insufficient memory"
	}
	return ""
}

// Choose picks the Node of a Pod: of those that can take it the one with the
// fewest Pods of the same controller, then with the fewest Pods. Else it says
// why there is none, in the words of the scheduler. It does not look at
// affinity between Pods, at what is only preferred, at topology spread, ports
// of the host, volumes and priorities.
func Choose(needs Needs, places []Place) (node, message string) {
	var best *Place
	why := map[string]int{}
	for i := range places {
		at := &places[i]
		if at.Leaving {
			continue
		}
		if reason := needs.refuses(*at); reason != "" {
			why[reason]++
			continue
		}
		if best == nil || better(at, best) < 0 {
			best = at
		}
	}
	if best != nil {
		return best.Name, ""
	}
	if len(places) == 0 {
		return "", "no nodes available to schedule pods"
	}
	var reasons []string
	for _, reason := range slices.Sorted(maps.Keys(why)) {
		reasons = append(reasons, fmt.Sprintf("%d %s", why[reason], reason))
	}
	return "", fmt.Sprintf("0/%d nodes are available: %s.", len(places), strings.Join(reasons, ", "))
}

func better(a, b *Place) int {
	return cmp.Or(cmp.Compare(a.Own, b.Own), cmp.Compare(a.Used.Pods, b.Used.Pods), cmp.Compare(a.Name, b.Name))
}

// Selected reports whether a selector as Services have it picks what has these
// labels. An empty one picks nothing.
func Selected(selector, set map[string]string) bool {
	return len(selector) > 0 && labels.SelectorFromSet(selector).Matches(labels.Set(set))
}
