// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	"github.com/capstan-dev/capstan/internal/access/secretwatch"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/certificate"
)

const (
	name = "certificate"

	// workers is the number of certificates that are issued concurrently: an RSA
	// key takes a tenth of a second of CPU time, and a large one many seconds.
	workers = 2
)

// SecretName is the index field by which the Certificates with the same Secret can
// be listed, by the name of the Secret.
const SecretName = "spec.secretName"

// OfSecretName returns the name of the Secret of a Certificate.
func OfSecretName(obj client.Object) []string {
	return []string{obj.(*certmanagerv1.Certificate).Spec.SecretName}
}

// Reconciler has what the controller needs from outside. All fields but Secrets are
// required; Setup checks them.
type Reconciler struct {
	Mgmt     client.Client // the management cluster
	Live     client.Reader // the same, past the cache: it does not hold the Secrets
	Clock    clock.PassiveClock
	Recorder events.EventRecorder
	// Secrets watches the Secrets of Certificates and authorities; nil watches
	// none.
	Secrets *secretwatch.Follower
}

// Setup registers the controller.
func (r *Reconciler) Setup(ctx context.Context, mgr ctrl.Manager) error {
	if r.Mgmt == nil || r.Live == nil || r.Clock == nil || r.Recorder == nil {
		return errors.New("certificate: Mgmt, Live, Clock and Recorder are required")
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &certmanagerv1.Certificate{}, SecretName, OfSecretName); err != nil {
		return fmt.Errorf("index Certificates by Secret: %w", err)
	}
	return controller.For(mgr, name, &certmanagerv1.Certificate{}, predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{},
		predicate.NewPredicateFuncs(func(obj client.Object) bool { return certificate.Asked(obj.(*certmanagerv1.Certificate)) }))).
		Watches(&certmanagerv1.Certificate{}, r.rivals, predicate.GenerationChangedPredicate{}).
		Watches(&certmanagerv1.Issuer{}, r.issuedBy, predicate.GenerationChangedPredicate{}).
		Watches(&certmanagerv1.ClusterIssuer{}, r.issuedBy, predicate.GenerationChangedPredicate{}).
		WatchesSource(source.Func(r.Secrets.Start)).
		Concurrency(workers).
		Complete(r)
}

// rivals returns the Certificates that have the same Secret, one of which may use
// it when this one is deleted.
func (r *Reconciler) rivals(ctx context.Context, obj client.Object) (all []reconcile.Request) {
	others, err := r.others(ctx, obj.(*certmanagerv1.Certificate))
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Waking the Certificates with the same Secret")
	}
	for _, c := range others {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
	}
	return all
}

// issuedBy returns the Certificates of an issuer.
func (r *Reconciler) issuedBy(ctx context.Context, issuer client.Object) (all []reconcile.Request) {
	list := &certmanagerv1.CertificateList{}
	if err := r.Mgmt.List(ctx, list, client.InNamespace(issuer.GetNamespace())); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Waking the Certificates of an issuer")
		return nil
	}
	kind := certmanagerv1.ClusterIssuerKind
	if issuer.GetNamespace() != "" {
		kind = certmanagerv1.IssuerKind
	}
	for i := range list.Items {
		if ref := certificate.IssuerOf(&list.Items[i]); ref.Kind == kind && ref.Name == issuer.GetName() {
			all = append(all, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return all
}

// Reconcile implements reconcile.ObjectReconciler.
func (r *Reconciler) Reconcile(ctx context.Context, c *certmanagerv1.Certificate) (ctrl.Result, error) {
	return reconciler.Flow[*certmanagerv1.Certificate, state]{
		Clock:    r.Clock,
		Observe:  r.observe,
		Snapshot: func(*state) patch.Commit { return patch.Snapshot(r.Mgmt, c) },
		Paused:   func(*state) {}, // these kinds have no condition for it
		Normal:   reconciler.InOrder(reconciler.Do("issue", r.issue), reconciler.Do("Secret", r.write)),
		Report:   r.report,
		Deadline: deadline,
	}.Reconcile(ctx, c)
}

// Forget stops watching the Secrets of a deleted Certificate.
func (r *Reconciler) Forget(key client.ObjectKey) { r.Secrets.Follow(key) }

// deadline is when the certificate must be renewed, if that is in the future; a
// certificate that cannot be renewed is followed until it expires.
func deadline(s *state) time.Time {
	if at := s.plan.Renewal; at.After(s.facts.Now) {
		return at
	}
	if end := s.facts.Secret.NotAfter; end.After(s.facts.Now) {
		return end
	}
	return time.Time{}
}

// report fills the status, and emits an event for an issued certificate, or why
// none was issued.
func (r *Reconciler) report(s *state, failed error) {
	if failed != nil { // the reconcile is incomplete and is retried
		return
	}
	certificate.Report(s.facts, s.plan, s.issued != nil)
	c := s.facts.Certificate
	switch {
	case s.issued != nil:
		r.Recorder.Eventf(c, nil, corev1.EventTypeNormal, "Issuing", "Issue", "The certificate has been successfully issued (%s)", s.issued.Reason)
	case s.plan.Obstacle != nil && !s.plan.Waiting && !s.told(s.plan.Obstacle):
		r.Recorder.Eventf(c, nil, corev1.EventTypeWarning, s.plan.Obstacle.Reason, "Issue", "%s", s.plan.Obstacle.Message)
	}
}
