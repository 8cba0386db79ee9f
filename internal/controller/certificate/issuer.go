// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/secretwatch"
	"github.com/capstan-dev/capstan/internal/kit/certs"
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
	authority, problem, err := openAuthority(ctx, r.Live, issuer, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	result := ctrl.Result{}
	if end := authority.NotAfter(); end.After(now) { // by then, it is not ready
		result.RequeueAfter = end.Sub(now) + time.Second
	}
	commit := patch.Snapshot(r.Mgmt, issuer)
	c := certificate.IssuerCondition(issuer.GetSpec(), problem)
	c.ObservedGeneration = issuer.GetGeneration()
	conditions.Set(issuer, now, c)
	return result, commit(ctx)
}

// Forget stops watching the Secret of a deleted issuer.
func (r *IssuerReconciler[T]) Forget(key client.ObjectKey) { r.Secrets.Follow(key) }

// issuerSpec is an Issuer or a ClusterIssuer.
type issuerSpec interface {
	client.Object
	GetSpec() *certmanagerv1.IssuerSpec
	SecretNamespace() string
}

// issuersHonoured reports whether Capstan is responsible for the kinds of the group: their
// definitions are its own, not those of an installed cert-manager.
func issuersHonoured(ctx context.Context, mgmt client.Reader) (bool, error) {
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	key := client.ObjectKey{Name: "certificates." + certmanagerv1.GroupVersion().Group}
	if err := mgmt.Get(ctx, key, crd); err != nil {
		return false, client.IgnoreNotFound(fmt.Errorf("get CustomResourceDefinition %s: %w", key.Name, err))
	}
	return certmanagerv1.Ours(crd.Labels), nil
}

// getIssuer reads the issuer of a Certificate; nil if not found.
func getIssuer(ctx context.Context, mgmt client.Reader, c *certmanagerv1.Certificate) (issuerSpec, error) {
	ref := certificate.IssuerOf(c)
	var issuer issuerSpec = &certmanagerv1.Issuer{}
	key := client.ObjectKey{Namespace: c.Namespace, Name: ref.Name}
	if ref.Kind == certmanagerv1.ClusterIssuerKind {
		issuer, key.Namespace = &certmanagerv1.ClusterIssuer{}, ""
	}
	err := mgmt.Get(ctx, key, issuer)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get %s %s: %w", ref.Kind, key, err)
	}
	return issuer, nil
}

// issuerSecret returns the key of the Secret of an issuer's authority; the name is empty
// if there is none.
func issuerSecret(issuer issuerSpec) client.ObjectKey {
	if ca := issuer.GetSpec().CA; ca != nil {
		return client.ObjectKey{Namespace: issuer.SecretNamespace(), Name: ca.SecretName}
	}
	return client.ObjectKey{}
}

// openAuthority returns the authority of an issuer, or the reason why it cannot issue.
// Secrets are read without the cache, which does not hold them.
func openAuthority(ctx context.Context, live client.Reader, issuer issuerSpec, now time.Time) (certs.Authority, *certificate.Reason, error) {
	spec := issuer.GetSpec()
	if problem := certificate.CheckIssuer(spec); problem != nil {
		return certs.Authority{}, problem, nil
	}
	if spec.CA == nil {
		return certs.Authority{CRLDistributionPoints: spec.SelfSigned.CRLDistributionPoints}, nil, nil
	}
	key, secret := issuerSecret(issuer), &corev1.Secret{}
	if err := live.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		return certs.Authority{}, &certificate.Reason{Reason: certmanagerv1.GetKeyPairReason, Message: fmt.Sprintf("Error getting keypair for CA issuer: Secret %s does not exist", key)}, nil
	} else if err != nil {
		return certs.Authority{}, nil, fmt.Errorf("get Secret %s: %w", key, err)
	}
	if secret.Type == clusterv1.ClusterSecretType { // permission to write issuers must not allow any identity in a cluster
		return certs.Authority{}, &certificate.Reason{Reason: certmanagerv1.BrokenKeyPairReason, Message: fmt.Sprintf("Error getting keypair for CA issuer: Secret %s is that of a Cluster, whose authority signs nothing else", key)}, nil
	}
	a, err := certs.OpenAuthority(certs.Pair{Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}, now)
	if err != nil {
		return certs.Authority{}, &certificate.Reason{Reason: certmanagerv1.BrokenKeyPairReason, Message: fmt.Sprintf("Error getting keypair for CA issuer: Secret %s: %s", key, err)}, nil
	}
	a.CRLDistributionPoints, a.OCSPServers, a.IssuingCertificateURLs = spec.CA.CRLDistributionPoints, spec.CA.OCSPServers, spec.CA.IssuingCertificateURLs
	return a, nil, nil
}
