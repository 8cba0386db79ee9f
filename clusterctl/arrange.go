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
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// rank is the position of an object of a template in the order of creation.
type rank int

const (
	namespaces rank = iota // nothing can be checked in a namespace that does not exist
	others                 // objects that no Cluster of the template uses
	clusters
	templates // of a Cluster: they exist before the objects that create machines from them
	members   // other objects that a Cluster owns: infrastructure, control plane, workers
	parts     // objects that a member will own, and delete, since it refers to them
)

// part is one object of a template.
type part struct {
	*unstructured.Unstructured
	rank rank
	// cluster is the owner of the object, with the reference that claim builds; nil for
	// none.
	cluster *part
	claim   func(*clusterv1.Cluster) reference.Claim
}

// arrange sorts the objects of a template into the order of their creation. A Cluster
// precedes what it owns. Owned objects have their owner from creation, which saves the
// controllers a write for each; and wherever a creation ends, the deletion of the Cluster
// also deletes what was created.
//
// Only owner references that the controllers would set are set here, and in the same
// form. Objects that two Clusters refer to are left to the controllers.
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

// links are the fields that link an object to others. Those that a kind lacks are empty.
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

// read reads the links of an object. An object of another form has none: the API server
// reports what is wrong with it.
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

// arrangement maps identities to the objects of a template.
type arrangement map[identity]*part

func (a arrangement) named(from *part, ref clusterv1.ContractVersionedObjectReference) *part {
	return a[identity{ref.GroupKind(), client.ObjectKey{Namespace: from.GetNamespace(), Name: ref.Name}}]
}

// cluster assigns to a Cluster what it refers to, and the templates of its control plane.
// Only our own control plane is known to leave their ownership to the Cluster.
func (a arrangement) cluster(p *part) {
	spec := read(p.Unstructured).Spec
	a.named(p, spec.InfrastructureRef).give(members, p, reference.ByCluster)
	controlPlane := a.named(p, spec.ControlPlaneRef)
	controlPlane.give(members, p, reference.ByCluster)
	if controlPlane != nil && controlPlane.GroupVersionKind() == controlplanev1.GroupVersion().WithKind("KubeadmControlPlane") {
		a.named(p, read(controlPlane.Unstructured).Spec.MachineTemplate.Spec.InfrastructureRef).give(templates, p, reference.ToShare)
	}
}

// worker assigns an object that names its Cluster to that Cluster, with its templates.
func (a arrangement) worker(p *part) {
	spec := read(p.Unstructured).Spec
	cluster := a.named(p, clusterv1.ContractVersionedObjectReference{APIGroup: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind, Name: spec.ClusterName})
	if cluster == nil {
		return
	}
	switch p.GetKind() {
	case "MachineDeployment", "MachineSet":
		a.named(p, spec.Template.Spec.Bootstrap.ConfigRef).give(templates, cluster, reference.ToShare)
		a.named(p, spec.Template.Spec.InfrastructureRef).give(templates, cluster, reference.ToShare)
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
	p.give(members, cluster, reference.ToShare)
}

// give records the Cluster of an object; nil is a Cluster that the template does not
// have.
func (p *part) give(r rank, cluster *part, as func(*clusterv1.Cluster) reference.Claim) {
	switch {
	case p == nil || p.rank == clusters || p.rank == namespaces:
	case p.rank == others:
		p.rank, p.cluster, p.claim = r, cluster, as
	case p.rank != r || p.cluster != cluster:
		p.cluster = nil // all objects that refer to it must agree
	}
}

// owned returns the object with its owner and the label that names it, given the Clusters
// that exist. An object that has an owner, or the label of another Cluster, is not
// changed.
func (p *part) owned(there map[*part]*clusterv1.Cluster) *unstructured.Unstructured {
	cluster := there[p.cluster]
	if cluster == nil || len(p.GetOwnerReferences()) > 0 {
		return p.Unstructured
	}
	by := p.claim(cluster)
	if by.Evaluate(p) != (reference.Result{}) {
		return p.Unstructured
	}
	obj := p.DeepCopy()
	owner.Set(obj, by.Owner)
	owner.Label(obj, by.Cluster)
	return obj
}
