// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/version"
)

// KubeletLocalMode makes kubelets of control plane machines connect to their own API
// server. From 1.36 on it is kubeadm's only mode.
const KubeletLocalMode = "ControlPlaneKubeletLocalMode"

// WithKubeletLocalMode returns feature gates with that one, if kubeadm of a version of
// Kubernetes supports it and it is not set already.
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

// WithoutKubeletLocalMode removes that gate again, unless the user set it: machines that
// other controllers created may lack it.
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
