// SPDX-License-Identifier: Apache-2.0

package machinepool

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/pure/machinestatus"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
)

// Others maps the Nodes of a cluster that do not belong to a pool.
type Others struct {
	pool   *clusterv1.MachinePool
	byID   map[string]string // by provider ID
	byName map[string]string // by name of the Node
}

// NewOthers builds the map of Nodes and their owners from the Machines and pools of a
// Cluster. Of two pools that have recorded one Node, the older owns it.
func NewOthers(p *clusterv1.MachinePool, machines []*clusterv1.Machine, pools []*clusterv1.MachinePool) Others {
	o := Others{pool: p, byID: map[string]string{}, byName: map[string]string{}}
	for _, m := range machines {
		if by := metav1.GetControllerOfNoCopy(m); by != nil && by.UID == p.UID {
			continue
		}
		if m.Spec.ProviderID != "" {
			o.byID[m.Spec.ProviderID] = "Machine " + m.Name
		}
		if m.Status.NodeRef.IsDefined() {
			o.byName[m.Status.NodeRef.Name] = "Machine " + m.Name
		}
	}
	mine := map[string]bool{}
	for _, ref := range p.Status.NodeRefs {
		mine[ref.Name] = true
	}
	for _, other := range pools {
		if other.UID == p.UID {
			continue
		}
		older := cmp.Or(other.CreationTimestamp.Compare(p.CreationTimestamp.Time), cmp.Compare(other.Name, p.Name)) < 0
		for _, ref := range other.Status.NodeRefs {
			if o.byName[ref.Name] == "" && (older || !mine[ref.Name]) {
				o.byName[ref.Name] = "MachinePool " + other.Name
			}
		}
	}
	return o
}

// holder returns the owner of a Node, if that is not the pool: from Machines and pools
// or, without one, from the annotations of the Node.
func (o Others) holder(node *corev1.Node) string {
	if by := cmp.Or(o.byID[node.Spec.ProviderID], o.byName[node.Name]); by != "" {
		return by
	}
	kind, name := node.Annotations[clusterv1.OwnerKindAnnotation], node.Annotations[clusterv1.OwnerNameAnnotation]
	switch {
	case kind == "" || kind == "MachinePool" && name == o.pool.Name:
		return ""
	}
	return sanitize.Line(kind+" "+name+", by its annotations", 128)
}

// Nodes is the plan for the Nodes of a pool.
type Nodes struct {
	Mine     []*corev1.Node
	Retired  []*corev1.Node           // their infrastructure machines were deleted
	Refs     []corev1.ObjectReference // to the Nodes of the pool after this plan
	Problems []string
}

// PlanNodes decides which Nodes belong to the pool. found are those with a provider ID
// of the list, noted those of status.nodeRefs that are not among them and still exist.
// Only a complete report, which has a provider ID for each replica, retires ready Nodes.
func PlanNodes(o Others, whole bool, found map[string][]*corev1.Node, noted []*corev1.Node) (n Nodes) {
	var foreign []string
	for _, id := range o.pool.Spec.ProviderIDList {
		nodes := found[id]
		switch {
		case len(nodes) == 0:
		case len(nodes) > 1:
			n.Problems = append(n.Problems, fmt.Sprintf("provider ID %s is that of Nodes %s and %s: delete the one that does not exist", id, nodes[0].Name, nodes[1].Name))
		case o.holder(nodes[0]) != "":
			foreign = append(foreign, fmt.Sprintf("Node %s of provider ID %s belongs to %s", nodes[0].Name, id, o.holder(nodes[0])))
		default:
			n.Mine = append(n.Mine, nodes[0])
		}
	}
	n.Problems = append(n.Problems, foreign...)
	kept := slices.Clone(n.Mine)
	for _, node := range noted {
		switch {
		case slices.Contains(o.pool.Spec.ProviderIDList, node.Spec.ProviderID) || o.holder(node) != "" || !o.noted(node):
		case whole || !ready(node):
			n.Retired = append(n.Retired, node)
		default:
			kept = append(kept, node)
			n.Problems = append(n.Problems, fmt.Sprintf("Node %s is ready, and its provider ID %s is not listed any more", node.Name, sanitize.Line(node.Spec.ProviderID, maxProviderID)))
		}
	}
	for _, node := range kept {
		n.Refs = append(n.Refs, Reference(node))
	}
	return n
}

// Leaving are the Nodes that are deleted with the pool, of those that it has recorded.
func Leaving(o Others, noted []*corev1.Node) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(noted), func(node *corev1.Node) bool { return !o.noted(node) || o.holder(node) != "" })
}

// noted reports whether the pool has recorded this Node, and not another one with the
// same name.
func (o Others) noted(node *corev1.Node) bool {
	return slices.ContainsFunc(o.pool.Status.NodeRefs, func(ref corev1.ObjectReference) bool {
		return Own(ref) && ref.Name == node.Name && ref.UID == node.UID
	})
}

// Own reports whether the pool itself manages a Node that it has recorded. Those of its
// Machines are recorded without their UID.
func Own(ref corev1.ObjectReference) bool { return ref.UID != "" }

// Reference records a Node that the pool manages.
func Reference(node *corev1.Node) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
}

// OfMachines are the Nodes of the Machines of a pool. The Machines manage them, and do
// not record their UIDs.
func OfMachines(machines []*clusterv1.Machine) (refs []corev1.ObjectReference) {
	for _, m := range machines {
		if m.Status.NodeRef.IsDefined() {
			refs = append(refs, corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: m.Status.NodeRef.Name})
		}
	}
	slices.SortFunc(refs, func(a, b corev1.ObjectReference) int { return cmp.Compare(a.Name, b.Name) })
	return refs
}

// Sync sets labels, annotations and taints of the pool on one of its Nodes, and reports
// whether it changed anything.
func Sync(p *clusterv1.MachinePool, node *corev1.Node) bool {
	by := owner(p)
	by.Controller = new(true)
	return nodesync.Apply(node, nodesync.Want{Machine: &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Labels: p.Spec.Template.Labels, Annotations: p.Spec.Template.Annotations, OwnerReferences: []metav1.OwnerReference{by},
		},
		Spec: clusterv1.MachineSpec{ClusterName: p.Spec.ClusterName},
	}})
}

// StandIns are placeholder Machines for the infrastructure machines of a pool, for
// functions that summarize Machines. Without a Node their name is their provider ID.
func StandIns(p *clusterv1.MachinePool, nodes []*corev1.Node, now metav1.Time) (all []*clusterv1.Machine) {
	byID := make(map[string]*corev1.Node, len(nodes))
	for _, node := range nodes {
		byID[node.Spec.ProviderID] = node
	}
	for _, id := range p.Spec.ProviderIDList {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: id, UID: types.UID(id)}}
		m.Spec.ProviderID, m.Spec.Version, m.Spec.MinReadySeconds = id, p.Spec.Template.Spec.Version, p.Spec.Template.Spec.MinReadySeconds
		ready := conditions.New(clusterv1.MachineReadyCondition, metav1.ConditionFalse, clusterv1.MachineNotReadyReason, "Waiting for a Node with this provider ID")
		if node := byID[id]; node != nil {
			m.Name, m.Status.NodeRef.Name, m.Status.NodeInfo = node.Name, node.Name, &node.Status.NodeInfo
			ready = machinestatus.NodeHealthy(node)
			ready.Type, ready.LastTransitionTime = clusterv1.MachineReadyCondition, readySince(node)
		}
		m.Status.Conditions = []metav1.Condition{ready, nodeReady(byID[id])}
		m.Status.Conditions = append(m.Status.Conditions, machinestatus.Available(m, now.Time), UpToDate(p, m))
		all = append(all, m)
	}
	return all
}

// nodeReady is the condition NodeReady of a placeholder.
func nodeReady(node *corev1.Node) metav1.Condition {
	c := conditions.New(clusterv1.MachineNodeReadyCondition, metav1.ConditionFalse, clusterv1.MachineNodeNotReadyReason, "")
	if node != nil && ready(node) {
		c.Status, c.Reason, c.LastTransitionTime = metav1.ConditionTrue, clusterv1.MachineNodeReadyReason, readySince(node)
	}
	return c
}

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func readySince(node *corev1.Node) (since metav1.Time) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.LastTransitionTime
		}
	}
	return since
}

// older reports whether the kubelet of a Node is of an earlier release than the desired
// one; vendor suffixes of a version do not count.
func older(have, want string) bool {
	core := func(v string) (*version.Version, error) {
		v, _, _ = strings.Cut(v, "+")
		v, _, _ = strings.Cut(v, "-")
		return version.ParseGeneric(v)
	}
	a, errA := core(have)
	b, errB := core(want)
	return errA == nil && errB == nil && a.LessThan(b)
}
