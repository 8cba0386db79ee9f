// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InitConfiguration is the configuration of the node that runs kubeadm init.
type InitConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// bootstrapTokens are tokens that kubeadm init creates. None are needed: a
	// token is created for each machine that joins.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	BootstrapTokens []BootstrapToken `json:"bootstrapTokens,omitempty"`

	// nodeRegistration defines how the node registers with the cluster.
	// +optional
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`

	// localAPIEndpoint is where this node's API server listens.
	// +optional
	LocalAPIEndpoint APIEndpoint `json:"localAPIEndpoint,omitempty"`

	// skipPhases are phases of kubeadm init to leave out.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	SkipPhases []string `json:"skipPhases,omitempty"`

	// patches change what kubeadm deploys.
	// +optional
	Patches *Patches `json:"patches,omitempty"`
}

// JoinConfiguration is the configuration of kubeadm join.
type JoinConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// nodeRegistration defines how the node registers with the cluster.
	// +optional
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty"`

	// caCertPath is the path of the cluster's authority on the machine;
	// /etc/kubernetes/pki/ca.crt when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CACertPath string `json:"caCertPath,omitempty"`

	// discovery defines how the node finds the cluster and verifies its identity.
	// The kubeadmconfig controller fills in what is missing.
	// +optional
	Discovery Discovery `json:"discovery,omitempty"`

	// controlPlane makes the node a control plane node. Left out for workers.
	// +optional
	ControlPlane *JoinControlPlane `json:"controlPlane,omitempty"`

	// skipPhases are phases of kubeadm join to leave out.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	SkipPhases []string `json:"skipPhases,omitempty"`

	// patches change what kubeadm deploys.
	// +optional
	Patches *Patches `json:"patches,omitempty"`
}

// JoinControlPlane is what kubeadm join needs for a control plane node.
type JoinControlPlane struct {
	// localAPIEndpoint is where this node's API server listens.
	// +optional
	LocalAPIEndpoint APIEndpoint `json:"localAPIEndpoint,omitempty"`
}

// APIEndpoint is where one API server listens.
type APIEndpoint struct {
	// advertiseAddress is the IP address to announce; that of the default
	// interface when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	AdvertiseAddress string `json:"advertiseAddress,omitempty"`

	// bindPort is the port; 6443 when it is not set.
	// +optional
	BindPort int32 `json:"bindPort,omitempty"`
}

// NodeRegistrationOptions define how a node registers with the cluster.
type NodeRegistrationOptions struct {
	// name of the Node; the machine's host name when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// criSocket is the address of the container runtime.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CRISocket string `json:"criSocket,omitempty"`

	// taints of the Node. Not set: kubeadm's default, which taints control
	// plane nodes. An empty list: none.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	Taints *[]corev1.Taint `json:"taints,omitempty"`

	// kubeletExtraArgs are flags of the kubelet, in addition to those that
	// kubeadm sets.
	// +optional
	KubeletExtraArgs map[string]string `json:"kubeletExtraArgs,omitempty"`

	// ignorePreflightErrors are checks of kubeadm whose failure is tolerated.
	// +optional
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	IgnorePreflightErrors []string `json:"ignorePreflightErrors,omitempty"`

	// imagePullPolicy defines when kubeadm pulls images; IfNotPresent when it is
	// empty.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSerial pulls images one at a time, which is also the default;
	// false pulls them in parallel. Needs kubeadm 1.31.
	// +optional
	ImagePullSerial *bool `json:"imagePullSerial,omitempty"`
}

// Patches change what kubeadm deploys.
type Patches struct {
	// directory on the machine with files named
	// "target[suffix][+patchtype].extension", as kubeadm reads them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Directory string `json:"directory,omitempty"`
}

// BootstrapToken is a token with which nodes may join.
type BootstrapToken struct {
	// token is the token itself: "[a-z0-9]{6}.[a-z0-9]{16}".
	// +required
	Token *string `json:"token"`

	// description is the purpose of the token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Description string `json:"description,omitempty"`

	// ttl is how long the token lasts; 0 for ever.
	// +optional
	TTL *metav1.Duration `json:"ttl,omitempty"`

	// expires is when the token ends. Not together with ttl.
	// +optional
	Expires *metav1.Time `json:"expires,omitempty"`

	// usages are what the token is good for: signing, authentication.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Usages []string `json:"usages,omitempty"`

	// groups are what the bearer of the token belongs to.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Groups []string `json:"groups,omitempty"`
}
