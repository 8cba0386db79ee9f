// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the wire types of hooks.runtime.cluster.x-k8s.io/
// v1alpha1: the requests to runtime extensions and their responses. For each
// hook there is a function of its name; it only ties the two types together
// and is what catalogs and servers know a hook by.
// +kubebuilder:object:generate=true
// +groupName=hooks.runtime.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "hooks.runtime.cluster.x-k8s.io", Version: "v1alpha1"}
}

// AddToScheme adds the requests and responses here to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&DiscoveryRequest{}, &DiscoveryResponse{},
		&BeforeClusterCreateRequest{}, &BeforeClusterCreateResponse{},
		&AfterControlPlaneInitializedRequest{}, &AfterControlPlaneInitializedResponse{},
		&BeforeClusterUpgradeRequest{}, &BeforeClusterUpgradeResponse{},
		&BeforeControlPlaneUpgradeRequest{}, &BeforeControlPlaneUpgradeResponse{},
		&AfterControlPlaneUpgradeRequest{}, &AfterControlPlaneUpgradeResponse{},
		&BeforeWorkersUpgradeRequest{}, &BeforeWorkersUpgradeResponse{},
		&AfterWorkersUpgradeRequest{}, &AfterWorkersUpgradeResponse{},
		&AfterClusterUpgradeRequest{}, &AfterClusterUpgradeResponse{},
		&BeforeClusterDeleteRequest{}, &BeforeClusterDeleteResponse{},
		&GeneratePatchesRequest{}, &GeneratePatchesResponse{},
		&ValidateTopologyRequest{}, &ValidateTopologyResponse{},
		&DiscoverVariablesRequest{}, &DiscoverVariablesResponse{},
		&CanUpdateMachineRequest{}, &CanUpdateMachineResponse{},
		&CanUpdateMachineSetRequest{}, &CanUpdateMachineSetResponse{},
		&UpdateMachineRequest{}, &UpdateMachineResponse{},
		&GenerateUpgradePlanRequest{}, &GenerateUpgradePlanResponse{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
