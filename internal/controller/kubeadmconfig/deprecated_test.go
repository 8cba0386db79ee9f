// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig/bootstrapdata"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

func TestReportDeprecated(t *testing.T) {
	t.Parallel()
	broken := errors.New("no key")
	tests := map[string]struct {
		change func(*state)
		err    error
		want   []string
	}{
		"the infrastructure is awaited": {
			change: func(s *state) {
				s.cluster.Status.Initialization.InfrastructureProvisioned, s.waiting = nil, "Waiting for the infrastructure"
			},
			want: []string{"Ready False Info WaitingForClusterInfrastructure: Waiting for the infrastructure", "DataSecretAvailable False Info WaitingForClusterInfrastructure: Waiting for the infrastructure"},
		},
		"the control plane is awaited": {
			change: func(s *state) { s.waiting = "Waiting for the control plane" },
			want:   []string{"Ready False Info WaitingForControlPlaneAvailable: Waiting for the control plane", "DataSecretAvailable False Info WaitingForControlPlaneAvailable: Waiting for the control plane"},
		},
		"it is made": {
			change: func(s *state) { s.config.Status.Initialization.DataSecretCreated = new(true) },
			want:   []string{"Ready True", "CertificatesAvailable True", "DataSecretAvailable True"},
		},
		"it is made, and its token cannot be extended": {
			change: func(s *state) { s.config.Status.Initialization.DataSecretCreated = new(true) }, err: broken,
			want: []string{"Ready True", "CertificatesAvailable True", "DataSecretAvailable True"},
		},
		"it cannot be made": {
			change: func(s *state) { s.certsSeen, s.refused = true, "spec.x must be y" }, err: broken,
			want: []string{"Ready False Warning DataSecretGenerationFailed: spec.x must be y", "CertificatesAvailable True", "DataSecretAvailable False Warning DataSecretGenerationFailed: spec.x must be y"},
		},
		"certificates are broken": {
			change: func(s *state) { s.certsErr = broken }, err: broken,
			want: []string{"Ready False Error CertificatesCorrupted: no key", "CertificatesAvailable False Error CertificatesCorrupted: no key", "DataSecretAvailable False Warning DataSecretGenerationFailed: no key"},
		},
		"certificates cannot be made": {
			change: func(s *state) {
				s.certsErr, s.cluster.Spec.ControlPlaneRef = broken, clusterv1.ContractVersionedObjectReference{}
			}, err: broken,
			want: []string{"Ready False Warning DataSecretGenerationFailed: no key", "CertificatesAvailable False Warning CertificatesGenerationFailed: no key", "DataSecretAvailable False Warning DataSecretGenerationFailed: no key"},
		},
		"no check yet": {
			change: func(s *state) {
				s.waiting = "Waiting"
				s.config.Status.Deprecated = &bootstrapv1.KubeadmConfigDeprecatedStatus{V1Beta1: &bootstrapv1.KubeadmConfigV1Beta1DeprecatedStatus{
					Conditions: clusterv1.Conditions{v1beta1conditions.True("CertificatesAvailable"), v1beta1conditions.True("Theirs")},
				}}
			},
			want: []string{"Ready False Info WaitingForControlPlaneAvailable: Waiting", "CertificatesAvailable True", "DataSecretAvailable False Info WaitingForControlPlaneAvailable: Waiting", "Theirs True"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &state{config: configFor(worker("w")), cluster: cluster(), machine: &bootstrapdata.Machine{}, now: now}
			tc.change(s)
			report(s, tc.err)
			reportDeprecated(s, tc.err)
			if diff := cmp.Diff(tc.want, builder.Deprecated(s.config.Status.Deprecated.V1Beta1.Conditions)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
