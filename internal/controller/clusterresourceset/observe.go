// SPDX-License-Identifier: Apache-2.0

package clusterresourceset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// state has what one reconcile has read. Listed objects are in the cache, and must
// not be changed.
type state struct {
	set      *addonsv1.ClusterResourceSet
	clusters []*clusterv1.Cluster // that it selects, by name
	sets     []addonsv1.ClusterResourceSet
	bindings map[string]*addonsv1.ClusterResourceSetBinding // of its namespace, by name

	missing, wrongType []addonsv1.ResourceRef
	invalid            string // why its selector cannot be used
}

func (r *Reconciler) observe(ctx context.Context, set *addonsv1.ClusterResourceSet) (*state, error) {
	s := &state{set: set, bindings: map[string]*addonsv1.ClusterResourceSetBinding{}}
	here := []client.ListOption{client.InNamespace(set.Namespace), client.UnsafeDisableDeepCopy}
	var bindings addonsv1.ClusterResourceSetBindingList
	if err := r.Mgmt.List(ctx, &bindings, here...); err != nil {
		return nil, fmt.Errorf("list ClusterResourceSetBindings: %w", err)
	}
	for i := range bindings.Items {
		s.bindings[bindings.Items[i].Name] = &bindings.Items[i]
	}
	if !set.DeletionTimestamp.IsZero() {
		return s, nil
	}
	selector, err := resourceset.Selector(set)
	if err != nil {
		s.invalid = err.Error()
		return s, nil
	}
	var clusters clusterv1.ClusterList
	if err := r.Mgmt.List(ctx, &clusters, append(here, client.MatchingLabelsSelector{Selector: selector})...); err != nil {
		return nil, fmt.Errorf("list Clusters: %w", err)
	}
	for i := range clusters.Items {
		if c := &clusters.Items[i]; c.DeletionTimestamp.IsZero() {
			s.clusters = append(s.clusters, c)
		}
	}
	slices.SortFunc(s.clusters, func(a, b *clusterv1.Cluster) int { return strings.Compare(a.Name, b.Name) })
	return s, nil
}

// ownResources makes the ClusterResourceSets that name Secrets and ConfigMaps their
// owners, so that a move or deletion of the owner includes them.
func (r *Reconciler) ownResources(ctx context.Context, s *state) (reconciler.Next, error) {
	ref, err := owner.Reference(s.set, r.Mgmt)
	if err != nil {
		return reconciler.Continue(), err
	}
	var errs []error
	for _, resource := range s.set.Spec.Resources {
		if slices.Contains(s.missing, resource) || slices.Contains(s.wrongType, resource) {
			continue
		}
		switch err := r.own(ctx, s.set.Namespace, resource, ref); {
		case errors.Is(err, resourcesets.ErrNotFound):
			s.missing = append(s.missing, resource)
		case errors.Is(err, resourcesets.ErrWrongType):
			s.wrongType = append(s.wrongType, resource)
		default:
			errs = append(errs, err)
		}
	}
	return reconciler.Continue(), errors.Join(errs...)
}

func (r *Reconciler) own(ctx context.Context, namespace string, resource addonsv1.ResourceRef, ref metav1.OwnerReference) error {
	found, err := r.Payloads.Find(ctx, namespace, resource)
	if err != nil {
		return err
	}
	before := found.DeepCopy()
	if !found.DeletionTimestamp.IsZero() || !owner.Set(found, ref) {
		return nil
	}
	err = r.Mgmt.Patch(ctx, found, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("own %s %s: %w", resource.Kind, resource.Name, err)
	}
	return nil
}

// makeBindings creates the missing bindings. Of the ClusterResourceSets that select
// a Cluster, only the first by name creates the binding, so that the others do not
// get conflicts. A paused Cluster gets none: a move of the Cluster may include one.
func (r *Reconciler) makeBindings(ctx context.Context, s *state) (reconciler.Next, error) {
	var errs []error
	for _, cluster := range s.clusters {
		if s.bindings[cluster.Name] != nil || ptr.Deref(cluster.Spec.Paused, false) {
			continue
		}
		mine, err := r.isFirst(ctx, s, cluster)
		if err == nil && mine {
			err = r.bind(ctx, s.set, cluster)
		}
		errs = append(errs, err)
	}
	return reconciler.Continue(), errors.Join(errs...)
}

func (r *Reconciler) isFirst(ctx context.Context, s *state, cluster *clusterv1.Cluster) (bool, error) {
	if s.sets == nil {
		var sets addonsv1.ClusterResourceSetList
		if err := r.Mgmt.List(ctx, &sets, client.InNamespace(s.set.Namespace), client.UnsafeDisableDeepCopy); err != nil {
			return false, fmt.Errorf("list ClusterResourceSets: %w", err)
		}
		s.sets = sets.Items
	}
	return !slices.ContainsFunc(s.sets, func(other addonsv1.ClusterResourceSet) bool {
		return other.Name < s.set.Name && resourceset.Selects(&other, cluster) && !pause.Requested(nil, &other)
	}), nil
}

func (r *Reconciler) bind(ctx context.Context, set *addonsv1.ClusterResourceSet, cluster *clusterv1.Cluster) error {
	ref, err := owner.Reference(set, r.Mgmt)
	if err != nil {
		return err
	}
	b := &addonsv1.ClusterResourceSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.Namespace, Name: cluster.Name, OwnerReferences: []metav1.OwnerReference{ref}}}
	b.Spec.ClusterName = cluster.Name
	ctrl.LoggerFrom(ctx).Info("Creating ClusterResourceSetBinding", "Cluster", klog.KObj(cluster))
	if err := r.Mgmt.Create(ctx, b); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ClusterResourceSetBinding %s: %w", b.Name, err)
	}
	return nil
}

// waitForBindings allows the deletion of the ClusterResourceSet when no binding has
// an entry for it any longer. The applied resources stay.
func waitForBindings(_ context.Context, s *state) (reconciler.Next, error) {
	for _, b := range s.bindings {
		if resourceset.Entry(b.Spec.Bindings, s.set.Name) != nil {
			return reconciler.Wait(0), nil // the change of the binding triggers a reconcile
		}
	}
	reconciler.RemoveFinalizers(s.set, addonsv1.ClusterResourceSetFinalizer)
	return reconciler.Continue(), nil
}

// report fills the status. It is pure except for the time.
func (r *Reconciler) report(s *state, failed error) {
	now := r.Clock.Now()
	conditions.Set(s.set, now, pause.Condition(nil, s.set))
	if !s.mustWrite(failed) {
		return
	}
	c := resourceset.ResourcesApplied(s.status(failed))
	c.ObservedGeneration = s.set.Generation
	conditions.Set(s.set, now, c)
	if failed == nil {
		s.set.Status.ObservedGeneration = s.set.Generation
	}
}

// reportDeprecated sets the fields for clients of v1beta1.
func (r *Reconciler) reportDeprecated(s *state, failed error) {
	if s.mustWrite(failed) {
		resourceset.ReportDeprecated(s.status(failed), r.Clock.Now())
	}
}

// mustWrite reports whether the status must be written. It need not after a conflict
// with another owner of the same resource: the reconcile is retried immediately.
func (s *state) mustWrite(failed error) bool {
	return s.set.DeletionTimestamp.IsZero() && !apierrors.IsConflict(failed)
}

func (s *state) status(failed error) resourceset.Status {
	status := resourceset.Status{Set: s.set, Missing: s.missing, WrongType: s.wrongType, Invalid: s.invalid, Failed: failed != nil}
	for _, c := range s.clusters {
		status.Clusters = append(status.Clusters, resourceset.Cluster{Name: c.Name, Paused: ptr.Deref(c.Spec.Paused, false), Binding: s.bindings[c.Name]})
	}
	return status
}
