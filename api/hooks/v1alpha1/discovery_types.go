// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DiscoveryRequest asks an extension what it can do. It has no settings.
// +kubebuilder:object:root=true
type DiscoveryRequest struct {
	metav1.TypeMeta `json:",inline"`
}

// DiscoveryResponse answers a DiscoveryRequest.
// +kubebuilder:object:root=true
type DiscoveryResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonResponse is what all such responses hold.
	CommonResponse `json:",inline"`

	// handlers are what the extension can do.
	// +optional
	// +listType=map
	// +listMapKey=name
	Handlers []ExtensionHandler `json:"handlers,omitempty"`
}

// Discovery is the hook of DiscoveryRequest and DiscoveryResponse.
func Discovery(*DiscoveryRequest, *DiscoveryResponse) {}

// ExtensionHandler is one operation that an extension implements.
type ExtensionHandler struct {
	// name is unique within the extension: a DNS label, as it is part of the
	// path of calls.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// requestHook is the hook that the handler answers.
	RequestHook GroupVersionHook `json:"requestHook"`

	// timeoutSeconds is how long a call may take, at most 30; 10 when left
	// out.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// failurePolicy defines what happens when a handler cannot be called; Fail
	// when left out.
	// +optional
	FailurePolicy *FailurePolicy `json:"failurePolicy,omitempty"`
}

// GroupVersionHook names a hook.
type GroupVersionHook struct {
	// apiVersion is the hook's group and version.
	APIVersion string `json:"apiVersion"`

	// hook is the hook's name.
	Hook string `json:"hook"`
}

// FailurePolicy defines what happens when a handler cannot be called.
// +enum
type FailurePolicy string

const (
	// FailurePolicyIgnore ignores the failure and continues without the handler.
	FailurePolicyIgnore FailurePolicy = "Ignore"

	// FailurePolicyFail makes it an error.
	FailurePolicyFail FailurePolicy = "Fail"
)
