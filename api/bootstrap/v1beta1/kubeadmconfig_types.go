// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// KubeadmConfigSpec defines how a machine becomes a node: the configuration of
// kubeadm, and what else is set up on the machine before and after kubeadm runs.
type KubeadmConfigSpec struct {
	// clusterConfiguration is the configuration of the whole cluster for kubeadm.
	// It is used only on the machine that runs kubeadm init.
	// +optional
	ClusterConfiguration *ClusterConfiguration `json:"clusterConfiguration,omitempty"`

	// initConfiguration is the configuration of the node that runs kubeadm init.
	// +optional
	InitConfiguration *InitConfiguration `json:"initConfiguration,omitempty"`

	// joinConfiguration is the configuration of kubeadm join.
	// +optional
	JoinConfiguration *JoinConfiguration `json:"joinConfiguration,omitempty"`

	// files are written before any command runs. Their paths are distinct.
	// +optional
	// +kubebuilder:validation:MaxItems=200
	Files []File `json:"files,omitempty"`

	// diskSetup partitions disks and creates file systems on them.
	// +optional
	DiskSetup *DiskSetup `json:"diskSetup,omitempty"`

	// mounts are lines of fstab, each given as the list of its fields.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Mounts []MountPoints `json:"mounts,omitempty"`

	// bootCommands run very early in each boot, before files are written
	// (cloud-init's bootcmd). Ignition cannot express them.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=10240
	BootCommands []string `json:"bootCommands,omitempty"`

	// preKubeadmCommands run in order before kubeadm, once the files are written.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=10240
	PreKubeadmCommands []string `json:"preKubeadmCommands,omitempty"`

	// postKubeadmCommands run in order after kubeadm.
	// +optional
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=10240
	PostKubeadmCommands []string `json:"postKubeadmCommands,omitempty"`

	// users are accounts to create.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Users []User `json:"users,omitempty"`

	// ntp sets where the machine takes its time from.
	// +optional
	NTP *NTP `json:"ntp,omitempty"`

	// format is the language of the data; cloud-config when it is empty.
	// +optional
	Format bootstrapv1.Format `json:"format,omitempty"`

	// useExperimentalRetryJoin is dropped: kubeadm retries automatically.
	// +optional
	UseExperimentalRetryJoin bool `json:"useExperimentalRetryJoin,omitempty"`

	// verbosity is kubeadm's log level (its flag --v). Without it the flag is
	// left out.
	// +optional
	Verbosity *int32 `json:"verbosity,omitempty"`

	// ignition holds what only the format ignition can use.
	// +optional
	Ignition *IgnitionSpec `json:"ignition,omitempty"`
}

// IgnitionSpec holds what only the format ignition can use.
type IgnitionSpec struct {
	// containerLinuxConfig is merged into the generated config.
	// +optional
	ContainerLinuxConfig *ContainerLinuxConfig `json:"containerLinuxConfig,omitempty"`
}

// ContainerLinuxConfig is a part of a machine's setup in the language of
// Container Linux Config, a YAML form of Ignition.
type ContainerLinuxConfig struct {
	// additionalConfig is a Container Linux Config that is appended to the
	// generated one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32768
	AdditionalConfig string `json:"additionalConfig,omitempty"`

	// strict turns a warning of the translation to Ignition into an error.
	// +optional
	Strict bool `json:"strict,omitempty"`
}

// KubeadmConfigStatus is the observed state of a KubeadmConfig.
type KubeadmConfigStatus struct {
	// ready is whether the Secret with the bootstrap data is complete.
	// +optional
	Ready bool `json:"ready"`

	// dataSecretName names the Secret with the bootstrap data.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName *string `json:"dataSecretName,omitempty"`

	// failureReason is a one-word reason for a failure that does not resolve
	// automatically.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason string `json:"failureReason,omitempty"`

	// failureMessage is a sentence for the same failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage string `json:"failureMessage,omitempty"`

	// observedGeneration is the newest generation that was reconciled.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions are the conditions of this version.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`

	// v1beta2 groups what v1beta2 has.
	// +optional
	V1Beta2 *KubeadmConfigV1Beta2Status `json:"v1beta2,omitempty"`
}

// KubeadmConfigV1Beta2Status groups what v1beta2 has.
type KubeadmConfigV1Beta2Status struct {
	// conditions are those of v1beta2.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// KubeadmConfig defines how one machine becomes a node with kubeadm. Its owner is
// a Machine or MachinePool. The kubeadmconfig controller renders it into a
// Secret with data for cloud-init.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmconfigs,scope=Namespaced,categories=cluster-api
// +kubebuilder:deprecatedversion
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster that the config belongs to"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp",description="Time since creation"
type KubeadmConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +optional
	Spec KubeadmConfigSpec `json:"spec,omitempty"`

	// status is the observed state.
	// +optional
	Status KubeadmConfigStatus `json:"status,omitempty"`
}
