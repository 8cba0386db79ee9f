// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// draft is data in the making.
type draft struct {
	pairs kubeadm.Pairs
	spec  bootstrapv1.KubeadmConfigSpec // with everything in place that it refers to
	join  bootstrapv1.JoinConfiguration // with the fields that the role of the machine requires
	data  []byte                        // of kubeadm init
	token string                        // that was in the spec before it got another; else empty
}

// prepare reads what the spec refers to. For kubeadm init it renders the data
// as well: nothing of that may fail when the lock is taken.
func (r *Reconciler) prepare(ctx context.Context, s *state, init bool) (err error) {
	d := &s.draft
	if d.spec, err = r.resolve(ctx, s); err != nil {
		return err
	}
	if err := kubeadm.CheckFormat(d.spec); err != nil { // before a token is created for it
		return s.refuse("%v", err)
	}
	if init {
		return s.renderInit()
	}
	d.join = d.spec.JoinConfiguration
	if s.machine.ControlPlane {
		d.join = kubeadm.ForControlPlane(d.join)
	} else if d.join, err = kubeadm.ForWorker(d.join); err != nil {
		return s.refuse("%v", err)
	}
	return nil
}

func (s *state) renderInit() error {
	d := &s.draft
	config, err := kubeadm.RenderInit(d.spec.ClusterConfiguration, d.spec.InitConfiguration, kubeadm.DataOf(s.cluster, s.machine.Version))
	if err != nil {
		return s.refuse("the configuration for kubeadm init cannot be made: %v", err)
	}
	boot := kubeadm.Boot{Verb: kubeadm.Init, Config: config, Certs: kubeadm.CertificateFiles(d.spec.ClusterConfiguration, d.pairs), Spec: d.spec}
	return s.render(boot)
}

func (s *state) renderJoin() error {
	d := &s.draft
	config, err := kubeadm.RenderJoin(d.join, s.machine.Version)
	if err != nil {
		return s.refuse("the configuration for kubeadm join cannot be made: %v", err)
	}
	boot := kubeadm.Boot{Verb: kubeadm.Join, Config: config, Spec: d.spec}
	if s.machine.ControlPlane {
		boot.Certs = kubeadm.CertificateFiles(d.spec.ClusterConfiguration, d.pairs)
	}
	if f := d.join.Discovery.File; f.KubeConfig.User.Exec.Command != "" || f.KubeConfig.User.AuthProvider.Name != "" {
		file, err := kubeadm.DiscoveryKubeConfig(f, s.cluster.Spec.ControlPlaneEndpoint.String(), d.pairs.CA.Cert)
		if err != nil {
			return err
		}
		boot.Certs = append(boot.Certs, file)
	}
	return s.render(boot)
}

func (s *state) render(boot kubeadm.Boot) (err error) {
	if s.draft.data, err = boot.Data(); err != nil {
		return s.refuse("the bootstrap data cannot be made: %v", err)
	}
	return nil
}

// storeData renders what is not rendered yet, and stores it.
func (r *Reconciler) storeData(ctx context.Context, s *state, init bool) error {
	if !init {
		if err := s.renderJoin(); err != nil {
			return err
		}
	}
	err := r.store(ctx, s, s.draft.data)
	if err != nil && init {
		err = errors.Join(err, r.unlock(ctx, s))
	}
	return err
}

// discover completes how the machine finds the cluster, and stores it. The user
// provides discovery by file; for discovery by token, missing fields are filled in,
// the token last, because it is created in the workload cluster.
func (r *Reconciler) discover(ctx context.Context, s *state, newToken bool) (disconnected bool, err error) {
	have := &s.config.Spec.JoinConfiguration.Discovery
	d := *have.DeepCopy()
	if t := &d.BootstrapToken; d.File.KubeConfigPath == "" {
		t.APIServerEndpoint = cmp.Or(t.APIServerEndpoint, s.cluster.Spec.ControlPlaneEndpoint.String())
		if len(t.CACertHashes) == 0 && !ptr.Deref(t.UnsafeSkipCAVerification, false) {
			if t.CACertHashes, err = certs.PinHashes(s.draft.pairs.CA.Cert); err != nil {
				return false, fmt.Errorf("hash the certificate authority of Cluster %s: %w", s.cluster.Name, err)
			}
		}
	}
	if newToken {
		d.BootstrapToken.Token, err = r.createToken(ctx, s)
		if errors.Is(err, workload.ErrNotConnected) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		s.draft.token = have.BootstrapToken.Token
	}
	s.draft.join.Discovery = d
	return false, r.storeDiscovery(ctx, s, d)
}

// storeDiscovery writes the discovery into the spec immediately: if a later step
// fails, the next reconcile finds the same token.
func (r *Reconciler) storeDiscovery(ctx context.Context, s *state, d bootstrapv1.Discovery) error {
	have := &s.config.Spec.JoinConfiguration.Discovery
	if equality.Semantic.DeepEqual(*have, d) {
		return nil
	}
	*have = d
	if err := s.commit(ctx); err != nil {
		return err
	}
	s.commit = patch.Snapshot(r.Mgmt, s.config)
	s.specGeneration++
	return nil
}

// restoreToken puts the token back that the data has: what was to get another
// is tried again.
func (s *state) restoreToken() {
	if s.draft.token != "" {
		s.config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = s.draft.token
	}
}
