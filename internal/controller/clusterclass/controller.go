// SPDX-License-Identifier: Apache-2.0

package clusterclass

import (
	"context"
	"crypto/sha256"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

const name = "clusterclass"

// Extensions calls the handler of a runtime extension, and caches answers.
type Extensions interface {
	CallExtension(ctx context.Context, hook any, forObject metav1.Object, name string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error
	// Reject evicts an answer that cannot be used.
	Reject(hook any, name string, request hooksv1.RequestObject)
	// Source returns requests for the objects that a changed registration affects.
	Source(extensions.ToRequests) source.Source
}

// Reconciler has what the controller needs from outside. Setup checks it.
type Reconciler struct {
	deps.Deps
	Extensions Extensions

	watcher provider.Watcher                     // set by Setup; without it nothing is watched
	checked controller.Memory[[sha256.Size]byte] // the definitions that were last found valid
}

// Setup registers the controller and its watches; watches of templates start when
// classes name their kinds.
func (r *Reconciler) Setup(_ context.Context, mgr ctrl.Manager) (err error) {
	if err := r.Check("clusterclass"); err != nil {
		return err
	}
	if r.Extensions == nil {
		return errors.New("clusterclass: Extensions are required")
	}
	r.watcher, err = controller.For(mgr, name, &clusterv1.ClusterClass{}, predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})).
		WatchesSource(r.Extensions.Source(r.ofExtension)).
		Build(r)
	return err
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, class *clusterv1.ClusterClass) (ctrl.Result, error) {
	return reconciler.Flow[*clusterv1.ClusterClass, state]{
		Clock:    r.Clock,
		Observe:  observe,
		Snapshot: func(*state) patch.Commit { return patch.Snapshot(r.Mgmt, class) },
		Normal: reconciler.All(
			reconciler.Do("own templates", r.ownTemplates),
			reconciler.Do("define variables", r.defineVariables)),
		Report:     r.report,
		Deprecated: reconciler.If(r.Deprecated, r.reportDeprecated),
	}.Reconcile(ctx, class)
}

// observe starts a reconcile. It returns no state for a class that is being
// deleted.
func observe(_ context.Context, class *clusterv1.ClusterClass) (*state, error) {
	if !class.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return &state{class: class}, nil
}
