// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ExtensionConfigSpec is the desired state of an ExtensionConfig.
type ExtensionConfigSpec struct {
	// clientConfig defines how the extension is reached.
	// +required
	ClientConfig ClientConfig `json:"clientConfig"`

	// namespaceSelector limits the extension to objects in the namespaces it
	// selects. Left out, all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// settings are sent with every request.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
}

// ClientConfig defines how an extension is reached.
type ClientConfig struct {
	// url is the extension's address.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	URL *string `json:"url,omitempty"`

	// service is the extension's Service.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// caBundle holds the PEM certificates that the extension's certificate is
	// verified with.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=51200
	CABundle []byte `json:"caBundle,omitempty"`
}

// ServiceReference names a Service.
type ServiceReference struct {
	// namespace is the Service's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name is the Service's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// path is put before the path of each hook.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path *string `json:"path,omitempty"`

	// port is the Service's port, 443 when left out.
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// ExtensionConfigStatus is the observed state of an ExtensionConfig.
type ExtensionConfigStatus struct {
	// handlers are the handlers that the extension reported at discovery.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Handlers []ExtensionHandler `json:"handlers,omitempty"`

	// conditions are the conditions of this version.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// v1beta2 groups what v1beta2 has.
	// +optional
	V1Beta2 *ExtensionConfigV1Beta2Status `json:"v1beta2,omitempty"`
}

// ExtensionConfigV1Beta2Status groups what v1beta2 has.
type ExtensionConfigV1Beta2Status struct {
	// conditions are those of v1beta2.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ExtensionHandler is one operation that an extension implements.
type ExtensionHandler struct {
	// name is unique among all extensions.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`

	// requestHook is the hook that the handler answers.
	// +required
	RequestHook GroupVersionHook `json:"requestHook"`

	// timeoutSeconds is how long a call may take.
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// failurePolicy defines the effect of a failed call.
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy *string `json:"failurePolicy,omitempty"`
}

// GroupVersionHook names a hook.
type GroupVersionHook struct {
	// apiVersion is the hook's group and version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	APIVersion string `json:"apiVersion"`

	// hook is the hook's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Hook string `json:"hook"`
}

// ExtensionConfig registers a runtime extension.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=extensionconfigs,shortName=ext,scope=Cluster,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type ExtensionConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec ExtensionConfigSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status ExtensionConfigStatus `json:"status,omitempty"`
}
