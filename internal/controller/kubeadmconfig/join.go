// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// init makes the data with which the first control plane machine runs kubeadm
// init. Everything that may fail or wait comes before the lock is taken.
func (r *Reconciler) init(ctx context.Context, s *state) (phase.Next, error) {
	pairs, missing, err := r.certificates(ctx, s, !s.cluster.Spec.ControlPlaneRef.IsDefined())
	if err != nil {
		return phase.Continue(), err
	}
	if missing != "" {
		return s.awaitSecret(missing)
	}
	spec, err := r.resolve(ctx, s)
	if err != nil {
		return phase.Continue(), err
	}
	config, err := kubeadm.RenderInit(spec.ClusterConfiguration, spec.InitConfiguration, kubeadm.DataOf(s.cluster, s.machine.version))
	if err != nil {
		return phase.Continue(), s.refuse("the configuration for kubeadm init cannot be made: %v", err)
	}
	boot := kubeadm.Boot{Verb: kubeadm.Init, Config: config, Certs: kubeadm.CertificateFiles(spec.ClusterConfiguration, pairs), Spec: spec}
	data, err := boot.CloudConfig()
	if err != nil {
		return phase.Continue(), err
	}
	holder, err := r.lock(ctx, s)
	if err != nil {
		return phase.Continue(), err
	}
	if holder != "" {
		return s.await("Waiting for Machine %s/%s to initialize the control plane", s.config.Namespace, holder)
	}
	if err := r.store(ctx, s, data); err != nil {
		return phase.Continue(), errors.Join(err, r.unlock(ctx, s))
	}
	return phase.Continue(), nil
}

// join makes the data with which any other machine runs kubeadm join. What is
// missing for discovery is filled into the spec, so that it is the same when
// the data has to be made again.
func (r *Reconciler) join(ctx context.Context, s *state) (phase.Next, error) {
	if err := r.unlock(ctx, s); err != nil {
		return phase.Continue(), err
	}
	pairs, missing, err := r.certificates(ctx, s, false)
	if err != nil {
		return phase.Continue(), err
	}
	if missing != "" {
		return s.awaitSecret(missing)
	}
	spec, err := r.resolve(ctx, s)
	if err != nil {
		return phase.Continue(), err
	}
	join := spec.JoinConfiguration
	if s.machine.controlPlane {
		join = kubeadm.ForControlPlane(join)
	} else if join, err = kubeadm.ForWorker(join); err != nil {
		return phase.Continue(), s.refuse("%v", err)
	}
	discovery, waiting, err := r.discovery(ctx, s, pairs.CA.Cert)
	if err != nil {
		return phase.Continue(), err
	}
	if waiting != "" {
		return s.await("%s", waiting)
	}
	join.Discovery = discovery
	if err := r.storeDiscovery(ctx, s, discovery); err != nil {
		return phase.Continue(), err
	}
	if err := r.renderJoin(ctx, s, spec, join, pairs); err != nil {
		return phase.Continue(), err
	}
	return r.watchToken(s, discovery), nil
}

func (r *Reconciler) renderJoin(ctx context.Context, s *state, spec bootstrapv1.KubeadmConfigSpec, join bootstrapv1.JoinConfiguration, pairs kubeadm.Pairs) error {
	config, err := kubeadm.RenderJoin(join, s.machine.version)
	if err != nil {
		return s.refuse("the configuration for kubeadm join cannot be made: %v", err)
	}
	boot := kubeadm.Boot{Verb: kubeadm.Join, Config: config, Spec: spec}
	if s.machine.controlPlane {
		boot.Certs = kubeadm.CertificateFiles(spec.ClusterConfiguration, pairs)
	}
	if f := join.Discovery.File; f.KubeConfig.User.Exec.Command != "" || f.KubeConfig.User.AuthProvider.Name != "" {
		file, err := kubeadm.DiscoveryKubeConfig(f, s.cluster.Spec.ControlPlaneEndpoint.String(), pairs.CA.Cert)
		if err != nil {
			return err
		}
		boot.Certs = append(boot.Certs, file)
	}
	data, err := boot.CloudConfig()
	if err != nil {
		return err
	}
	return r.store(ctx, s, data)
}

// discovery completes how the machine finds the cluster. Discovery by file is
// the user's; by token, what the user left out is filled in, the token last,
// for it is made in the workload cluster.
func (r *Reconciler) discovery(ctx context.Context, s *state, ca []byte) (d bootstrapv1.Discovery, waiting string, err error) {
	d = *s.config.Spec.JoinConfiguration.Discovery.DeepCopy()
	endpoint := s.cluster.Spec.ControlPlaneEndpoint
	noEndpoint := fmt.Sprintf("Waiting for Cluster %s to have a spec.controlPlaneEndpoint", s.cluster.Name)
	if d.File.KubeConfigPath != "" {
		if !endpoint.IsValid() {
			waiting = noEndpoint
		}
		return d, waiting, nil
	}
	t := &d.BootstrapToken
	if t.APIServerEndpoint == "" {
		if !endpoint.IsValid() {
			return d, noEndpoint, nil
		}
		t.APIServerEndpoint = endpoint.String()
	}
	if len(t.CACertHashes) == 0 && !ptr.Deref(t.UnsafeSkipCAVerification, false) {
		if t.CACertHashes, err = certs.PinHashes(ca); err != nil {
			return d, "", fmt.Errorf("hash the certificate authority of Cluster %s: %w", s.cluster.Name, err)
		}
	}
	if t.Token == "" {
		t.Token, err = r.createToken(ctx, s)
		if errors.Is(err, workload.ErrNotConnected) {
			return d, fmt.Sprintf("Waiting for the connection to the workload cluster of Cluster %s", s.cluster.Name), nil
		}
	}
	return d, "", err
}

// storeDiscovery writes the discovery into the spec at once: should anything
// fail later, the next reconcile finds the same token.
func (r *Reconciler) storeDiscovery(ctx context.Context, s *state, d bootstrapv1.Discovery) error {
	have := &s.config.Spec.JoinConfiguration.Discovery
	if equality.Semantic.DeepEqual(*have, d) {
		return nil
	}
	*have = d
	if err := s.commit(ctx); err != nil {
		return err
	}
	s.commit = patch.Remember(r.Mgmt, s.config)
	s.specGeneration++
	return nil
}
