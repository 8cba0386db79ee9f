// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
)

// Ready returns an error if objects may not move in their current state: a status does
// not move, so that what is not yet known would be lost with it; and an object that a
// user paused must not run after the move.
func (p *Plan) Ready(objects []*unstructured.Unstructured) error {
	byUID := map[types.UID]*unstructured.Unstructured{}
	for _, obj := range objects {
		byUID[obj.GetUID()] = obj
	}
	var errs []error
	for _, i := range p.Items {
		obj := byUID[i.UID]
		if i.Keep == "" && obj.GetDeletionTimestamp() != nil {
			errs = append(errs, fmt.Errorf("%s is being deleted: wait until it is gone", i))
		}
		if i.Keep == "" && Paused(i, obj) {
			errs = append(errs, fmt.Errorf("%s is paused: end its pause first, or it would not run after the move either", i))
		}
		errs = append(errs, unready(i, obj))
	}
	return errors.Join(errs...)
}

func unready(i Item, obj *unstructured.Unstructured) error {
	switch {
	case i.Of(Clusters()) && underPlan(obj):
		return fmt.Errorf("%s is under a plan that is being carried out (condition PlanHeld): the guard does not move; wait for the plan, or end it with capstan apply --release", i)
	case i.Of(Clusters()) && !isTrue(obj, "status", "initialization", "infrastructureProvisioned") && !isTrue(obj, "status", "infrastructureReady"):
		return fmt.Errorf("%s has no infrastructure yet (status.initialization.infrastructureProvisioned): wait until it is provisioned", i)
	case i.Of(Clusters()) && !isTrue(obj, "status", "initialization", "controlPlaneInitialized") && !hasCondition(obj, clusterv1.ClusterControlPlaneInitializedCondition):
		return fmt.Errorf("%s has no control plane yet (condition ControlPlaneInitialized): wait until it is initialized", i)
	case i.Of(schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: "Machine"}):
		if node, _, _ := unstructured.NestedString(obj.Object, "status", "nodeRef", "name"); node == "" {
			return fmt.Errorf("%s has no Node yet (status.nodeRef): wait until it has joined, or delete it", i)
		}
	}
	return nil
}

func isTrue(obj *unstructured.Unstructured, fields ...string) bool {
	b, _, _ := unstructured.NestedBool(obj.Object, fields...)
	return b
}

func hasCondition(obj *unstructured.Unstructured, condition string) bool {
	all, _ := conditions.FromUnstructured(obj) // conditions that cannot be read are ignored
	return conditions.IsTrue(all, condition)
}

// underPlan reports whether a plan of a Cluster is being carried out.
func underPlan(obj *unstructured.Unstructured) bool {
	all, _ := conditions.FromUnstructured(obj) // conditions that cannot be read are ignored
	held := conditions.Get(all, planv1.PlanHeldCondition)
	return held != nil && held.Reason != planv1.PlanRequiredReason
}

// Pausable reports whether an object of the kind is paused while it moves.
func Pausable(i Item) bool { return i.Of(Clusters()) || i.Of(ClusterClasses()) }

// Paused reports whether controllers do not reconcile the object, nor the objects that it
// owns. Only a Cluster or a ClusterClass can be paused.
func Paused(i Item, obj *unstructured.Unstructured) bool {
	if i.Of(ClusterClasses()) {
		_, paused := obj.GetAnnotations()[clusterv1.PausedAnnotation]
		return paused
	}
	return i.Of(Clusters()) && isTrue(obj, "spec", "paused")
}

// Pause is the merge patch that starts a pause, or ends it so that the field no longer
// has an owner.
func Pause(i Item, paused bool) map[string]any {
	if i.Of(ClusterClasses()) {
		var value any
		if paused {
			value = "true"
		}
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{clusterv1.PausedAnnotation: value}}}
	}
	var value any
	if paused {
		value = true
	}
	return map[string]any{"spec": map[string]any{"paused": value}}
}

// Provider is a provider that is installed on a management cluster.
type Provider struct{ Name, Type, Version string }

// Suits returns an error for providers of the source that the target lacks, or has in an
// older version.
func Suits(source, target []Provider) error {
	var errs []error
	for _, s := range source {
		best := ""
		for _, t := range target {
			if t.Name == s.Name && t.Type == s.Type && (best == "" || older(best, t.Version)) {
				best = t.Version
			}
		}
		switch {
		case best == "":
			errs = append(errs, fmt.Errorf("the target has no provider %s (%s): install %s %s or later there", s.Name, s.Type, s.Name, cmp.Or(s.Version, "of any version")))
		case older(best, s.Version):
			errs = append(errs, fmt.Errorf("provider %s (%s) of the target is older than that of the source, %s instead of %s: upgrade it there", s.Name, s.Type, best, s.Version))
		}
	}
	return errors.Join(errs...)
}

// older reports whether a version precedes another. It is false for text that is no
// version.
func older(a, b string) bool {
	va, err1 := version.ParseSemantic(a)
	vb, err2 := version.ParseSemantic(b)
	return err1 == nil && err2 == nil && va.LessThan(vb)
}

// MayReplace returns an error if an object of the target cannot be replaced by a copy.
func MayReplace(i Item, have *unstructured.Unstructured, operation string) error {
	mark := MarkOf(have)
	switch {
	case have.GetDeletionTimestamp() != nil:
		return fmt.Errorf("%s is being deleted there: wait until it is gone", i)
	case mark.Operation != "" && mark.Operation != operation:
		return fmt.Errorf("%s is part of another move, operation %s: finish that, or roll it back", i, mark.Operation)
	case mark.Operation == "" && i.Of(Clusters()) && !Paused(i, have):
		return fmt.Errorf("there is a %s already, which is not paused: both sides would look after it; delete or pause the one that is not meant", i)
	}
	return nil
}

// Right is a permission that a move needs at one side.
type Right struct {
	AtTarget bool
	Verb     string
	Kind     schema.GroupResource
	// Namespace is empty for the whole management cluster.
	Namespace string
}

// Rights are the permissions that a plan needs, with its journals in a namespace.
func (p *Plan) Rights(journals string) (all []Right) {
	needs := func(atTarget bool, group, resource, in string, verbs ...string) {
		for _, verb := range verbs {
			r := Right{atTarget, verb, schema.GroupResource{Group: group, Resource: resource}, in}
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	needs(false, "", "configmaps", journals, "get", "create", "update", "delete")
	needs(true, "", "configmaps", journals, "get", "create", "update", "delete")
	needs(true, "", "secrets", journals, "get", "create", "update", "delete")
	for _, i := range p.Items {
		if i.Keep == "" {
			needs(false, i.Kind.Group, i.Kind.Resource, i.Namespace, "patch", "delete")
		}
		needs(true, i.Kind.Group, i.Kind.Resource, i.Namespace, "list", "create", "update", "patch", "delete")
	}
	return all
}

// Awaited lists what providers block, and what its controller still reconciles.
func (p *Plan) Awaited(objects map[types.UID]*unstructured.Unstructured) (blocked, working []Item) {
	clusters := map[string]bool{}
	for _, i := range p.Items {
		if i.Of(Clusters()) {
			clusters[i.Name] = true
		}
	}
	for _, i := range p.Items {
		obj := objects[i.UID]
		if Blocks(obj) {
			blocked = append(blocked, i)
		}
		of := obj.GetLabels()[clusterv1.ClusterNameLabel]
		if Works(obj) && (i.Of(Clusters()) || i.Keep == "" && clusters[of]) {
			working = append(working, i)
		}
	}
	return blocked, working
}

// Blocks reports whether a provider needs time before an object moves.
func Blocks(obj *unstructured.Unstructured) bool {
	_, is := obj.GetAnnotations()[clusterctlv1.BlockMoveAnnotation]
	return is
}

// Works reports whether the conditions of an object show that its controller reconciles
// it. An object without readable conditions does not count.
func Works(obj *unstructured.Unstructured) bool {
	all, _ := conditions.FromUnstructured(obj)
	return conditions.IsFalse(all, clusterv1.PausedCondition)
}
