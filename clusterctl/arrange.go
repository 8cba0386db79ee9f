// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/claim"
)

// rank is when an object of a template is created.
type rank int

const (
	namespaces rank = iota // nothing can be checked in one that is not there
	others                 // what no Cluster of the template has to do with
	clusters
	templates // of a Cluster: they are there when those come who make machines from them
	members   // what else a Cluster owns: infrastructure, control plane, workers
	parts     // what a member will own, and deletes, since it refers to it
)

// part is one object of a template.
type part struct {
	*unstructured.Unstructured
	rank rank
	// cluster is the one that owns the object, as claim says; nil for none.
	cluster *part
	claim   func(*clusterv1.Cluster) claim.Claim
}

// arrange brings the objects of a template into the order of their creation. A
// Cluster goes before what it owns. That has its owner from the beginning, which
// saves the controllers a write for each; and wherever a creation ends, the
// deletion of the Cluster takes along what was made.
//
// Only what the controllers would give to a Cluster is given to it here, and in
// the same form. What two Clusters refer to is left to them.
func arrange(objects []*unstructured.Unstructured) []*part {
	a := arrangement{}
	all := make([]*part, len(objects))
	for i, obj := range objects {
		all[i] = &part{Unstructured: obj, rank: others}
		a[identity{obj.GroupVersionKind().GroupKind(), client.ObjectKeyFromObject(obj)}] = all[i]
	}
	for _, p := range all {
		switch kind := p.GroupVersionKind(); {
		case kind == corev1.SchemeGroupVersion.WithKind("Namespace"):
			p.rank = namespaces
		case kind == clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind):
			p.rank = clusters
		}
	}
	for _, p := range all {
		if p.rank == clusters {
			a.cluster(p)
		} else if p.GroupVersionKind().GroupVersion() == clusterv1.GroupVersion() {
			a.worker(p)
		}
	}
	slices.SortStableFunc(all, func(a, b *part) int { return cmp.Compare(a.rank, b.rank) })
	return all
}

// links are the fields by which an object tells what belongs together. Those that
// a kind lacks are empty.
type links struct {
	Spec struct {
		ClusterName       string                                     `json:"clusterName"`
		InfrastructureRef clusterv1.ContractVersionedObjectReference `json:"infrastructureRef"`
		ControlPlaneRef   clusterv1.ContractVersionedObjectReference `json:"controlPlaneRef"`
		Bootstrap         clusterv1.Bootstrap                        `json:"bootstrap"`
		Template          struct {
			Spec clusterv1.MachineSpec `json:"spec"`
		} `json:"template"`
		MachineTemplate struct {
			Spec struct {
				InfrastructureRef clusterv1.ContractVersionedObjectReference `json:"infrastructureRef"`
			} `json:"spec"`
		} `json:"machineTemplate"`
	} `json:"spec"`
}

// read reads the links of an object. One of another form has none: the API server
// says what is wrong with it.
func read(obj *unstructured.Unstructured) (l links) {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, &l); err != nil {
		return links{}
	}
	return l
}

type identity struct {
	kind schema.GroupKind
	key  client.ObjectKey
}

// arrangement finds the objects of a template.
type arrangement map[identity]*part

func (a arrangement) named(from *part, ref clusterv1.ContractVersionedObjectReference) *part {
	return a[identity{ref.GroupKind(), client.ObjectKey{Namespace: from.GetNamespace(), Name: ref.Name}}]
}

// cluster gives a Cluster what it refers to, and what its control plane makes
// machines from. Only of ours is known that the Cluster will own that.
func (a arrangement) cluster(p *part) {
	spec := read(p.Unstructured).Spec
	a.named(p, spec.InfrastructureRef).give(members, p, claim.ByCluster)
	controlPlane := a.named(p, spec.ControlPlaneRef)
	controlPlane.give(members, p, claim.ByCluster)
	if controlPlane != nil && controlPlane.GroupVersionKind() == controlplanev1.GroupVersion().WithKind("KubeadmControlPlane") {
		a.named(p, read(controlPlane.Unstructured).Spec.MachineTemplate.Spec.InfrastructureRef).give(templates, p, claim.ToShare)
	}
}

// worker gives what names its Cluster to that, with its templates.
func (a arrangement) worker(p *part) {
	spec := read(p.Unstructured).Spec
	cluster := a.named(p, clusterv1.ContractVersionedObjectReference{APIGroup: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind, Name: spec.ClusterName})
	if cluster == nil {
		return
	}
	switch p.GetKind() {
	case "MachineDeployment", "MachineSet":
		a.named(p, spec.Template.Spec.Bootstrap.ConfigRef).give(templates, cluster, claim.ToShare)
		a.named(p, spec.Template.Spec.InfrastructureRef).give(templates, cluster, claim.ToShare)
	case "MachinePool":
		a.named(p, spec.Template.Spec.Bootstrap.ConfigRef).give(parts, nil, nil)
		a.named(p, spec.Template.Spec.InfrastructureRef).give(parts, nil, nil)
	case "Machine":
		a.named(p, spec.Bootstrap.ConfigRef).give(parts, nil, nil)
		a.named(p, spec.InfrastructureRef).give(parts, nil, nil)
	case "MachineHealthCheck":
	default:
		return
	}
	p.give(members, cluster, claim.ToShare)
}

// give notes whose an object is; nil is one that the template does not have.
func (p *part) give(r rank, cluster *part, as func(*clusterv1.Cluster) claim.Claim) {
	switch {
	case p == nil || p.rank == clusters || p.rank == namespaces:
	case p.rank == others:
		p.rank, p.cluster, p.claim = r, cluster, as
	case p.rank != r || p.cluster != cluster:
		p.cluster = nil // those who refer to it have to agree
	}
}

// owned is the object with its owner and the label that names it, given the
// Clusters that are there. One that has an owner, or another's label, stays as it is.
func (p *part) owned(there map[*part]*clusterv1.Cluster) *unstructured.Unstructured {
	cluster := there[p.cluster]
	if cluster == nil || len(p.GetOwnerReferences()) > 0 {
		return p.Unstructured
	}
	by := p.claim(cluster)
	if by.Judge(p) != (claim.Verdict{}) {
		return p.Unstructured
	}
	obj := p.DeepCopy()
	owner.Set(obj, by.Owner)
	owner.Label(obj, by.Cluster)
	return obj
}
