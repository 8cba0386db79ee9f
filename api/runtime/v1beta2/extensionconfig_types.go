// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Annotations of the runtime SDK.
const (
	// InjectCAFromSecretAnnotation on an ExtensionConfig names a Secret as
	// namespace/name whose ca.crt becomes the clientConfig's caBundle.
	InjectCAFromSecretAnnotation = "runtime.cluster.x-k8s.io/inject-ca-from-secret"

	// PendingHooksAnnotation lists, comma separated, the hooks that are still
	// to be called for an object.
	PendingHooksAnnotation = "runtime.cluster.x-k8s.io/pending-hooks"

	// OkToDeleteAnnotation on a Cluster means that all hooks before deletion allow its deletion.
	OkToDeleteAnnotation = "runtime.cluster.x-k8s.io/ok-to-delete"
)

// FailurePolicy defines what happens when an extension cannot be called.
type FailurePolicy string

const (
	// FailurePolicyIgnore ignores the failure and continues without the extension.
	FailurePolicyIgnore FailurePolicy = "Ignore"

	// FailurePolicyFail makes it an error.
	FailurePolicyFail FailurePolicy = "Fail"
)

// ExtensionConfigSpec is the desired state of an ExtensionConfig.
type ExtensionConfigSpec struct {
	// clientConfig defines how the extension is reached.
	// +required
	ClientConfig ClientConfig `json:"clientConfig,omitempty,omitzero"`

	// namespaceSelector limits the extension to objects in the namespaces it
	// selects. Left out, all namespaces.
	// +optional
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`

	// settings are sent with every request; those of a ClusterClass patch
	// take precedence.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
}

// ClientConfig defines how an extension is reached: by exactly one of url and
// service.
// +kubebuilder:validation:MinProperties=1
type ClientConfig struct {
	// url is the extension's address, https://host:port/path, without user,
	// query and fragment.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	URL string `json:"url,omitempty"`

	// service is the extension's Service.
	// +optional
	Service ServiceReference `json:"service,omitempty,omitzero"`

	// caBundle holds the PEM certificates that the extension's certificate is
	// verified with.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=51200
	CABundle []byte `json:"caBundle,omitempty"`
}

// ServiceReference names a Service and a path there.
type ServiceReference struct {
	// namespace is the Service's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`

	// name is the Service's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name,omitempty"`

	// path is put before the path of each hook.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`

	// port is the Service's port, 443 when left out.
	// +optional
	Port *int32 `json:"port,omitempty"`
}

// ExtensionConfigStatus is the observed state of an ExtensionConfig.
// +kubebuilder:validation:MinProperties=1
type ExtensionConfigStatus struct {
	// conditions are the current conditions: Discovered, HookVersionsUpToDate,
	// Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// handlers are the handlers that the extension reported at discovery.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Handlers []ExtensionHandler `json:"handlers,omitempty"`

	// deprecated groups deprecated fields.
	// +optional
	Deprecated *ExtensionConfigDeprecatedStatus `json:"deprecated,omitempty"`
}

// ExtensionHandler is one operation that an extension implements.
type ExtensionHandler struct {
	// name is unique among all extensions: the handler's own name, a dot, and
	// the ExtensionConfig's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name,omitempty"`

	// requestHook is the hook that the handler answers.
	// +required
	RequestHook GroupVersionHook `json:"requestHook,omitempty,omitzero"`

	// timeoutSeconds is how long a call may take.
	// +optional
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// failurePolicy defines the effect of a failed call.
	// +optional
	// +kubebuilder:validation:Enum=Ignore;Fail
	FailurePolicy FailurePolicy `json:"failurePolicy,omitempty"`
}

// GroupVersionHook names a hook.
type GroupVersionHook struct {
	// apiVersion is the hook's group and version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	APIVersion string `json:"apiVersion,omitempty"`

	// hook is the hook's name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Hook string `json:"hook,omitempty"`
}

// ExtensionConfigDeprecatedStatus groups deprecated status fields.
type ExtensionConfigDeprecatedStatus struct {
	// v1beta1 holds the status fields of v1beta1 that have no place in
	// v1beta2.
	// +optional
	V1Beta1 *ExtensionConfigV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// ExtensionConfigV1Beta1DeprecatedStatus holds the status fields of v1beta1 that have
// no place in v1beta2.
type ExtensionConfigV1Beta1DeprecatedStatus struct {
	// conditions are the conditions in the shape of v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`
}

// ExtensionConfig registers a runtime extension.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=extensionconfigs,scope=Cluster,categories=cluster-api,shortName=ext
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=".status.conditions[?(@.type==\"Paused\")].status",description="Whether reconciling is paused",priority=10
// +kubebuilder:printcolumn:name="Discovered",type="string",JSONPath=".status.conditions[?(@.type==\"Discovered\")].status",description="Whether its handlers are known"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type ExtensionConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is the desired state.
	// +required
	Spec ExtensionConfigSpec `json:"spec,omitempty,omitzero"`

	// status is the observed state.
	// +optional
	Status ExtensionConfigStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (e *ExtensionConfig) GetConditions() []metav1.Condition { return e.Status.Conditions }

// SetConditions replaces the conditions.
func (e *ExtensionConfig) SetConditions(conditions []metav1.Condition) {
	e.Status.Conditions = conditions
}

// ExtensionConfigList is a list of ExtensionConfigs.
// +kubebuilder:object:root=true
type ExtensionConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty,omitzero"`
	// items are the ExtensionConfigs.
	Items []ExtensionConfig `json:"items"`
}
