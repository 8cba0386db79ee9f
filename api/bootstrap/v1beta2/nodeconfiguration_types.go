// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InitConfiguration is the configuration of the node that runs kubeadm init.
// +kubebuilder:validation:MinProperties=1
type InitConfiguration struct {
	// bootstrapTokens are tokens that kubeadm init creates. None are needed: a
	// token is created for each machine that joins.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	BootstrapTokens []BootstrapToken `json:"bootstrapTokens,omitempty"`

	// nodeRegistration defines how the node registers with the cluster.
	// +optional
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty,omitzero"`

	// localAPIEndpoint is where this node's API server listens.
	// +optional
	LocalAPIEndpoint APIEndpoint `json:"localAPIEndpoint,omitempty,omitzero"`

	// skipPhases are phases of kubeadm init to leave out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	SkipPhases []string `json:"skipPhases,omitempty"`

	// patches change what kubeadm deploys.
	// +optional
	Patches Patches `json:"patches,omitempty,omitzero"`

	// timeouts of kubeadm. Before kubeadm 1.31 only
	// controlPlaneComponentHealthCheckSeconds has an effect.
	// +optional
	Timeouts Timeouts `json:"timeouts,omitempty,omitzero"`
}

// JoinConfiguration is the configuration of kubeadm join.
// +kubebuilder:validation:MinProperties=1
type JoinConfiguration struct {
	// nodeRegistration defines how the node registers with the cluster.
	// +optional
	NodeRegistration NodeRegistrationOptions `json:"nodeRegistration,omitempty,omitzero"`

	// caCertPath is the path of the cluster's authority on the machine;
	// /etc/kubernetes/pki/ca.crt when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CACertPath string `json:"caCertPath,omitempty"`

	// discovery defines how the node finds the cluster and verifies its identity.
	// The kubeadmconfig controller fills in what is missing.
	// +optional
	Discovery Discovery `json:"discovery,omitempty,omitzero"`

	// controlPlane makes the node a control plane node. Left out for workers.
	// +optional
	ControlPlane *JoinControlPlane `json:"controlPlane,omitempty"`

	// skipPhases are phases of kubeadm join to leave out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	SkipPhases []string `json:"skipPhases,omitempty"`

	// patches change what kubeadm deploys.
	// +optional
	Patches Patches `json:"patches,omitempty,omitzero"`

	// timeouts of kubeadm. Before kubeadm 1.31 only discoverySeconds has an
	// effect, or tlsBootstrapSeconds in its place when it is not set.
	// +optional
	Timeouts Timeouts `json:"timeouts,omitempty,omitzero"`
}

// JoinControlPlane is what kubeadm join needs for a control plane node.
type JoinControlPlane struct {
	// localAPIEndpoint is where this node's API server listens.
	// +optional
	LocalAPIEndpoint APIEndpoint `json:"localAPIEndpoint,omitempty,omitzero"`
}

// APIEndpoint is where one API server listens.
// +kubebuilder:validation:MinProperties=1
type APIEndpoint struct {
	// advertiseAddress is the IP address to announce; that of the default
	// interface when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=39
	AdvertiseAddress string `json:"advertiseAddress,omitempty"`

	// bindPort is the port; 6443 when it is not set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	BindPort int32 `json:"bindPort,omitempty"`
}

// NodeRegistrationOptions define how a node registers with the cluster.
// +kubebuilder:validation:MinProperties=1
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
	// +kubebuilder:validation:MinItems=0
	// +kubebuilder:validation:MaxItems=100
	Taints *[]corev1.Taint `json:"taints,omitempty"`

	// kubeletExtraArgs are flags of the kubelet, in addition to those that
	// kubeadm sets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=value
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x.name == y.name))",message="name each flag once"
	KubeletExtraArgs []Arg `json:"kubeletExtraArgs,omitempty"`

	// ignorePreflightErrors are checks of kubeadm whose failure is tolerated.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
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

// Timeouts are limits of kubeadm, in seconds.
// +kubebuilder:validation:MinProperties=1
type Timeouts struct {
	// controlPlaneComponentHealthCheckSeconds is how long to wait for a
	// component of the control plane to become healthy.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ControlPlaneComponentHealthCheckSeconds *int32 `json:"controlPlaneComponentHealthCheckSeconds,omitempty"`

	// kubeletHealthCheckSeconds is how long to wait for the kubelet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	KubeletHealthCheckSeconds *int32 `json:"kubeletHealthCheckSeconds,omitempty"`

	// kubernetesAPICallSeconds is how long to retry a call of the Kubernetes API.
	// +optional
	// +kubebuilder:validation:Minimum=0
	KubernetesAPICallSeconds *int32 `json:"kubernetesAPICallSeconds,omitempty"`

	// etcdAPICallSeconds is how long to retry a call of etcd.
	// +optional
	// +kubebuilder:validation:Minimum=0
	EtcdAPICallSeconds *int32 `json:"etcdAPICallSeconds,omitempty"`

	// tlsBootstrapSeconds is how long to wait for the kubelet's certificate.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TLSBootstrapSeconds *int32 `json:"tlsBootstrapSeconds,omitempty"`

	// discoverySeconds is how long to try to find the cluster.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DiscoverySeconds *int32 `json:"discoverySeconds,omitempty"`
}

// Patches change what kubeadm deploys.
// +kubebuilder:validation:MinProperties=1
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
	Token *BootstrapTokenString `json:"token,omitempty"`

	// description is the purpose of the token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Description string `json:"description,omitempty"`

	// ttlSeconds is how long the token lasts; 0 for ever. Not together with
	// expires.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TTLSeconds *int32 `json:"ttlSeconds,omitempty"`

	// expires is when the token ends. Not together with ttlSeconds.
	// +optional
	Expires metav1.Time `json:"expires,omitempty,omitzero"`

	// usages are what the token is good for: signing, authentication.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Usages []string `json:"usages,omitempty"`

	// groups are what the bearer of the token belongs to.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Groups []string `json:"groups,omitempty"`
}
