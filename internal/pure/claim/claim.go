// SPDX-License-Identifier: Apache-2.0

// Package claim decides what an object may be referred to for, and to whom an
// object belongs that is referred to. A reference is no more than a name, which
// anybody can write: it gives no right to what it names.
//
// What counts as a kind for a role, as far as its group tells:
//
//   - Kinds of Cluster API's own groups are nobody's infrastructure, bootstrap
//     configuration or control plane.
//   - A group that has the name of another role in it serves that role, and not
//     this one: such as bootstrap.cluster.x-k8s.io. A control plane may be the
//     infrastructure of its Cluster, and infrastructure its control plane:
//     providers of managed Kubernetes have one object for both.
//   - What is made from a template refers to a kind that ends in Template, and
//     nothing else does.
//
// Who holds an object:
//
//   - Whoever its controller reference names, whatever the UID: an owner that
//     was restored or moved has another one. If that is who made the object for
//     the claimant, such as the MachineSet of a Machine, nobody has it yet.
//   - A Cluster may have an object beside a controller that is no part of
//     Cluster API, if the object says so: by its label, or an owner reference. So
//     may the Machine of a pool, whose provider has made the object.
//   - Without a controller, whoever else of Cluster API is among its owners. Two
//     Clusters among them hold it from each other.
//   - Without such an owner, the Cluster that its cluster-name label names.
//   - Otherwise nobody, and whoever refers to it may take it.
//
// Templates, and Secrets that are only read, are shared by all that is of one
// Cluster: they are held by the Clusters among their owners or, if there is
// none, by the Cluster that their label names. What a bootstrap configuration
// controls is for its machine alone.
package claim

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Claim is who wants an object.
type Claim struct {
	Owner   metav1.OwnerReference  // that is put on the object, to hold it
	Maker   *metav1.OwnerReference // who makes objects for the owner; nil for nobody
	Cluster string                 // that the owner is of
	Shared  bool                   // with everybody of the Cluster
}

// ByCluster is the claim of a Cluster to the objects that it refers to. It is their
// controller only if it has a topology, which makes them: as upstream, so that other
// tools can be the controller of what they made.
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

// ToShare is the claim of all that is of a Cluster to a template, or to a Secret
// that is only read.
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

// Verdict is to whom an object belongs.
type Verdict struct {
	Holder string // who holds it from the claimant, for messages; empty if nobody does
	Beside bool   // the claimant may have it, but only beside its controller
}

// Judge tells to whom an object belongs, from where the claim stands.
func (c Claim) Judge(obj metav1.Object) Verdict {
	label := obj.GetLabels()[clusterv1.ClusterNameLabel]
	if c.Shared {
		return c.judgeShared(obj, label)
	}
	switch by := metav1.GetControllerOfNoCopy(obj); {
	case by == nil || c.made(*by):
	case same(*by, c.Owner):
		return Verdict{}
	case !c.besides(*by) || (label != c.Cluster && !slices.ContainsFunc(obj.GetOwnerReferences(), c.owns)):
		return Verdict{Holder: named(*by)}
	default:
		v := c.judgeOwners(obj.GetOwnerReferences(), label)
		v.Beside = v.Holder == ""
		return v
	}
	return c.judgeOwners(obj.GetOwnerReferences(), label)
}

func (c Claim) judgeOwners(owners []metav1.OwnerReference, label string) Verdict {
	for _, o := range owners {
		if holds(o) && !c.owns(o) && !c.made(o) && !(isCluster(o) && o.Name == c.Cluster) {
			return Verdict{Holder: named(o)}
		}
	}
	return c.judgeLabel(label)
}

func (c Claim) judgeShared(obj metav1.Object, label string) Verdict {
	owners := obj.GetOwnerReferences()
	if by := metav1.GetControllerOfNoCopy(obj); by != nil && serves(groupKind(*by).Group, "bootstrap") && !c.made(*by) {
		return Verdict{Holder: named(*by)}
	}
	if slices.ContainsFunc(owners, c.owns) {
		return Verdict{}
	}
	if i := slices.IndexFunc(owners, isCluster); i >= 0 {
		return Verdict{Holder: named(owners[i])}
	}
	return c.judgeLabel(label)
}

func (c Claim) judgeLabel(label string) Verdict {
	if label != "" && label != c.Cluster {
		return Verdict{Holder: "Cluster " + label + ", by its label " + clusterv1.ClusterNameLabel}
	}
	return Verdict{}
}

func (c Claim) owns(o metav1.OwnerReference) bool { return same(o, c.Owner) }

func (c Claim) made(o metav1.OwnerReference) bool { return c.Maker != nil && same(o, *c.Maker) }

// besides reports whether the claimant may have an object that o controls.
func (c Claim) besides(o metav1.OwnerReference) bool {
	ofPool := c.Maker != nil && groupKind(*c.Maker) == schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: "MachinePool"}
	return (isCluster(c.Owner) || ofPool) && !holds(o)
}

// holds reports whether owners of a kind have what they own for themselves:
// core kinds, and control planes.
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

// Names reports whether a reference names an object: whoever is called its owner,
// and does not refer to it, is not.
func Names(ref clusterv1.ContractVersionedObjectReference, kind schema.GroupVersionKind, name string) bool {
	return ref.Name == name && ref.GroupKind() == kind.GroupKind()
}

func named(o metav1.OwnerReference) string { return o.Kind + " " + o.Name }
