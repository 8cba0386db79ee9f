// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
)

// Local is the infrastructure provider that is included in the program.
const Local = "local"

// EmbeddedScheme is the scheme of the URLs of providers that are included in the
// program.
const EmbeddedScheme = "embedded"

// sources lists where the built-in providers are released: name, repository of
// GitHub, and the file if it is not that of its type.
var sources = []struct {
	kind clusterctlv1.ProviderType
	file string // of the components, if it is not the default
	list string
}{
	{clusterctlv1.CoreProviderType, "core-components.yaml", `
cluster-api kubernetes-sigs/cluster-api`},
	{clusterctlv1.BootstrapProviderType, "bootstrap-components.yaml", `
canonical-kubernetes canonical/cluster-api-k8s
k0sproject-k0smotron k0sproject/k0smotron
kairos-io kairos-io/cluster-api-provider-kairos
kubeadm kubernetes-sigs/cluster-api
kubekey-k3s kubesphere/kubekey
microk8s canonical/cluster-api-bootstrap-provider-microk8s
rke2 rancher/cluster-api-provider-rke2
talos siderolabs/cluster-api-bootstrap-provider-talos`},
	{clusterctlv1.ControlPlaneProviderType, "control-plane-components.yaml", `
canonical-kubernetes canonical/cluster-api-k8s
hosted-control-plane teutonet/cluster-api-provider-hosted-control-plane
k0sproject-k0smotron k0sproject/k0smotron
kairos-io kairos-io/cluster-api-provider-kairos
kamaji clastix/cluster-api-control-plane-provider-kamaji
kubeadm kubernetes-sigs/cluster-api
kubekey-k3s kubesphere/kubekey
microk8s canonical/cluster-api-control-plane-provider-microk8s
nested kubernetes-sigs/cluster-api-provider-nested
rke2 rancher/cluster-api-provider-rke2
talos siderolabs/cluster-api-control-plane-provider-talos`},
	{clusterctlv1.InfrastructureProviderType, "infrastructure-components.yaml", `
aws kubernetes-sigs/cluster-api-provider-aws
azure kubernetes-sigs/cluster-api-provider-azure
byoh vmware-tanzu/cluster-api-provider-bringyourownhost
cloudscale-ch-cloudscale cloudscale-ch/cluster-api-provider-cloudscale
cloudstack kubernetes-sigs/cluster-api-provider-cloudstack
coxedge coxedge/cluster-api-provider-coxedge
digitalocean kubernetes-sigs/cluster-api-provider-digitalocean
docker kubernetes-sigs/cluster-api infrastructure-components-development.yaml
gcp kubernetes-sigs/cluster-api-provider-gcp
harvester-harvester rancher-sandbox/cluster-api-provider-harvester
hetzner syself/cluster-api-provider-hetzner
huawei HuaweiCloudDeveloper/cluster-api-provider-huawei
ibmcloud kubernetes-sigs/cluster-api-provider-ibmcloud
ionoscloud-ionoscloud ionos-cloud/cluster-api-provider-ionoscloud
k0sproject-k0smotron k0sproject/k0smotron
kairos-io-fleet kairos-io/cluster-api-provider-kairos-fleet
kubekey kubesphere/kubekey
kubeswift-io kubeswift-io/cluster-api-provider-kubeswift
kubevirt kubernetes-sigs/cluster-api-provider-kubevirt
linode-linode linode/cluster-api-provider-linode
maas spectrocloud/cluster-api-provider-maas
metal-stack metal-stack/cluster-api-provider-metal-stack
metal3 metal3-io/cluster-api-provider-metal3
nested kubernetes-sigs/cluster-api-provider-nested
nutanix nutanix-cloud-native/cluster-api-provider-nutanix
oci oracle/cluster-api-provider-oci
opennebula OpenNebula/cluster-api-provider-opennebula
openstack kubernetes-sigs/cluster-api-provider-openstack
outscale outscale/cluster-api-provider-outscale
oxide oxidecomputer/cluster-api-provider-oxide
proxmox ionos-cloud/cluster-api-provider-proxmox
scaleway scaleway/cluster-api-provider-scaleway
sidero siderolabs/sidero
tinkerbell-tinkerbell tinkerbell/cluster-api-provider-tinkerbell
vcd vmware/cluster-api-provider-cloud-director
vcluster loft-sh/cluster-api-provider-vcluster
virtink smartxworks/cluster-api-provider-virtink
vsphere kubernetes-sigs/cluster-api-provider-vsphere
vultr-vultr vultr/cluster-api-provider-vultr`},
	{clusterctlv1.IPAMProviderType, "ipam-components.yaml", `
in-cluster kubernetes-sigs/cluster-api-ipam-provider-in-cluster
metal3 metal3-io/ip-address-manager
nutanix nutanix-cloud-native/cluster-api-ipam-provider-nutanix`},
	{clusterctlv1.RuntimeExtensionProviderType, "runtime-extensions-components.yaml", `
nutanix nutanix-cloud-native/cluster-api-runtime-extensions-nutanix`},
	{clusterctlv1.AddonProviderType, "addon-components.yaml", `
eitco-cdk8s eitco/cluster-api-addon-provider-cdk8s
helm kubernetes-sigs/cluster-api-addon-provider-helm
rancher-fleet rancher/cluster-api-addon-provider-fleet`},
}

// builtin returns the providers that are known without a configuration.
func builtin() []Provider {
	local := Provider{Name: Local, Type: clusterctlv1.InfrastructureProviderType}
	local.URL = EmbeddedScheme + ":///" + local.Label() + "/latest/infrastructure-components.yaml"
	all := []Provider{local}
	for _, s := range sources {
		for line := range strings.Lines(strings.TrimSpace(s.list)) {
			f := append(strings.Fields(line), s.file)
			all = append(all, Provider{Name: f[0], Type: s.kind, URL: "https://github.com/" + f[1] + "/releases/latest/" + f[2]})
		}
	}
	return all
}
