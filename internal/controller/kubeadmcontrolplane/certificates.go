// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/secrets"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// cacheLag is how long to wait for a Secret that exists and is not yet in the
// cache; usually its event triggers a reconcile earlier.
const cacheLag = 100 * time.Millisecond

// repairInterval is the requeue interval while a user has to repair something that
// no watch of this controller shows.
const repairInterval = secrets.Interval

// errNotInCache means that an object exists and is not in the cache yet.
var errNotInCache = errors.New("not in the cache yet")

// ownTemplate makes the Cluster the owner of the infrastructure template, so that
// it is deleted with the Cluster.
func (r *Reconciler) ownTemplate(ctx context.Context, s *state) (reconciler.Next, error) {
	switch {
	case s.template != nil:
		return reconciler.Continue(), r.Providers.Adopt(ctx, s.template, provider.Adoption{Claim: reference.ToShare(s.Cluster)})
	case s.unwatched:
		return reconciler.RequeueAfter(repairInterval), nil
	}
	return reconciler.Continue(), nil // the conditions report it; it is needed only for new machines
}

func waitForInfrastructure(_ context.Context, s *state) (reconciler.Next, error) {
	if done := s.Cluster.Status.Initialization.InfrastructureProvisioned; done == nil || !*done {
		return reconciler.Wait(0), nil // the Cluster triggers a reconcile
	}
	return reconciler.Continue(), nil
}

func waitForEndpoint(_ context.Context, s *state) (reconciler.Next, error) {
	if s.Cluster.Spec.ControlPlaneEndpoint.IsZero() {
		return reconciler.Wait(0), nil // the Cluster triggers a reconcile
	}
	return reconciler.Continue(), nil
}

// certificates reads the certificates of the cluster, and creates missing ones
// until kubeadm has used them: afterwards new ones would not match.
func (r *Reconciler) certificates(ctx context.Context, s *state) (reconciler.Next, error) {
	for _, purpose := range purposes(s) {
		pair, err := r.pair(ctx, s, purpose)
		if errors.Is(err, errNotInCache) {
			return reconciler.Wait(cacheLag), nil
		}
		switch {
		case err != nil:
			s.Certificates.Err = errors.Join(s.Certificates.Err, err)
		case purpose == certs.CA:
			s.ca = pair
		case purpose == certs.Etcd:
			s.etcdCA = pair
		}
	}
	s.Certificates.Checked = true
	_, missing := errors.AsType[*controlplane.MissingError](s.Certificates.Err)
	switch err := s.Certificates.Err; {
	case err == nil:
		return reconciler.Continue(), nil
	case controlplane.Initialized(s.ControlPlane) && len(s.orphans) == 0:
		return reconciler.RequeueAfter(repairInterval), nil // existing machines can continue; the conditions report it
	case missing || len(s.orphans) > 0:
		return reconciler.Wait(repairInterval), nil
	default:
		return reconciler.Continue(), err
	}
}

func purposes(s *state) []certs.Purpose {
	all := []certs.Purpose{certs.CA, certs.Etcd, certs.FrontProxy, certs.ServiceAccount}
	if !controlplane.ManagesEtcd(s.ControlPlane) {
		all = append(all, certs.APIServerEtcdClient)
	}
	return all
}

func (r *Reconciler) secrets() secrets.Store { return secrets.Store{Mgmt: r.Mgmt, Live: r.Live} }

func (r *Reconciler) pair(ctx context.Context, s *state, purpose certs.Purpose) (certs.Pair, error) {
	ofEtcd := purpose == certs.Etcd || purpose == certs.APIServerEtcdClient
	origin := controlplane.OriginOf(ofEtcd, s.ControlPlane, len(s.orphans) > 0)
	find := r.secrets().Find
	if origin == controlplane.Made { // if not in the cache, it is created, or found to exist
		find = r.secrets().Get
	}
	var keeper client.Object = s.ControlPlane
	if origin == controlplane.Brought {
		keeper = nil // it stays the user's
	}
	secret, err := find(ctx, s.Cluster, purpose, keeper)
	switch {
	case err == nil && origin == controlplane.Brought && purpose == certs.Etcd:
		return certs.FromSecret(secret, purpose) // an external signer has its key
	case err == nil:
		return certs.WithKey(secret, purpose)
	case !apierrors.IsNotFound(err):
		return certs.Pair{}, err
	case origin != controlplane.Made:
		return certs.Pair{}, &controlplane.MissingError{Secret: s.Cluster.Namespace + "/" + certs.SecretName(s.Cluster.Name, purpose), Origin: origin}
	}
	return r.generate(ctx, s, purpose)
}

func (r *Reconciler) generate(ctx context.Context, s *state, purpose certs.Purpose) (certs.Pair, error) {
	config := s.ControlPlane.Spec.KubeadmConfigSpec.ClusterConfiguration
	validity := time.Duration(config.CACertificateValidityPeriodDays) * 24 * time.Hour
	pair, err := certs.New(purpose, certs.Chosen(config.EncryptionAlgorithm), s.Now, validity)
	if err != nil {
		return certs.Pair{}, fmt.Errorf("make certificate %s: %w", purpose, err)
	}
	ref, err := owner.Controller(s.ControlPlane, r.Mgmt)
	if err != nil {
		return certs.Pair{}, err
	}
	secret := pair.Secret(s.key(), purpose, &ref)
	if err := r.create(ctx, s, secret, purpose); err != nil {
		return certs.Pair{}, err
	}
	ctrl.LoggerFrom(ctx).Info("Created certificate", "Secret", secret.Name)
	return pair, nil
}

// create creates a Secret. If it exists, either the cache lags behind, or a user
// provided one without the label by which the cache selects it.
func (r *Reconciler) create(ctx context.Context, s *state, secret *corev1.Secret, purpose certs.Purpose) error {
	err := r.Mgmt.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		if _, err := r.secrets().Find(ctx, s.Cluster, purpose, s.ControlPlane); err != nil {
			return err
		}
		return errNotInCache
	}
	if err != nil {
		return fmt.Errorf("create Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	return nil
}

// kubeconfig creates the admin kubeconfig, and renews it when half of its client
// certificate's validity is over. A kubeconfig that a user provided is not renewed.
func (r *Reconciler) kubeconfig(ctx context.Context, s *state) (reconciler.Next, error) {
	key := client.ObjectKey{Namespace: s.Cluster.Namespace, Name: certs.SecretName(s.Cluster.Name, certs.Kubeconfig)}
	secret, err := r.secrets().Get(ctx, s.Cluster, certs.Kubeconfig, s.ControlPlane)
	if err == nil {
		return r.renewKubeconfig(ctx, s, secret)
	}
	if !apierrors.IsNotFound(err) {
		return reconciler.Continue(), err
	}
	data, err := r.newKubeconfig(s)
	if err != nil {
		return reconciler.Continue(), fmt.Errorf("make Secret %s: %w", key, err)
	}
	ref, err := owner.Controller(s.ControlPlane, r.Mgmt)
	if err != nil {
		return reconciler.Continue(), err
	}
	if err := r.create(ctx, s, kubeconfig.Secret(s.key(), data, &ref), certs.Kubeconfig); err != nil {
		if errors.Is(err, errNotInCache) {
			return reconciler.Wait(cacheLag), nil
		}
		return reconciler.Continue(), err
	}
	ctrl.LoggerFrom(ctx).Info("Created kubeconfig", "Secret", key.Name)
	return reconciler.Continue(), nil
}

// renewal is when the kubeconfig in a Secret must be renewed, if ever.
type renewal struct {
	secret  types.UID
	version string
	at      time.Time
	renewed bool // else never
}

// renewal parses a kubeconfig once: parsing it would be a seventh of the
// allocations of each reconcile.
func (r *Reconciler) renewal(kcp *controlplanev1.KubeadmControlPlane, secret *corev1.Secret) (renewal, error) {
	if known := r.renewable.Get(kcp); known.version != "" && known.version == secret.ResourceVersion && known.secret == secret.UID {
		return known, nil
	}
	at, ok, err := kubeconfig.RenewAt(secret.Data[kubeconfig.DataKey])
	if err != nil {
		return renewal{}, err
	}
	read := renewal{secret.UID, secret.ResourceVersion, at, ok}
	r.renewable.Set(kcp, read)
	return read, nil
}

func (r *Reconciler) renewKubeconfig(ctx context.Context, s *state, secret *corev1.Secret) (reconciler.Next, error) {
	if !metav1.IsControlledBy(secret, s.ControlPlane) {
		return reconciler.Continue(), nil
	}
	due, err := r.renewal(s.ControlPlane, secret)
	if err != nil {
		return reconciler.Continue(), kubeconfig.InSecret(secret, err)
	}
	if !due.renewed {
		return reconciler.Continue(), nil
	}
	if due.at.After(s.Now) {
		return reconciler.RequeueAfter(due.at.Sub(s.Now)), nil
	}
	data, err := r.newKubeconfig(s)
	if err != nil { // it is still valid; without a key, the condition of the certificates reports why
		ctrl.LoggerFrom(ctx).V(2).Info("Not renewing kubeconfig", "Secret", secret.Name, "reason", err.Error())
		return reconciler.RequeueAfter(repairInterval), nil
	}
	renewed := secret.DeepCopy()
	renewed.Data[kubeconfig.DataKey] = data
	if err := r.Mgmt.Patch(ctx, renewed, client.MergeFrom(secret)); err != nil {
		return reconciler.Continue(), fmt.Errorf("renew Secret %s: %w", client.ObjectKeyFromObject(secret), err)
	}
	ctrl.LoggerFrom(ctx).Info("Renewed kubeconfig", "Secret", secret.Name, "reason", "half of its client certificate's life is over")
	return reconciler.Continue(), nil
}

func (r *Reconciler) newKubeconfig(s *state) ([]byte, error) {
	if !s.ca.HasKey() {
		return nil, fmt.Errorf("the key of the cluster's CA is not known here: create the kubeconfig yourself, under key %s", kubeconfig.DataKey)
	}
	return kubeconfig.New(kubeconfig.Options{
		Cluster: s.Cluster.Name, Server: "https://" + s.Cluster.Spec.ControlPlaneEndpoint.String(),
		CA: s.ca, Algorithm: certs.Chosen(s.ControlPlane.Spec.KubeadmConfigSpec.ClusterConfiguration.EncryptionAlgorithm), Now: s.Now,
	})
}
