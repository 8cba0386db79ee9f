// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/access/secrets"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// certificates reads what the machine needs of the cluster's certificates. In a
// Cluster without a controlPlaneRef no other controller creates them, so missing
// ones are created when generate is set. missing names a Secret that is awaited.
func (r *Reconciler) certificates(ctx context.Context, s *state, generate bool) (missing string, err error) {
	defer func() {
		s.certsErr = err
		s.certsSeen = err == nil && missing == ""
	}()
	for _, n := range s.needs(&s.draft.pairs) {
		p, err := r.certificate(ctx, s, n.purpose, generate && !n.external, n.external && n.purpose == certs.Etcd)
		switch {
		case apierrors.IsNotFound(err):
			return fmt.Sprintf("%s/%s", s.cluster.Namespace, certs.SecretName(s.cluster.Name, n.purpose)), nil
		case err != nil:
			return "", err
		}
		*n.into = kubeadm.Pair(p)
	}
	return "", nil
}

// need is one key pair that a machine needs.
type need struct {
	purpose  certs.Purpose
	into     *kubeadm.Pair
	external bool // an external authority: never created here
}

func (s *state) needs(pairs *kubeadm.Pairs) []need {
	needs := []need{{certs.CA, &pairs.CA, false}}
	if !s.machine.ControlPlane {
		return needs
	}
	external := len(s.config.Spec.ClusterConfiguration.Etcd.External.Endpoints) > 0
	needs = append(needs,
		need{certs.Etcd, &pairs.Etcd, external},
		need{certs.FrontProxy, &pairs.FrontProxy, false},
		need{certs.ServiceAccount, &pairs.ServiceAccount, false})
	if external {
		needs = append(needs, need{certs.APIServerEtcdClient, &pairs.APIServerEtcdClient, true})
	}
	return needs
}

func (r *Reconciler) certificate(ctx context.Context, s *state, purpose certs.Purpose, generate, keyless bool) (certs.Pair, error) {
	store := secrets.Store{Mgmt: r.Mgmt, Live: r.Live}
	find := store.Find
	if generate { // missing ones are created
		find = store.Get
	}
	secret, err := find(ctx, s.cluster, purpose, nil)
	if apierrors.IsNotFound(err) && generate {
		return r.generate(ctx, s, purpose)
	}
	if err != nil {
		return certs.Pair{}, err
	}
	if s.machine.ControlPlane && !keyless {
		return certs.WithKey(secret, purpose)
	}
	return certs.FromSecret(secret, purpose)
}

// generate creates a key pair and stores it. The Cluster owns it, so that it
// outlives the machine that needed it first.
func (r *Reconciler) generate(ctx context.Context, s *state, purpose certs.Purpose) (certs.Pair, error) {
	c := s.config.Spec.ClusterConfiguration
	validity := time.Duration(c.CACertificateValidityPeriodDays) * 24 * time.Hour
	p, err := certs.New(purpose, certs.Chosen(c.EncryptionAlgorithm), s.now, validity)
	if err != nil {
		return certs.Pair{}, fmt.Errorf("make the certificate for %s: %w", purpose, err)
	}
	ref, err := owner.Reference(s.cluster, r.Mgmt)
	if err != nil {
		return certs.Pair{}, err
	}
	secret := p.Secret(client.ObjectKeyFromObject(s.cluster), purpose, &ref)
	ctrl.LoggerFrom(ctx).Info("Creating certificate", "purpose", purpose, "Secret", secret.Name)
	err = r.Mgmt.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) { // not in the cache: not yet, or because a label is missing
		return r.certificate(ctx, s, purpose, false, false)
	}
	if err != nil {
		return certs.Pair{}, fmt.Errorf("create Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return p, nil
}
