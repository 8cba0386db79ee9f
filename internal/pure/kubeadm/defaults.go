// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// WithoutDefaults takes away what upstream's releases have written into configs
// where nothing stood, and later ones leave out.
func WithoutDefaults(spec *bootstrapv1.KubeadmConfigSpec) {
	if spec.Format == bootstrapv1.CloudConfig {
		spec.Format = ""
	}
	for _, n := range []*bootstrapv1.NodeRegistrationOptions{&spec.InitConfiguration.NodeRegistration, &spec.JoinConfiguration.NodeRegistration} {
		if n.ImagePullPolicy == "IfNotPresent" {
			n.ImagePullPolicy = ""
		}
	}
	if exec := &spec.JoinConfiguration.Discovery.File.KubeConfig.User.Exec; exec.APIVersion == "client.authentication.k8s.io/v1" {
		exec.APIVersion = ""
	}
}
