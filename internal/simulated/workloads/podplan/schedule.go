// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// Node is what decisions need of one.
type Node struct {
	Name          string
	Labels        map[string]string
	Taints        []corev1.Taint
	Unschedulable bool
	Ready         corev1.ConditionStatus // empty if it was never reported
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

// Lives reports whether a kubelet runs on the Node: it reports that it is ready, or
// that it is not.
func (n Node) Lives() bool {
	return n.Ready == corev1.ConditionTrue || n.Ready == corev1.ConditionFalse
}

func (n Node) object() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels}}
}

// Evicts reports whether the Node has a taint by which Pods have to leave.
func (n Node) Evicts() bool {
	return slices.ContainsFunc(n.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// Mark sets the taints of a Node as the node controller does: one while it is cordoned,
// and the time of each by which Pods have to leave. It reports whether that changes them.
func (n Node) Mark(now time.Time) (taints []corev1.Taint, changed bool) {
	for _, t := range n.Taints {
		if t.MatchTaint(&unschedulable) && !n.Unschedulable {
			changed = true
			continue
		}
		if t.Effect == corev1.TaintEffectNoExecute && t.TimeAdded == nil {
			t.TimeAdded, changed = new(metav1.NewTime(now)), true
		}
		taints = append(taints, t)
	}
	if n.Unschedulable && !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&unschedulable) }) {
		taints, changed = append(taints, corev1.Taint{Key: unschedulable.Key, Effect: unschedulable.Effect, TimeAdded: new(metav1.NewTime(now))}), true
	}
	return taints, changed
}

// Stays reports whether a Pod may stay on a Node with such taints, and until
// when; zero for as long as they are there. Of the tolerations of a taint the first counts.
func (n Needs) Stays(node Node, now time.Time) (stays bool, until time.Time) {
	for _, t := range node.Taints {
		if t.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		i := toleration(n.tolerations, &t)
		if i < 0 {
			return false, time.Time{}
		}
		since := now
		if t.TimeAdded != nil {
			since = t.TimeAdded.Time
		}
		if s := n.tolerations[i].TolerationSeconds; s != nil {
			until = Sooner(until, since.Add(time.Duration(*s)*time.Second))
		}
	}
	return until.IsZero() || now.Before(until), until
}

// PodCIDR is the first /24 of a subnet that no Node has; of IPv6 the first /64.
// It is empty if there is none.
func PodCIDR(subnet string, nodes []Node) string {
	first, _, _ := strings.Cut(subnet, ",")
	all, err := netip.ParsePrefix(strings.TrimSpace(first))
	if err != nil {
		return ""
	}
	bits := 24
	if all.Addr().Is6() {
		bits = 64
	}
	taken := map[string]bool{}
	for _, n := range nodes {
		taken[n.PodCIDR] = true
	}
	for at, n := all.Masked().Addr(), 0; all.Contains(at) && n <= len(nodes); n++ {
		r := netip.PrefixFrom(at, max(bits, all.Bits()))
		if !taken[r.String()] {
			return r.String()
		}
		at = after(r)
	}
	return ""
}

// after is the first address behind a range.
func after(r netip.Prefix) netip.Addr {
	raw, last := r.Addr().AsSlice(), (r.Bits()-1)/8
	step := byte(1) << (7 - (r.Bits()-1)%8)
	for i := last; i >= 0; i-- {
		if raw[i] += step; raw[i] != 0 {
			break
		}
		step = 1
	}
	next, _ := netip.AddrFromSlice(raw) // as long as it was
	return next
}

// Place is a Node with what runs on it.
type Place struct {
	Node
	Used Resources
	Own  int // Pods there that have the same controller as the one to place
}

// Needs is what a Pod requires of a Node, computed once for all Nodes.
type Needs struct {
	affinity    nodeaffinity.RequiredNodeAffinity
	tolerations []corev1.Toleration
	resources   Resources
}

// NeedsOf computes what a Pod requires of its Node.
func NeedsOf(p *corev1.Pod) Needs {
	return Needs{nodeaffinity.GetRequiredNodeAffinity(p), p.Spec.Tolerations, asked(&p.Spec)}
}

// Match reports whether the Pod's selector and required affinity allow it on the
// Node.
func (n Needs) Match(node Node) bool {
	ok, err := n.affinity.Match(node.object())
	return ok && err == nil
}

// Untolerated finds a taint of the Node with one of the effects that the Pod
// does not tolerate.
func (n Needs) Untolerated(node Node, effects ...corev1.TaintEffect) (corev1.Taint, bool) {
	for _, t := range node.Taints {
		if slices.Contains(effects, t.Effect) && toleration(n.tolerations, &t) < 0 {
			return t, true
		}
	}
	return corev1.Taint{}, false
}

// toleration is the index of the first that tolerates a taint, or -1.
func toleration(tolerations []corev1.Toleration, t *corev1.Taint) int {
	return slices.IndexFunc(tolerations, func(x corev1.Toleration) bool {
		return (x.Effect == "" || x.Effect == t.Effect) && (x.Key == "" || x.Key == t.Key) && (x.Operator == corev1.TolerationOpExists || x.Value == t.Value)
	})
}

// unschedulable is the taint that the node controller gives to a Node that is
// cordoned; it need not be there for the Node to be.
var unschedulable = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// refuses returns why a Pod cannot be on a Node now, in the words of the scheduler;
// empty if it can.
func (n Needs) refuses(at Place) string {
	if at.Unschedulable && toleration(n.tolerations, &unschedulable) < 0 {
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

// Choose picks the Node of a Pod: of those that can run it the one with the fewest
// Pods of the same controller, then with the fewest Pods. Else it returns why there
// is none, in the words of the scheduler. It ignores affinity between Pods,
// preferences, topology spread, ports of the host, volumes and priorities.
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
