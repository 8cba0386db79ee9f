// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// object identifies an object.
type object struct {
	kind schema.GroupKind
	name string
}

// refers records the objects to which an object refers: none if that is being
// deleted, except for a pool, which deletes its objects itself.
func (s *state) refers(by client.Object, refs ...clusterv1.ContractVersionedObjectReference) {
	_, pool := by.(*clusterv1.MachinePool)
	if !by.GetDeletionTimestamp().IsZero() && !pool {
		return
	}
	for _, ref := range refs {
		s.used[object{ref.GroupKind(), ref.Name}] = true
		s.memory.kinds[ref.GroupKind()] = true
	}
}

// uses records templates that are in use from now on, or still.
func (s *state) uses(templates ...*unstructured.Unstructured) {
	for _, t := range templates {
		if t != nil {
			kind := t.GroupVersionKind().GroupKind()
			s.used[object{kind, t.GetName()}] = true
			s.memory.kinds[kind] = true
		}
	}
}

// removeLeftovers deletes objects that are no longer desired: health checks before
// their targets, and templates when no object refers to them. It emits events for
// all writes.
func (r *Reconciler) removeLeftovers(ctx context.Context, s *state) (reconciler.Next, error) {
	defer r.emitWrites(s)
	errs := []error{r.removeHealthChecks(ctx, s)}
	for _, key := range slices.SortedFunc(maps.Keys(s.groups), byName) {
		if s.workers(key) == nil {
			errs = append(errs, r.remove(ctx, s, s.groups[key].Object))
		}
	}
	errs = append(errs, r.freeGroups(ctx, s), r.removeTemplates(ctx, s))
	return reconciler.Continue(), errors.Join(errs...)
}

// remove deletes an object.
func (r *Reconciler) remove(ctx context.Context, s *state, obj *unstructured.Unstructured) error {
	if !obj.GetDeletionTimestamp().IsZero() {
		return nil
	}
	key := client.ObjectKeyFromObject(obj)
	if err := r.Mgmt.Delete(ctx, obj, client.Preconditions{UID: new(obj.GetUID())}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s %s: %w", obj.GetKind(), key, err)
	}
	s.memory.written.Forget(obj)
	s.note("Delete", "Deleted %s %q", obj.GetKind(), key.String())
	ctrl.LoggerFrom(ctx).Info("Deleted an object that the topology no longer has", "kind", obj.GetKind(), "name", obj.GetName())
	return nil
}

// removeHealthChecks deletes health checks that are no longer desired. The check of
// a part that could not be read stays.
func (r *Reconciler) removeHealthChecks(ctx context.Context, s *state) error {
	wanted := map[string]bool{}
	keep := func(check, of *unstructured.Unstructured, name string) {
		if check != nil {
			name = check.GetName()
		}
		wanted[name] = wanted[name] || check != nil || of == nil
	}
	keep(s.desired.ControlPlane.HealthCheck, s.desired.ControlPlane.Object, s.desired.ControlPlaneRef.Name)
	for _, p := range s.desired.Deployments {
		name := ""
		if g := s.groups[upgrade.GroupKey{Kind: upgrade.MachineDeployment, Name: p.Name}]; g != nil {
			name = g.Object.GetName()
		}
		keep(p.HealthCheck, p.Object, name)
	}
	var checks clusterv1.MachineHealthCheckList
	if err := r.ofCluster(ctx, s, &checks); err != nil {
		return err
	}
	var errs []error
	for i := range checks.Items {
		check := &checks.Items[i]
		if wanted[check.Name] {
			continue
		}
		obj, err := untyped(check, "MachineHealthCheck")
		if err == nil {
			err = r.remove(ctx, s, obj)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ofCluster lists the objects of the Cluster that have the label of a topology.
// They are shared with the cache.
func (r *Reconciler) ofCluster(ctx context.Context, s *state, list client.ObjectList) error {
	err := r.Mgmt.List(ctx, list, client.InNamespace(s.cluster.Namespace), client.MatchingFields{index.ClusterName: s.cluster.Name}, client.HasLabels{clusterv1.ClusterTopologyOwnedLabel}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("list what is of the topology of Cluster %s: %w", s.cluster.Name, err)
	}
	return nil
}

// removeTemplates deletes copies of templates to which no object refers any longer,
// and objects created for a pool that was never created.
func (r *Reconciler) removeTemplates(ctx context.Context, s *state) error {
	sets, err := r.sets(ctx, s)
	if err != nil {
		return err
	}
	for i := range sets {
		spec := sets[i].Spec.Template.Spec
		s.refers(&sets[i], spec.Bootstrap.ConfigRef, spec.InfrastructureRef)
	}
	var errs []error
	for _, kind := range slices.SortedFunc(maps.Keys(s.memory.kinds), inOrder) { // one event names all of them
		errs = append(errs, r.removeUnused(ctx, s, kind))
	}
	return errors.Join(errs...)
}

func (r *Reconciler) removeUnused(ctx context.Context, s *state, kind schema.GroupKind) error {
	found, err := r.copies(ctx, s, kind)
	if err != nil {
		return err
	}
	var errs []error
	for i := range found {
		if obj := &found[i]; !s.used[object{kind, obj.GetName()}] && r.madeFor(s, obj) {
			errs = append(errs, r.remove(ctx, s, obj))
		}
	}
	return errors.Join(errs...)
}

// copies lists the objects of a kind that were created for the topology: none if
// the kind does not exist any longer.
func (r *Reconciler) copies(ctx context.Context, s *state, kind schema.GroupKind) ([]unstructured.Unstructured, error) {
	found, err := r.Providers.List(ctx, kind, s.cluster.Namespace, clusterv1.ClusterNameLabel, client.MatchingLabels{
		clusterv1.ClusterNameLabel: s.cluster.Name, clusterv1.ClusterTopologyOwnedLabel: "",
	})
	if e, ok := errors.AsType[*provider.KindError](err); ok && e.NoCRD {
		return nil, nil
	}
	return found, err
}

// sets lists the MachineSets of the topology.
func (r *Reconciler) sets(ctx context.Context, s *state) ([]clusterv1.MachineSet, error) {
	var sets clusterv1.MachineSetList
	err := r.ofCluster(ctx, s, &sets)
	return sets.Items, err
}

// madeFor reports whether an object was created for the Cluster only. A template
// has no other owner that deletes it; another object has one, once a pool has
// adopted it.
func (r *Reconciler) madeFor(s *state, obj *unstructured.Unstructured) bool {
	if strings.HasSuffix(obj.GetKind(), clusterv1.TemplateSuffix) {
		return true
	}
	_, pool := obj.GetLabels()[clusterv1.ClusterTopologyMachinePoolNameLabel]
	others := slices.ContainsFunc(obj.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID != s.cluster.UID })
	return pool && !others
}

// freeGroups removes the finalizers by which Cluster API delays the deletion of the
// groups of a topology until it has deleted their templates. Here nothing waits for
// that.
func (r *Reconciler) freeGroups(ctx context.Context, s *state) error {
	var deployments clusterv1.MachineDeploymentList
	sets, err := r.sets(ctx, s)
	if err := errors.Join(err, r.ofCluster(ctx, s, &deployments)); err != nil {
		return err
	}
	var errs []error
	free := func(obj client.Object, finalizer string) {
		if !controllerutil.ContainsFinalizer(obj, finalizer) {
			return
		}
		obj = obj.DeepCopyObject().(client.Object)
		commit := patch.Snapshot(r.Mgmt, obj)
		controllerutil.RemoveFinalizer(obj, finalizer)
		errs = append(errs, commit(ctx))
	}
	for i := range deployments.Items {
		free(&deployments.Items[i], clusterv1.MachineDeploymentTopologyFinalizer)
	}
	for i := range sets {
		free(&sets[i], clusterv1.MachineSetTopologyFinalizer)
	}
	return errors.Join(errs...)
}
