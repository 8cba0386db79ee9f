// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/version"
)

// KubeletLocalMode lets kubelets of control plane machines talk to their own
// API server. From 1.36 on kubeadm knows nothing else.
const KubeletLocalMode = "ControlPlaneKubeletLocalMode"

// WithKubeletLocalMode are feature gates with that one where kubeadm of a version
// of Kubernetes knows it, unless it is there already.
func WithKubeletLocalMode(gates map[string]bool, kubernetes string) map[string]bool {
	v, err := version.ParseSemantic(kubernetes)
	known := err == nil && v.Major() == 1 && v.Minor() >= 31 && v.Minor() < 36
	if _, set := gates[KubeletLocalMode]; set || !known {
		return gates
	}
	with := map[string]bool{KubeletLocalMode: true}
	maps.Copy(with, gates)
	return with
}

// WithoutKubeletLocalMode takes that gate away again, unless a user has it among
// his own: machines that others have made may lack it.
func WithoutKubeletLocalMode(gates, users map[string]bool) map[string]bool {
	if _, asked := users[KubeletLocalMode]; asked || !gates[KubeletLocalMode] {
		return gates
	}
	others := maps.Clone(gates)
	delete(others, KubeletLocalMode)
	if len(others) == 0 {
		return nil
	}
	return others
}
