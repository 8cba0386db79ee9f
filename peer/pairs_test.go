// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"reflect"

	theiraddonsv1 "sigs.k8s.io/cluster-api/api/addons/v1beta2"
	theirbootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	theircontrolplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	theirclusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	theiripamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	theirhooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	theirruntimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
)

type pair struct{ ours, theirs reflect.Type }

func pairOf[ours, theirs any]() pair {
	return pair{reflect.TypeFor[ours](), reflect.TypeFor[theirs]()}
}

// pairs are our kinds and theirs.
var pairs = map[string]pair{
	"Cluster":                              pairOf[clusterv1.Cluster, theirclusterv1.Cluster](),
	"ClusterClass":                         pairOf[clusterv1.ClusterClass, theirclusterv1.ClusterClass](),
	"Machine":                              pairOf[clusterv1.Machine, theirclusterv1.Machine](),
	"MachineSet":                           pairOf[clusterv1.MachineSet, theirclusterv1.MachineSet](),
	"MachineDeployment":                    pairOf[clusterv1.MachineDeployment, theirclusterv1.MachineDeployment](),
	"MachinePool":                          pairOf[clusterv1.MachinePool, theirclusterv1.MachinePool](),
	"MachineHealthCheck":                   pairOf[clusterv1.MachineHealthCheck, theirclusterv1.MachineHealthCheck](),
	"MachineDrainRule":                     pairOf[clusterv1.MachineDrainRule, theirclusterv1.MachineDrainRule](),
	"KubeadmConfig":                        pairOf[bootstrapv1.KubeadmConfig, theirbootstrapv1.KubeadmConfig](),
	"KubeadmConfigTemplate":                pairOf[bootstrapv1.KubeadmConfigTemplate, theirbootstrapv1.KubeadmConfigTemplate](),
	"KubeadmControlPlane":                  pairOf[controlplanev1.KubeadmControlPlane, theircontrolplanev1.KubeadmControlPlane](),
	"KubeadmControlPlaneTemplate":          pairOf[controlplanev1.KubeadmControlPlaneTemplate, theircontrolplanev1.KubeadmControlPlaneTemplate](),
	"ClusterResourceSet":                   pairOf[addonsv1.ClusterResourceSet, theiraddonsv1.ClusterResourceSet](),
	"ClusterResourceSetBinding":            pairOf[addonsv1.ClusterResourceSetBinding, theiraddonsv1.ClusterResourceSetBinding](),
	"IPAddress":                            pairOf[ipamv1.IPAddress, theiripamv1.IPAddress](),
	"IPAddressClaim":                       pairOf[ipamv1.IPAddressClaim, theiripamv1.IPAddressClaim](),
	"ExtensionConfig":                      pairOf[runtimev1.ExtensionConfig, theirruntimev1.ExtensionConfig](),
	"Builtins":                             pairOf[hooksv1.Builtins, theirhooksv1.Builtins](),
	"DiscoveryRequest":                     pairOf[hooksv1.DiscoveryRequest, theirhooksv1.DiscoveryRequest](),
	"DiscoveryResponse":                    pairOf[hooksv1.DiscoveryResponse, theirhooksv1.DiscoveryResponse](),
	"BeforeClusterCreateRequest":           pairOf[hooksv1.BeforeClusterCreateRequest, theirhooksv1.BeforeClusterCreateRequest](),
	"BeforeClusterCreateResponse":          pairOf[hooksv1.BeforeClusterCreateResponse, theirhooksv1.BeforeClusterCreateResponse](),
	"AfterControlPlaneInitializedRequest":  pairOf[hooksv1.AfterControlPlaneInitializedRequest, theirhooksv1.AfterControlPlaneInitializedRequest](),
	"AfterControlPlaneInitializedResponse": pairOf[hooksv1.AfterControlPlaneInitializedResponse, theirhooksv1.AfterControlPlaneInitializedResponse](),
	"BeforeClusterUpgradeRequest":          pairOf[hooksv1.BeforeClusterUpgradeRequest, theirhooksv1.BeforeClusterUpgradeRequest](),
	"BeforeClusterUpgradeResponse":         pairOf[hooksv1.BeforeClusterUpgradeResponse, theirhooksv1.BeforeClusterUpgradeResponse](),
	"BeforeControlPlaneUpgradeRequest":     pairOf[hooksv1.BeforeControlPlaneUpgradeRequest, theirhooksv1.BeforeControlPlaneUpgradeRequest](),
	"BeforeControlPlaneUpgradeResponse":    pairOf[hooksv1.BeforeControlPlaneUpgradeResponse, theirhooksv1.BeforeControlPlaneUpgradeResponse](),
	"AfterControlPlaneUpgradeRequest":      pairOf[hooksv1.AfterControlPlaneUpgradeRequest, theirhooksv1.AfterControlPlaneUpgradeRequest](),
	"AfterControlPlaneUpgradeResponse":     pairOf[hooksv1.AfterControlPlaneUpgradeResponse, theirhooksv1.AfterControlPlaneUpgradeResponse](),
	"BeforeWorkersUpgradeRequest":          pairOf[hooksv1.BeforeWorkersUpgradeRequest, theirhooksv1.BeforeWorkersUpgradeRequest](),
	"BeforeWorkersUpgradeResponse":         pairOf[hooksv1.BeforeWorkersUpgradeResponse, theirhooksv1.BeforeWorkersUpgradeResponse](),
	"AfterWorkersUpgradeRequest":           pairOf[hooksv1.AfterWorkersUpgradeRequest, theirhooksv1.AfterWorkersUpgradeRequest](),
	"AfterWorkersUpgradeResponse":          pairOf[hooksv1.AfterWorkersUpgradeResponse, theirhooksv1.AfterWorkersUpgradeResponse](),
	"AfterClusterUpgradeRequest":           pairOf[hooksv1.AfterClusterUpgradeRequest, theirhooksv1.AfterClusterUpgradeRequest](),
	"AfterClusterUpgradeResponse":          pairOf[hooksv1.AfterClusterUpgradeResponse, theirhooksv1.AfterClusterUpgradeResponse](),
	"BeforeClusterDeleteRequest":           pairOf[hooksv1.BeforeClusterDeleteRequest, theirhooksv1.BeforeClusterDeleteRequest](),
	"BeforeClusterDeleteResponse":          pairOf[hooksv1.BeforeClusterDeleteResponse, theirhooksv1.BeforeClusterDeleteResponse](),
	"GeneratePatchesRequest":               pairOf[hooksv1.GeneratePatchesRequest, theirhooksv1.GeneratePatchesRequest](),
	"GeneratePatchesResponse":              pairOf[hooksv1.GeneratePatchesResponse, theirhooksv1.GeneratePatchesResponse](),
	"ValidateTopologyRequest":              pairOf[hooksv1.ValidateTopologyRequest, theirhooksv1.ValidateTopologyRequest](),
	"ValidateTopologyResponse":             pairOf[hooksv1.ValidateTopologyResponse, theirhooksv1.ValidateTopologyResponse](),
	"DiscoverVariablesRequest":             pairOf[hooksv1.DiscoverVariablesRequest, theirhooksv1.DiscoverVariablesRequest](),
	"DiscoverVariablesResponse":            pairOf[hooksv1.DiscoverVariablesResponse, theirhooksv1.DiscoverVariablesResponse](),
	"CanUpdateMachineRequest":              pairOf[hooksv1.CanUpdateMachineRequest, theirhooksv1.CanUpdateMachineRequest](),
	"CanUpdateMachineResponse":             pairOf[hooksv1.CanUpdateMachineResponse, theirhooksv1.CanUpdateMachineResponse](),
	"CanUpdateMachineSetRequest":           pairOf[hooksv1.CanUpdateMachineSetRequest, theirhooksv1.CanUpdateMachineSetRequest](),
	"CanUpdateMachineSetResponse":          pairOf[hooksv1.CanUpdateMachineSetResponse, theirhooksv1.CanUpdateMachineSetResponse](),
	"UpdateMachineRequest":                 pairOf[hooksv1.UpdateMachineRequest, theirhooksv1.UpdateMachineRequest](),
	"UpdateMachineResponse":                pairOf[hooksv1.UpdateMachineResponse, theirhooksv1.UpdateMachineResponse](),
	"GenerateUpgradePlanRequest":           pairOf[hooksv1.GenerateUpgradePlanRequest, theirhooksv1.GenerateUpgradePlanRequest](),
	"GenerateUpgradePlanResponse":          pairOf[hooksv1.GenerateUpgradePlanResponse, theirhooksv1.GenerateUpgradePlanResponse](),
}
