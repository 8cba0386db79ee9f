// SPDX-License-Identifier: Apache-2.0

package controllers

import ()

// definitions are the names of those of each provider, each with the feature
// without which there are no objects of it.
var definitions = map[string][]struct{ name, gate string }{
	Core: {
		{"clusterclasses.cluster.x-k8s.io", GateClusterTopology},
		{"clusters.cluster.x-k8s.io", ""},
		{"machinedeployments.cluster.x-k8s.io", ""},
		{"machinedrainrules.cluster.x-k8s.io", ""},
		{"machinehealthchecks.cluster.x-k8s.io", ""},
		{"machinepools.cluster.x-k8s.io", GateMachinePool},
		{"machines.cluster.x-k8s.io", ""},
		{"machinesets.cluster.x-k8s.io", ""},
		{"clusterresourcesetbindings.addons.cluster.x-k8s.io", ""},
		{"clusterresourcesets.addons.cluster.x-k8s.io", ""},
		{"ipaddressclaims.ipam.cluster.x-k8s.io", ""},
		{"ipaddresses.ipam.cluster.x-k8s.io", ""},
		{"planguards.plan.capstan.dev", ""},
		{"extensionconfigs.runtime.cluster.x-k8s.io", GateRuntimeSDK},
	},
	Kubeadm: {
		{"kubeadmconfigs.bootstrap.cluster.x-k8s.io", ""},
		{"kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io", ""},
		{"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", ""},
		{"kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io", ""},
	},
	Local: {
		{"localclusters.infrastructure.capstan.dev", ""},
		{"localclustertemplates.infrastructure.capstan.dev", ""},
		{"localmachinepools.infrastructure.capstan.dev", GateMachinePool},
		{"localmachinepooltemplates.infrastructure.capstan.dev", GateMachinePool},
		{"localmachines.infrastructure.capstan.dev", ""},
		{"localmachinetemplates.infrastructure.capstan.dev", ""},
	},
}

// Definitions returns the names of the CustomResourceDefinitions whose objects a
// provider stores at their present version.
func Definitions(of string, gates Gates) (names []string) {
	for _, d := range definitions[of] {
		if gates.Enabled(d.gate) {
			names = append(names, d.name)
		}
	}
	return names
}
