// SPDX-License-Identifier: Apache-2.0

// Package v1beta2 holds the wire types of controlplane.cluster.x-k8s.io/v1beta2:
// KubeadmControlPlane, a control plane of machines that kubeadm sets up, and
// KubeadmControlPlaneTemplate, the template for one in a ClusterClass.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2"}
}

// AddToScheme adds the types here to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(),
		&KubeadmControlPlane{}, &KubeadmControlPlaneList{},
		&KubeadmControlPlaneTemplate{}, &KubeadmControlPlaneTemplateList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
