// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// GeneratePatchesRequest is sent to have the templates of a cluster patched.
// +kubebuilder:object:root=true
type GeneratePatchesRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// variables are the variables of the whole cluster.
	// +optional
	Variables []Variable `json:"variables,omitempty"`

	// items are the templates.
	Items []GeneratePatchesRequestItem `json:"items"`
}

// GeneratePatchesResponse answers a GeneratePatchesRequest.
// +kubebuilder:object:root=true
type GeneratePatchesResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonResponse is what all such responses hold.
	CommonResponse `json:",inline"`

	// items are the patches.
	// +optional
	Items []GeneratePatchesResponseItem `json:"items,omitempty"`
}

// GeneratePatches is the hook of GeneratePatchesRequest and GeneratePatchesResponse.
func GeneratePatches(*GeneratePatchesRequest, *GeneratePatchesResponse) {}

// GeneratePatchesRequestItem is one template.
type GeneratePatchesRequestItem struct {
	// uid ties patches to this item.
	UID types.UID `json:"uid"`

	// holderReference names what uses object, and where.
	HolderReference HolderReference `json:"holderReference"`

	// object is the template.
	Object runtime.RawExtension `json:"object"`

	// variables are those that only this item has, or has with another value.
	// +optional
	Variables []Variable `json:"variables,omitempty"`
}

// GeneratePatchesResponseItem is the patch of one template.
type GeneratePatchesResponseItem struct {
	// uid is the item of the request.
	UID types.UID `json:"uid"`

	// patchType is the format of patch.
	PatchType PatchType `json:"patchType"`

	// patch is the patch.
	Patch []byte `json:"patch"`
}

// ValidateTopologyRequest is sent after all patches, to have the result checked.
// +kubebuilder:object:root=true
type ValidateTopologyRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`

	// variables are the variables of the whole cluster.
	// +optional
	Variables []Variable `json:"variables,omitempty"`

	// items are the patched templates.
	Items []*ValidateTopologyRequestItem `json:"items"`
}

// ValidateTopologyResponse answers a ValidateTopologyRequest.
// +kubebuilder:object:root=true
type ValidateTopologyResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonResponse is what all such responses hold.
	CommonResponse `json:",inline"`
}

// ValidateTopology is the hook of ValidateTopologyRequest and ValidateTopologyResponse.
func ValidateTopology(*ValidateTopologyRequest, *ValidateTopologyResponse) {}

// ValidateTopologyRequestItem is one patched template.
type ValidateTopologyRequestItem struct {
	// holderReference names what uses object, and where.
	HolderReference HolderReference `json:"holderReference"`

	// object is the template.
	Object runtime.RawExtension `json:"object"`

	// variables are those that only this item has, or has with another value.
	// +optional
	Variables []Variable `json:"variables,omitempty"`
}

// Variable is a variable and its value.
type Variable struct {
	// name is the variable's name.
	Name string `json:"name"`

	// value is the variable's value.
	Value apiextensionsv1.JSON `json:"value"`
}

// HolderReference names an object and the field that refers to a template.
type HolderReference struct {
	// apiVersion is the object's.
	APIVersion string `json:"apiVersion"`

	// kind is the object's.
	Kind string `json:"kind"`

	// namespace is the object's.
	Namespace string `json:"namespace"`

	// name is the object's.
	Name string `json:"name"`

	// fieldPath is the field, such as spec.infrastructureRef.
	FieldPath string `json:"fieldPath"`
}

// DiscoverVariablesRequest is sent to learn the variables that an extension defines.
// +kubebuilder:object:root=true
type DiscoverVariablesRequest struct {
	metav1.TypeMeta `json:",inline"`

	// CommonRequest is what all requests hold.
	CommonRequest `json:",inline"`
}

// DiscoverVariablesResponse answers a DiscoverVariablesRequest.
// +kubebuilder:object:root=true
type DiscoverVariablesResponse struct {
	metav1.TypeMeta `json:",inline"`

	// CommonResponse is what all such responses hold.
	CommonResponse `json:",inline"`

	// variables are the definitions.
	// +optional
	Variables []clusterv1.ClusterClassVariable `json:"variables,omitempty"`
}

// DiscoverVariables is the hook of DiscoverVariablesRequest and DiscoverVariablesResponse.
func DiscoverVariables(*DiscoverVariablesRequest, *DiscoverVariablesResponse) {}
