// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"slices"
	"strings"
)

// self is the object of the condition.
func self(_ *walk, n *node) []*Object { return []*Object{n.object} }

// cluster is the Cluster of the object.
func cluster(w *walk, _ *node) []*Object {
	if w.cluster == nil {
		return nil
	}
	return []*Object{w.cluster}
}

// referred are the objects that a field refers to.
func referred(field string) func(*walk, *node) []*Object {
	return func(w *walk, n *node) []*Object { return w.referred(n.object, field) }
}

// referred are the objects that a field of an object refers to; o may be nil.
func (w *walk) referred(o *Object, field string) (all []*Object) {
	if o == nil {
		return nil
	}
	for _, ref := range o.Refs {
		if to := w.byKey[ref.To]; ref.Field == field && to != nil {
			all = append(all, to)
		}
	}
	return all
}

// The control plane and the infrastructure of the Cluster.
var controlPlane, clusterInfrastructure = ofCluster(fieldControlPlane), ofCluster(fieldInfrastructure)

func ofCluster(field string) func(*walk, *node) []*Object {
	return func(w *walk, _ *node) []*Object {
		if w.cluster == nil {
			return nil
		}
		return w.referred(w.cluster, field)
	}
}

// controlPlaneMachines are the Machines of the control plane.
func controlPlaneMachines(w *walk, n *node) (all []*Object) {
	for _, plane := range controlPlane(w, n) {
		all = append(all, owned(kindMachine)(w, &node{object: plane})...)
	}
	return all
}

// unapplied are the ClusterResourceSets of the Cluster that have a resource which is not
// applied to it.
func unapplied(w *walk, _ *node) (all []*Object) {
	for _, binding := range w.kinds[kindBinding] {
		for _, set := range w.referred(binding, fieldSets) {
			if slices.ContainsFunc(set.Resources, func(r string) bool { return !slices.Contains(binding.Resources, set.Name+" "+r) }) {
				all = append(all, set)
			}
		}
	}
	return all
}

// owned are the objects of these kinds that the object owns.
func owned(kinds ...string) func(*walk, *node) []*Object {
	return func(w *walk, n *node) []*Object {
		return slices.DeleteFunc(slices.Clone(w.owned[n.object.UID]), func(o *Object) bool { return !slices.Contains(kinds, o.Kind) })
	}
}

// checks are all MachineHealthChecks.
func checks(w *walk, _ *node) []*Object { return w.kinds[kindCheck] }

// users are the objects that refer to the object.
func users(w *walk, n *node) []*Object { return w.users[n.object.Key] }

// named are the ResourceQuotas that the message names.
func named(w *walk, n *node) []*Object {
	return slices.DeleteFunc(slices.Clone(w.kinds[kindQuota]), func(o *Object) bool { return !Names(n.Message, o.Name) })
}

// extensions are the ExtensionConfigs that the message names, also as the end of the name of
// a handler; an object of another kind may have the same name.
func extensions(w *walk, n *node) []*Object {
	return slices.DeleteFunc(slices.Clone(w.kinds[kindExtension]), func(o *Object) bool {
		return !strings.Contains(n.Message, `ExtensionConfig "`+o.Name+`"`) && !strings.Contains(n.Message, "."+o.Name+`"`)
	})
}

// Names reports whether a text has a name that is not a part of another name.
func Names(text, name string) bool {
	part := func(r byte) bool {
		return r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	}
	for at := 0; name != ""; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return false
		}
		start, end := at+i, at+i+len(name)
		before := start > 0 && (part(text[start-1]) || text[start-1] == '.' && start > 1 && part(text[start-2]))
		after := end < len(text) && (part(text[end]) || text[end] == '.' && end+1 < len(text) && part(text[end+1]))
		if !before && !after {
			return true
		}
		at = end
	}
	return false
}

// absent are the objects that the object refers to and that do not exist.
func absent(w *walk, n *node) (all []*Object) {
	for _, ref := range n.object.Refs {
		if to := w.byKey[ref.To]; to != nil && to.Missing {
			all = append(all, to)
		}
	}
	return all
}

// quotas are the ResourceQuotas that allow no further Machine, or no further object of the
// kinds that the object creates for its machines.
func quotas(w *walk, n *node) (all []*Object) {
	limits := []string{"count/machines.cluster.x-k8s.io"}
	for _, ref := range n.object.Refs {
		if kind, ok := strings.CutSuffix(ref.To.Kind, "Template"); ok {
			limits = append(limits, "count/"+strings.ToLower(kind)+"s."+ref.To.Group)
		}
	}
	if n.object.Kind == kindCluster {
		return nil // what it consists of is scaled, not the Cluster
	}
	for _, quota := range w.kinds[kindQuota] {
		if slices.ContainsFunc(quota.Exhausted, func(limit string) bool { return slices.Contains(limits, limit) }) {
			all = append(all, quota)
		}
	}
	return all
}

// both are the objects of two relations.
func both(a, b func(*walk, *node) []*Object) func(*walk, *node) []*Object {
	return func(w *walk, n *node) []*Object { return append(a(w, n), b(w, n)...) }
}
