// SPDX-License-Identifier: Apache-2.0

// Package v1beta1 holds the wire types of cluster.x-k8s.io/v1beta1, the
// deprecated version that is served and not stored: its objects are converted to
// and from v1beta2. No client code is written against them, so they are only
// structs. A struct of v1beta2 is used where both versions encode it identically.
//
// +kubebuilder:object:generate=true
// +groupName=cluster.x-k8s.io
package v1beta1

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types here.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta1"}
}
