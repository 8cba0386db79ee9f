// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 holds the wire types of addons.cluster.x-k8s.io/v1beta2:
// resources that are applied to new workload clusters.
// +kubebuilder:object:generate=true
// +groupName=addons.cluster.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "addons.cluster.x-k8s.io", Version: "v1beta2"}
}

// AddToScheme adds the types here to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&ClusterResourceSet{}, &ClusterResourceSetList{},
		&ClusterResourceSetBinding{}, &ClusterResourceSetBindingList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
