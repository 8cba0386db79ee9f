// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
)

func TestOriginOfCertificates(t *testing.T) {
	t.Parallel()
	const (
		restore = "secret ns/c does not exist, and the cluster was made with what it held: restore it from a backup, or from the files under /etc/kubernetes/pki of a control plane machine"
		bring   = "secret ns/c does not exist: etcd is external, so create it with keys tls.crt and tls.key (a CA needs no key)"
	)
	tests := map[string]struct {
		etcd, external, initialized, adopts bool
		want                                Origin
		missing                             string // the error for a missing one
	}{
		"what is missing at the beginning is made":         {want: Made},
		"so is that of an etcd of ours":                    {etcd: true, want: Made},
		"after kubeadm init a new one would not fit":       {initialized: true, want: Kept, missing: restore},
		"nor would it for machines of another owner":       {adopts: true, want: Kept, missing: restore},
		"the authority of an external etcd is its owner's": {etcd: true, external: true, want: Brought, missing: bring},
		"also after kubeadm init":                          {etcd: true, external: true, initialized: true, want: Brought, missing: bring},
		"with an external etcd the others are created":     {external: true, want: Made},
		"and kept": {external: true, initialized: true, want: Kept, missing: restore},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kcp := &controlplanev1.KubeadmControlPlane{}
			kcp.Status.Initialization.ControlPlaneInitialized = &tc.initialized
			if tc.external {
				kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"https://etcd:2379"}
			}
			got := OriginOf(tc.etcd, kcp, tc.adopts)
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if tc.missing != "" && (&MissingError{"ns/c", got}).Error() != tc.missing {
				t.Errorf("missing: %v", &MissingError{"ns/c", got})
			}
		})
	}
}

func TestOnlyAMachineThatStaysCanHaveBeenInitialized(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		machines []*Machine
		want     bool
	}{
		"none":                         {nil, false},
		"one":                          {[]*Machine{machine("a")}, true},
		"one that goes":                {[]*Machine{machine("a going")}, false},
		"one that goes before another": {[]*Machine{machine("a going"), machine("b")}, true},
	} {
		if got := Starting(tc.machines); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
