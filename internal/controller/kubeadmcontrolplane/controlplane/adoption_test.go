// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

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
