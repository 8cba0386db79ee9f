// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
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

func TestAdoptable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		version string
		kind    string
		gone    bool
		want    string // in the error; empty for none
	}{
		"of the same version":         {version: "v1.35.3"},
		"one minor version behind":    {version: "v1.34.0"},
		"one minor version ahead":     {version: "v1.36.0"},
		"two minor versions behind":   {version: "v1.33.9", want: "spec.version of Machine m is v1.33.9, more than one minor version from v1.35.0: set"},
		"two minor versions ahead":    {version: "v1.37.0", want: "more than one minor version from v1.35.0"},
		"of another major version":    {version: "v2.35.0", want: "more than one minor version"},
		"of no version":               {want: "spec.version of Machine m: "},
		"that something else has set": {version: "v1.35.0", kind: "TalosConfig", want: `spec.bootstrap.configRef of Machine m must name a KubeadmConfig: it names TalosConfig "m"`},
		"whose KubeadmConfig is gone": {version: "v1.35.0", gone: true, want: "KubeadmConfig m of Machine m does not exist: restore it, or delete the Machine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}
			m.Spec.Version = tc.version
			m.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: "m"}
			if tc.kind != "" {
				m.Spec.Bootstrap.ConfigRef.Kind = tc.kind
			}
			config := &bootstrapv1.KubeadmConfig{}
			if tc.gone {
				config = nil
			}
			kcp := controlPlane(1)
			kcp.Spec.Version = "v1.35.0"
			err := Adoptable(kcp, m, config)
			if (err != nil) != (tc.want != "") || err != nil && !contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
