// SPDX-License-Identifier: Apache-2.0

// Package v1alpha3 holds the wire types of clusterctl.cluster.x-k8s.io/v1alpha3:
// the inventory of installed providers and the metadata of a release.
// +kubebuilder:object:generate=true
// +groupName=clusterctl.cluster.x-k8s.io
package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3"}
}

// AddToScheme adds the types here to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&Provider{}, &ProviderList{},
		&Metadata{}, &MetadataList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
