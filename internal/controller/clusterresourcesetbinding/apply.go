// SPDX-License-Identifier: Apache-2.0

package clusterresourcesetbinding

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// fieldOwner is the field manager of objects that are applied to workload clusters.
const fieldOwner = client.FieldOwner("capstan-clusterresourceset")

// applyAll applies all pending resources that the workload cluster accepts.
func (r *Reconciler) applyAll(ctx context.Context, s *state) {
	pending := false
	for i := range s.sets {
		set := &s.sets[i]
		entry := resourceset.Entry(s.binding.Spec.Bindings, set.Name)
		if entry == nil || !resourceset.Selects(set, s.cluster) || pause.Requested(nil, set) {
			continue
		}
		for j := range entry.Resources {
			if err := r.apply(ctx, s, set, &entry.Resources[j]); err != nil {
				s.errs = append(s.errs, fmt.Errorf("ClusterResourceSet %s: %w", set.Name, err))
			}
			pending = pending || !resourceset.Applied(entry.Resources[j])
		}
	}
	if pending && s.waiting != "" {
		s.failures = append(s.failures, resourceset.Failure{Message: s.waiting})
	}
}

// apply applies a resource unless that was done.
func (r *Reconciler) apply(ctx context.Context, s *state, set *addonsv1.ClusterResourceSet, to *addonsv1.ResourceBinding) error {
	again := set.Spec.Strategy == addonsv1.ClusterResourceSetStrategyReconcile
	if resourceset.Applied(*to) && !again || !resourceset.Applied(*to) && s.workload == nil {
		return nil
	}
	id := resource{set.Name, to.ResourceRef}
	hash, err := r.Payloads.Hash(ctx, set.Namespace, to.ResourceRef)
	switch {
	case errors.Is(err, resourcesets.ErrNotFound), errors.Is(err, resourcesets.ErrWrongType):
		return nil // the ClusterResourceSet reports it; applied objects stay
	case err != nil:
		return err
	case resourceset.Applied(*to) && to.Hash == hash:
		return nil
	}
	to.Applied = new(false)
	if s.workload == nil {
		return nil
	}
	a := s.progress.attempt(id, hash)
	switch {
	case a.useless || s.began.Before(a.due):
		s.failures = append(s.failures, resourceset.Failure{Set: set.Name, ResourceRef: to.ResourceRef, Message: a.message})
		return nil
	case s.down || s.more:
		return nil
	}
	payload, err := r.Payloads.Read(ctx, set.Namespace, to.ResourceRef)
	if err != nil || payload.Hash != hash {
		return err // if it has just changed, that change triggers a reconcile
	}
	problems := payload.Problems
	if again {
		problems = append(problems, payload.Unnamed...)
	}
	if a.useless = len(problems) > 0; !a.useless {
		problems = r.objects(ctx, s, a, payload.Objects, call{s.workload, again, to.Kind == addonsv1.SecretClusterResourceSetResourceKind})
	}
	switch {
	case len(problems) > 0:
		news := a.message
		a.fail(r.Clock.Now(), resourceset.Joined(problems))
		s.retry = a.due
		f := resourceset.Failure{Set: set.Name, ResourceRef: to.ResourceRef, Message: a.message}
		s.failures = append(s.failures, f)
		if a.message != news && !s.before[f] {
			s.fresh = append(s.fresh, fmt.Sprintf("%s %s of ClusterResourceSet %s: %s", f.Kind, f.Name, f.Set, f.Message))
		}
	case !s.more:
		delete(s.progress.of, id)
		to.Applied, to.Hash, to.LastAppliedTime = new(true), hash, metav1.NewTime(s.began)
		s.applied = append(s.applied, fmt.Sprintf("%s %s of ClusterResourceSet %s", to.Kind, to.Name, set.Name))
	}
	return nil
}

// objects applies the objects of a resource that were not applied yet.
func (r *Reconciler) objects(ctx context.Context, s *state, a *attempt, objects []*unstructured.Unstructured, c call) (problems []string) {
	a.awaits = false
	for i, obj := range objects {
		if a.done[i] {
			continue
		}
		if r.Clock.Since(s.began) > passLimit {
			s.more = true
			return problems
		}
		err := c.apply(ctx, obj.DeepCopy())
		if err == nil {
			a.done[i] = true
			continue
		}
		ctrl.LoggerFrom(ctx).V(2).Info("Not applying an object", "object", resourceset.Name(obj), "reason", c.words(obj, err))
		problems = append(problems, resourceset.Name(obj)+": "+c.words(obj, err))
		mapping, kind := errors.AsType[unmapped](err)
		a.awaits = a.awaits || kind && unserved(mapping.error)
		if s.down = unreachable(err); s.down {
			return problems
		}
	}
	return problems
}

// call defines how the objects of a resource are applied.
type call struct {
	client client.Client
	again  bool // whether existing objects are updated to the content of the resource
	secret bool // whether the resource is a Secret
}

// apply sends one object, in one request. In mode ApplyOnce it does not change
// existing objects.
func (c call) apply(ctx context.Context, obj *unstructured.Unstructured) error {
	kind := obj.GroupVersionKind()
	mapping, err := c.client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return unmapped{err}
	}
	switch {
	case mapping.Scope.Name() == meta.RESTScopeNameRoot:
		obj.SetNamespace("")
	case obj.GetNamespace() == "":
		obj.SetNamespace(corev1.NamespaceDefault)
	}
	if c.again {
		return c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.ForceOwnership, fieldOwner)
	}
	if err := c.client.Create(ctx, obj, fieldOwner); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// unmapped is why the resource of a kind was not found.
type unmapped struct{ error }

// Unwrap returns the cause.
func (u unmapped) Unwrap() error { return u.error }

// words returns why an object is not applied. For an object in a Secret, it repeats
// no text of the workload cluster, because that may contain data of the Secret.
func (c call) words(obj *unstructured.Unstructured, err error) string {
	var status apierrors.APIStatus
	switch mapping, kind := errors.AsType[unmapped](err); {
	case unreachable(err):
		return "the API server does not answer"
	case kind && unserved(mapping.error):
		return fmt.Sprintf("the API server does not serve this kind of %s yet", sanitize.Line(obj.GetAPIVersion(), maxWords))
	case kind:
		return "the API server does not report the kinds that it serves"
	case !errors.As(err, &status):
		return "it cannot be sent, or its answer not be read"
	}
	reason := apierrors.ReasonForError(err)
	if !slices.Contains(reasons, reason) {
		reason = "an unknown reason"
	}
	if c.secret {
		return fmt.Sprintf("the API server refuses it: %s", reason)
	}
	return fmt.Sprintf("the API server refuses it: %s: %s", reason, sanitize.Line(status.Status().Message, maxWords))
}

// maxWords bounds the repeated part of a response.
const maxWords = 240

// reasons are the reasons for which an API server refuses an object.
var reasons = []metav1.StatusReason{
	metav1.StatusReasonAlreadyExists, metav1.StatusReasonBadRequest, metav1.StatusReasonConflict, metav1.StatusReasonForbidden,
	metav1.StatusReasonInternalError, metav1.StatusReasonInvalid, metav1.StatusReasonMethodNotAllowed, metav1.StatusReasonNotFound,
	metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonServerTimeout, metav1.StatusReasonServiceUnavailable,
	metav1.StatusReasonTimeout, metav1.StatusReasonTooManyRequests, metav1.StatusReasonUnauthorized, metav1.StatusReasonUnsupportedMediaType,
}

// unreachable reports whether a request got no response at all, so that further
// requests would get none either.
func unreachable(err error) bool {
	_, transport := errors.AsType[*url.Error](err)
	return transport || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// unserved reports whether err has no other cause than that a kind is not served.
func unserved(err error) bool {
	var all []error
	switch e := err.(type) {
	case interface{ Errors() []error }:
		all = e.Errors()
	case interface{ Unwrap() []error }:
		all = e.Unwrap()
	default:
		return meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
	}
	return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !unserved(err) })
}

// recordEvents reports changes as an event of the Cluster.
func (r *Reconciler) recordEvents(s *state) {
	if len(s.applied) > 0 {
		r.Recorder.Eventf(s.cluster, nil, corev1.EventTypeNormal, "AddonsApplied", "Apply", "Applied %s", conditions.Names(s.applied))
	}
	if len(s.fresh) > 0 {
		r.Recorder.Eventf(s.cluster, nil, corev1.EventTypeWarning, "AddonsNotApplied", "Apply", "%s", sanitize.Line(conditions.Names(s.fresh), 3*maxWords))
	}
}
