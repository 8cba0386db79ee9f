// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"errors"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/secretwatch"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/certificate"
)

// Issuer is an Issuer or a ClusterIssuer.
type Issuer interface {
	issuerSpec
	conditions.Setter
}

// IssuerReconciler has what the controller needs from outside. All fields but Secrets are
// required; Setup checks them.
type IssuerReconciler[T Issuer] struct {
	Name  string
	Kind  T             // empty
	Mgmt  client.Client // the management cluster
	Live  client.Reader // the same, past the cache: it does not hold the Secrets
	Clock clock.PassiveClock
	// Secrets watches the Secrets of authorities; nil watches none.
	Secrets *secretwatch.Follower
}

// Setup registers the controller.
func (r *IssuerReconciler[T]) Setup(_ context.Context, mgr ctrl.Manager) error {
	if r.Name == "" || r.Mgmt == nil || r.Live == nil || r.Clock == nil {
		return errors.New("issuer: Name, Mgmt, Live and Clock are required")
	}
	return controller.For(mgr, r.Name, r.Kind, predicate.GenerationChangedPredicate{}).
		WatchesSource(source.Func(r.Secrets.Start)).
		Complete(r)
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *IssuerReconciler[T]) Reconcile(ctx context.Context, issuer T) (ctrl.Result, error) {
	if honoured, err := issuersHonoured(ctx, r.Mgmt); err != nil || !honoured || !issuer.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, err
	}
	r.Secrets.Follow(client.ObjectKeyFromObject(issuer), issuerSecret(issuer)) // before it is read: no change is missed
	now := r.Clock.Now()
	_, problem, err := openAuthority(ctx, r.Live, issuer, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	commit := patch.Snapshot(r.Mgmt, issuer)
	c := certificate.IssuerCondition(issuer.GetSpec(), problem)
	c.ObservedGeneration = issuer.GetGeneration()
	conditions.Set(issuer, now, c)
	return ctrl.Result{}, commit(ctx)
}

// Forget stops watching the Secret of a deleted issuer.
func (r *IssuerReconciler[T]) Forget(key client.ObjectKey) { r.Secrets.Follow(key) }
