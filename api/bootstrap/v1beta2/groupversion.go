// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 holds the wire types of bootstrap.cluster.x-k8s.io/v1beta2:
// KubeadmConfig, which defines how one machine becomes a Kubernetes node with
// kubeadm, and KubeadmConfigTemplate, from which such configs are cloned.
//
// +kubebuilder:object:generate=true
// +groupName=bootstrap.cluster.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "bootstrap.cluster.x-k8s.io", Version: "v1beta2"}
}

// AddToScheme adds the types here to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&KubeadmConfig{}, &KubeadmConfigList{},
		&KubeadmConfigTemplate{}, &KubeadmConfigTemplateList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
