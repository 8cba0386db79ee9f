// SPDX-License-Identifier: Apache-2.0

package command

import clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"

// ProviderFlag is the flag that names providers of one type.
type ProviderFlag struct {
	Type clusterctlv1.ProviderType
	// Name and Short are those of the flag; Short may be empty.
	Name, Short string
	// What the type is called by people.
	What string
}

// ProviderFlags returns those of all types, core first.
func ProviderFlags() []ProviderFlag {
	return []ProviderFlag{
		{clusterctlv1.CoreProviderType, "core", "", "core"},
		{clusterctlv1.BootstrapProviderType, "bootstrap", "b", "bootstrap"},
		{clusterctlv1.ControlPlaneProviderType, "control-plane", "c", "control plane"},
		{clusterctlv1.InfrastructureProviderType, "infrastructure", "i", "infrastructure"},
		{clusterctlv1.IPAMProviderType, "ipam", "", "IPAM"},
		{clusterctlv1.RuntimeExtensionProviderType, "runtime-extension", "", "runtime extension"},
		{clusterctlv1.AddonProviderType, "addon", "", "add-on"},
	}
}
