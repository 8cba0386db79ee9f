// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// ClusterClassPatch changes templates for a Cluster: by definitions here, or by an extension.
type ClusterClassPatch struct {
	// name of the patch, unique in the class.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`

	// description is for people.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// enabledIf is a Go template; the patch applies if it renders to true. Always when left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	EnabledIf *string `json:"enabledIf,omitempty"`

	// definitions are the changes and the templates that they apply to; they exclude
	// external.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Definitions []PatchDefinition `json:"definitions,omitempty"`

	// external has an extension make the changes; excludes definitions.
	// +optional
	External *ExternalPatchDefinition `json:"external,omitempty"`
}

// PatchDefinition defines what changes in which templates.
type PatchDefinition struct {
	// selector picks the templates.
	// +required
	Selector PatchSelector `json:"selector"`

	// jsonPatches are the changes, in their order.
	// +required
	// +kubebuilder:validation:MaxItems=100
	JSONPatches []JSONPatch `json:"jsonPatches"`
}

// PatchSelector picks templates.
type PatchSelector struct {
	// apiVersion of the templates.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	APIVersion string `json:"apiVersion"`

	// kind of the templates.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Kind string `json:"kind"`

	// matchResources selects templates by their role in the class.
	// +required
	MatchResources PatchSelectorMatch `json:"matchResources"`
}

// PatchSelectorMatch picks templates by their role in the class.
type PatchSelectorMatch struct {
	// controlPlane picks the template of the control plane and that of its machines.
	// +optional
	ControlPlane bool `json:"controlPlane,omitempty"`

	// infrastructureCluster picks the template of the infrastructure.
	// +optional
	InfrastructureCluster bool `json:"infrastructureCluster,omitempty"`

	// machineDeploymentClass picks templates of classes of MachineDeployments.
	// +optional
	MachineDeploymentClass *PatchSelectorMatchClass `json:"machineDeploymentClass,omitempty"`

	// machinePoolClass picks templates of classes of MachinePools.
	// +optional
	MachinePoolClass *PatchSelectorMatchClass `json:"machinePoolClass,omitempty"`
}

// PatchSelectorMatchClass picks classes.
type PatchSelectorMatchClass struct {
	// names of the classes; a star at either end matches any text.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Names []string `json:"names,omitempty"`
}

// JSONPatch is one change, in terms of RFC 6902.
type JSONPatch struct {
	// op is the operation.
	// +required
	// +kubebuilder:validation:Enum=add;replace;remove
	Op string `json:"op"`

	// path to what changes, below /spec.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path"`

	// value to put there; excludes valueFrom.
	// +optional
	Value *apiextensionsv1.JSON `json:"value,omitempty"`

	// valueFrom is the source of the value; it excludes value.
	// +optional
	ValueFrom *JSONPatchValue `json:"valueFrom,omitempty"`
}

// JSONPatchValue is the source of a value.
type JSONPatchValue struct {
	// variable whose value it is; excludes template.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Variable *string `json:"variable,omitempty"`

	// template is a Go template over the variables that computes the value; it excludes
	// variable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	Template *string `json:"template,omitempty"`
}

// ExternalPatchDefinition names the handlers of an extension.
type ExternalPatchDefinition struct {
	// generateExtension is the handler that computes the changes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	GenerateExtension *string `json:"generateExtension,omitempty"`

	// validateExtension is the handler that may refuse the outcome.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ValidateExtension *string `json:"validateExtension,omitempty"`

	// discoverVariablesExtension is the handler that defines variables.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	DiscoverVariablesExtension *string `json:"discoverVariablesExtension,omitempty"`

	// settings are handed to the extension; they take precedence over those of its ExtensionConfig.
	// +optional
	Settings map[string]string `json:"settings,omitempty"`
}
