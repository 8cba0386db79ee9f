// SPDX-License-Identifier: Apache-2.0

package reference

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Claim is a claimant's request for an object.
type Claim struct {
	Owner   metav1.OwnerReference  // set on the object, to hold it
	Maker   *metav1.OwnerReference // the owner that creates objects for Owner; nil for none
	Cluster string                 // of the owner
	Shared  bool                   // with all claimants of the Cluster
}

// ByCluster is the claim of a Cluster to the objects that it refers to. It becomes their
// controller only if it has a topology, which creates them. As upstream, other tools can
// be the controller of the objects that they created.
func ByCluster(c *clusterv1.Cluster) Claim {
	out := Claim{Owner: controller(clusterv1.ClusterKind, c), Cluster: c.Name}
	if !c.Spec.Topology.IsDefined() {
		out.Owner.Controller, out.Owner.BlockOwnerDeletion = nil, nil
	}
	return out
}

// ByMachine is the claim of a Machine to the objects that it refers to.
func ByMachine(m *clusterv1.Machine) Claim {
	return Claim{Owner: controller("Machine", m), Maker: metav1.GetControllerOfNoCopy(m), Cluster: m.Spec.ClusterName}
}

// ByMachinePool is the claim of a MachinePool to the objects that it refers to.
func ByMachinePool(p *clusterv1.MachinePool) Claim {
	return Claim{Owner: controller("MachinePool", p), Cluster: p.Spec.ClusterName}
}

// ToShare is the claim of all objects of a Cluster to a template, or to a Secret that is
// only read.
func ToShare(c *clusterv1.Cluster) Claim {
	claim := ByCluster(c)
	claim.Shared, claim.Owner.Controller, claim.Owner.BlockOwnerDeletion = true, nil, nil
	return claim
}

func controller(kind string, obj metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion().String(), Kind: kind, Name: obj.GetName(), UID: obj.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(true),
	}
}

// Result is the owner to which an object belongs.
type Result struct {
	Holder string // the owner that holds it, if not the claimant, for messages; else empty
	Shared bool   // the claimant may have it, but only next to its controller
}

// Evaluate returns the owner to which an object belongs, from the point of view of the
// claim.
func (c Claim) Evaluate(obj metav1.Object) Result {
	label := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if c.Shared {
		return c.checkShared(obj, label)
	}
	switch by := metav1.GetControllerOfNoCopy(obj); {
	case by == nil || c.made(*by):
	case same(*by, c.Owner):
		return Result{}
	case !c.canShare(*by) || (label != c.Cluster && !slices.ContainsFunc(obj.GetOwnerReferences(), c.owns)):
		return Result{Holder: named(*by)}
	default:
		v := c.checkOwners(obj.GetOwnerReferences(), label)
		v.Shared = v.Holder == ""
		return v
	}
	return c.checkOwners(obj.GetOwnerReferences(), label)
}

func (c Claim) checkOwners(owners []metav1.OwnerReference, label string) Result {
	for _, o := range owners {
		if holds(o) && !c.owns(o) && !c.made(o) && !(isCluster(o) && o.Name == c.Cluster) {
			return Result{Holder: named(o)}
		}
	}
	return c.checkLabel(label)
}

func (c Claim) checkShared(obj metav1.Object, label string) Result {
	owners := obj.GetOwnerReferences()
	if by := metav1.GetControllerOfNoCopy(obj); by != nil && serves(groupKind(*by).Group, "bootstrap") && !c.made(*by) {
		return Result{Holder: named(*by)}
	}
	if slices.ContainsFunc(owners, c.owns) {
		return Result{}
	}
	if i := slices.IndexFunc(owners, isCluster); i >= 0 {
		return Result{Holder: named(owners[i])}
	}
	return c.checkLabel(label)
}

func (c Claim) checkLabel(label string) Result {
	if label != "" && label != c.Cluster {
		return Result{Holder: "Cluster " + label + ", by its label " + clusterv1.ClusterNameLabel}
	}
	return Result{}
}

func (c Claim) owns(o metav1.OwnerReference) bool { return same(o, c.Owner) }

func (c Claim) made(o metav1.OwnerReference) bool { return c.Maker != nil && same(o, *c.Maker) }

// canShare reports whether the claimant may share an object that o controls.
func (c Claim) canShare(o metav1.OwnerReference) bool {
	ofPool := c.Maker != nil && groupKind(*c.Maker) == schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: "MachinePool"}
	return (isCluster(c.Owner) || ofPool) && !holds(o)
}

// holds reports whether owners of a kind hold their objects exclusively: core kinds and
// control planes do.
func holds(o metav1.OwnerReference) bool {
	group := groupKind(o).Group
	return group == clusterv1.GroupVersion().Group || serves(group, "controlplane")
}

func isCluster(o metav1.OwnerReference) bool {
	return groupKind(o) == schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind}
}

func same(a, b metav1.OwnerReference) bool { return a.Name == b.Name && groupKind(a) == groupKind(b) }

func groupKind(o metav1.OwnerReference) schema.GroupKind {
	group, _, _ := strings.Cut(o.APIVersion, "/")
	return schema.GroupKind{Group: group, Kind: o.Kind}
}

// Names reports whether a reference names an object. An owner that does not refer to its
// object does not own it.
func Names(ref clusterv1.ContractVersionedObjectReference, kind schema.GroupVersionKind, name string) bool {
	return ref.Name == name && ref.GroupKind() == kind.GroupKind()
}

func named(o metav1.OwnerReference) string { return o.Kind + " " + o.Name }
