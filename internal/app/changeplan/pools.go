// SPDX-License-Identifier: Apache-2.0

package changeplan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/internal/kit/writes"
	"github.com/capstan-dev/capstan/internal/pure/outcome"
)

var poolKind = clusterv1.GroupVersion().WithKind("MachinePool")

// harmless are the fields of a pool, and of its infrastructure and bootstrap objects,
// for which no provider deletes or replaces a machine. Cluster API copies most of them
// to the Machines.
var harmless = []string{
	"metadata", "spec.replicas", "spec.providerIDList", "spec.template.metadata", "spec.template.spec.deletion",
	"spec.template.spec.minReadySeconds", "spec.template.spec.readinessGates", "spec.template.spec.taints",
}

// pools are the MachinePools that the change reaches. What happens to their machines
// is not predicted where their provider decides. If a topology waits for that, nothing
// of the Cluster is predicted.
func (c *copied) pools(before map[types.UID]client.Object) (all []planv1.Pool, why *planv1.NotPredicted) {
	for _, obj := range c.Stored(poolKind) {
		p := obj.(*clusterv1.MachinePool)
		old, existed := before[p.UID].(*clusterv1.MachinePool)
		if !existed {
			all = append(all, planv1.Pool{Name: p.Name, Then: ptr.Deref(p.Spec.Replicas, 0), NotPredicted: "its infrastructure provider decides when it creates machines"})
			continue
		}
		of := planv1.Pool{Name: p.Name, Before: ptr.Deref(old.Spec.Replicas, 0), Then: ptr.Deref(p.Spec.Replicas, 0), Fields: c.poolFields(before, p)}
		if !p.DeletionTimestamp.IsZero() {
			of.Then = 0
		}
		if len(of.Fields) == 0 && of.Then == of.Before {
			continue
		}
		decides := slices.DeleteFunc(slices.Clone(of.Fields), func(f planv1.Field) bool {
			return slices.ContainsFunc(harmless, func(field string) bool {
				return f.Path == field || strings.HasPrefix(f.Path, field+".") || strings.HasPrefix(f.Path, field+"[")
			})
		})
		switch {
		case of.Then == 0 && !p.DeletionTimestamp.IsZero():
		case len(decides) > 0:
			of.NotPredicted = fmt.Sprintf("its infrastructure provider decides which machines it replaces when %s changes", decides[0].Path)
		case of.Then < of.Before && ownsMachines(before, p):
			of.NotPredicted = fmt.Sprintf("its infrastructure provider decides which %d of its %d machines it deletes", of.Before-of.Then, of.Before)
		}
		_, managed := p.Labels[clusterv1.ClusterTopologyOwnedLabel]
		if managed && old.Spec.Template.Spec.Version != p.Spec.Template.Spec.Version {
			return nil, &planv1.NotPredicted{
				Reason: planv1.MachinePools, Objects: []planv1.Object{{Kind: poolKind.Kind, Namespace: p.Namespace, Name: p.Name, Action: planv1.Changed, Fields: of.Fields}},
				Message: fmt.Sprintf("The topology waits for MachinePool %s to have another version: only its infrastructure provider decides when its machines have it", p.Name),
			}
		}
		all = append(all, of)
	}
	for _, obj := range before {
		if p, is := obj.(*clusterv1.MachinePool); is && !slices.ContainsFunc(c.Stored(poolKind), func(now client.Object) bool { return now.GetUID() == p.UID }) {
			all = append(all, planv1.Pool{Name: p.Name, Before: ptr.Deref(p.Spec.Replicas, 0)})
		}
	}
	slices.SortFunc(all, func(a, b planv1.Pool) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// poolFields are the fields in which a pool, its infrastructure and its bootstrap
// config differ from what they were.
func (c *copied) poolFields(before map[types.UID]client.Object, p *clusterv1.MachinePool) []planv1.Field {
	fields := outcome.Fields(before[p.UID], p)
	for _, kind := range c.Kinds() {
		if kind == machineKind {
			continue
		}
		for _, obj := range c.Stored(kind) {
			if old := before[obj.GetUID()]; old != nil && metav1.IsControlledBy(obj, p) && kind.Kind != "Secret" {
				fields = append(fields, slices.DeleteFunc(outcome.Fields(old, obj), func(f planv1.Field) bool { return f.Path == token })...)
			}
		}
	}
	return fields
}

// token is the field of a bootstrap config that has the token of a pool. Its controller
// replaces it all the time, because machines may join at any time.
const token = "spec.joinConfiguration.discovery.bootstrapToken.token"

// rotated reports whether an object differs only because the token of a pool was
// replaced.
func (c *copied) rotated(obj client.Object, d planv1.Object) bool {
	if len(c.Stored(poolKind)) == 0 || d.Action != planv1.Changed {
		return false
	}
	by := metav1.GetControllerOfNoCopy(obj)
	if by == nil {
		return false
	}
	switch obj.(type) {
	case *corev1.Secret:
		return by.Kind == "KubeadmConfig" && len(d.Fields) == 1 && d.Fields[0].Path == "data"
	case *bootstrapv1.KubeadmConfig:
		return by.Kind == poolKind.Kind && !slices.ContainsFunc(d.Fields, func(f planv1.Field) bool {
			return f.Path != token && !(strings.HasPrefix(f.Path, "status.") && strings.HasSuffix(f.Path, "observedGeneration"))
		})
	}
	return false
}

// count counts the writes so far. Those of bootstrap data count only without pools,
// whose tokens are replaced all the time.
func (c *copied) count() int {
	if len(c.Stored(poolKind)) == 0 {
		return c.Writes()
	}
	n := 0
	for what, times := range c.Requests() {
		if !strings.HasSuffix(what, " KubeadmConfig") && !strings.HasSuffix(what, " Secret") && !strings.HasSuffix(what, " Event") && !strings.HasPrefix(what, writes.DryRun) {
			n += times
		}
	}
	return n
}

// ownsMachines reports whether a pool has Machines.
func ownsMachines(before map[types.UID]client.Object, p *clusterv1.MachinePool) bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(before)), func(obj client.Object) bool {
		_, is := obj.(*clusterv1.Machine)
		return is && metav1.IsControlledBy(obj, p)
	})
}

// undecided takes what happens to the Machines of pools out of a plan for which it is
// not predicted.
func undecided(machines []planv1.Machine, pools []planv1.Pool) []planv1.Machine {
	var all []planv1.Machine
	for _, m := range machines {
		if !slices.ContainsFunc(pools, func(p planv1.Pool) bool { return p.NotPredicted != "" && m.Owner == poolKind.Kind+" "+p.Name }) {
			all = append(all, m)
		} else if m.UID != "" {
			all = append(all, planv1.Machine{Name: m.Name, UID: m.UID, Owner: m.Owner})
		}
	}
	return all
}
