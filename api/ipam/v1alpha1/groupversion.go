// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 holds the wire types of ipam.cluster.x-k8s.io/v1alpha1, an old version
// that is served and not stored: its objects are converted to and from v1beta2.
// +kubebuilder:object:generate=true
// +groupName=ipam.cluster.x-k8s.io
package v1alpha1

import "k8s.io/apimachinery/pkg/runtime/schema"

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "ipam.cluster.x-k8s.io", Version: "v1alpha1"}
}
