// SPDX-License-Identifier: Apache-2.0

package localpool

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// Kinds of references.
var (
	Kind        = infrav1.GroupVersion().WithKind("LocalMachinePool")
	MachineKind = infrav1.GroupVersion().WithKind("LocalMachine")
)

// Pool is a LocalMachinePool with its MachinePool and Cluster.
type Pool struct {
	Local       *infrav1.LocalMachinePool
	MachinePool string // the name of its MachinePool
	Cluster     string // the name of its Cluster
}

// label is the label value of the pool's machines and of their Machines.
func (p Pool) label() string { return fieldvalidation.AsLabelValue(p.MachinePool) }

// Members are the machines of the pool with their Machines, among those of its Cluster.
// A machine belongs to the pool if it has the pool as an owner, or the pool's label and
// no other owner than a Machine of the pool.
func (p Pool) Members(locals []infrav1.LocalMachine, machines []clusterv1.Machine) (members []Member) {
	standIn := map[string]*clusterv1.Machine{}
	for i := range machines {
		if m := &machines[i]; p.hasFor(m) {
			standIn[m.Spec.InfrastructureRef.Name] = m
		}
	}
	for i := range locals {
		local := &locals[i]
		if m := standIn[local.Name]; p.has(local, m) {
			members = append(members, Member{local, m})
		}
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Local.Name, b.Local.Name) })
	return members
}

// hasFor reports whether a Machine represents a machine of the pool.
func (p Pool) hasFor(m *clusterv1.Machine) bool {
	return m.Labels[clusterv1.MachinePoolNameLabel] == p.label() && m.Spec.InfrastructureRef.GroupKind() == MachineKind.GroupKind()
}

// Represents reports whether a Machine represents this machine of the pool.
func (p Pool) Represents(m *clusterv1.Machine, local *infrav1.LocalMachine) bool {
	return p.hasFor(m) && m.Spec.InfrastructureRef.Name == local.Name
}

func (p Pool) has(local *infrav1.LocalMachine, m *clusterv1.Machine) bool {
	if slices.ContainsFunc(local.OwnerReferences, p.is) {
		return true
	}
	return local.Labels[clusterv1.MachinePoolNameLabel] == p.label() && !slices.ContainsFunc(local.OwnerReferences, func(o metav1.OwnerReference) bool {
		return m == nil || o.Kind != "Machine" || o.Name != m.Name
	})
}

// is reports whether an owner is the pool, regardless of its UID: a pool that was
// restored or moved has another UID.
func (p Pool) is(o metav1.OwnerReference) bool {
	gv, _ := schema.ParseGroupVersion(o.APIVersion) // an invalid version matches no pool
	return o.Name == p.Local.Name && o.Kind == Kind.Kind && gv.Group == Kind.Group
}

// Hold sets the owner reference and labels by which a machine belongs to the pool.
func (p Pool) Hold(local *infrav1.LocalMachine) {
	owner := metav1.OwnerReference{APIVersion: Kind.GroupVersion().String(), Kind: Kind.Kind, Name: p.Local.Name, UID: p.Local.UID}
	owners := slices.DeleteFunc(slices.Clone(local.OwnerReferences), p.is)
	local.OwnerReferences = append([]metav1.OwnerReference{owner}, owners...)
	labels := maps.Clone(local.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterv1.ClusterNameLabel], labels[clusterv1.MachinePoolNameLabel] = p.Cluster, p.label()
	local.Labels = labels
}

// Holds reports whether a machine has everything that Hold sets.
func (p Pool) Holds(local *infrav1.LocalMachine) bool {
	return local.Labels[clusterv1.ClusterNameLabel] == p.Cluster && local.Labels[clusterv1.MachinePoolNameLabel] == p.label() &&
		slices.ContainsFunc(local.OwnerReferences, func(o metav1.OwnerReference) bool {
			return p.is(o) && o.UID == p.Local.UID && o.APIVersion == Kind.GroupVersion().String()
		})
}

// Make builds a machine for the pool. It has the labels and annotations from the
// template of the MachinePool, and belongs to the same managers as the pool.
func (p Pool) Make(mp *clusterv1.MachinePool, name string, members []Member) *infrav1.LocalMachine {
	t := mp.Spec.Template
	local := &infrav1.LocalMachine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Local.Namespace, Name: name, Finalizers: []string{infrav1.LocalMachineFinalizer},
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Spec: MachineSpec(p.Local),
	}
	maps.Copy(local.Labels, t.Labels)
	maps.Copy(local.Annotations, t.Annotations)
	if filter, ok := p.Local.Labels[clusterv1.WatchLabel]; ok {
		local.Labels[clusterv1.WatchLabel] = filter
	}
	local.Annotations[infrav1.PoolTemplateAnnotation] = Template(p.Local, mp)
	if version := t.Spec.Version; version != "" {
		local.Annotations[infrav1.PoolVersionAnnotation] = version
	}
	if domain := emptiest(mp.Spec.FailureDomains, members); domain != "" {
		local.Annotations[infrav1.PoolFailureDomainAnnotation] = domain
	}
	p.Hold(local)
	return local
}

// MachineSpec is the spec of a machine created for a pool now.
func MachineSpec(pool *infrav1.LocalMachinePool) infrav1.LocalMachineSpec {
	return infrav1.LocalMachineSpec{Simulated: pool.Spec.Template.Simulated.DeepCopy(), Container: pool.Spec.Template.Container.DeepCopy()}
}

// Template identifies the template of a machine created for the pool now.
func Template(pool *infrav1.LocalMachinePool, mp *clusterv1.MachinePool) string {
	text, err := json.Marshal(pool.Spec.Template)
	if err != nil {
		panic(err) // only types of this API
	}
	h := fnv.New64a()
	h.Write(append(text, " "+mp.Spec.Template.Spec.Version...))
	return fmt.Sprintf("%016x", h.Sum64())
}

// emptiest is the failure domain with the fewest machines, the first of several;
// nothing if there is none.
func emptiest(domains []string, members []Member) string {
	count := map[string]int{}
	for _, m := range members {
		if !m.Going() {
			count[m.Local.Annotations[infrav1.PoolFailureDomainAnnotation]]++
		}
	}
	best := ""
	for _, d := range domains {
		if best == "" || count[d] < count[best] {
			best = d
		}
	}
	return best
}
