// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// ClusterConfiguration is the configuration of the whole cluster for kubeadm. It
// does not repeat what the Cluster and Machine already specify (name, versions,
// networks).
type ClusterConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// etcd is the cluster's store; a local member on each control plane
	// machine when it is empty.
	// +optional
	Etcd Etcd `json:"etcd,omitempty"`

	// networking is dropped: the Cluster specifies it.
	// +optional
	Networking Networking `json:"networking,omitempty"`

	// kubernetesVersion is dropped: the Machine specifies it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// clusterName is dropped: the Cluster specifies it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ClusterName string `json:"clusterName,omitempty"`

	// controlPlaneEndpoint is where all reach the control plane: "host:port".
	// Taken from the Cluster when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`

	// apiServer adjusts kube-apiserver.
	// +optional
	APIServer APIServer `json:"apiServer,omitempty"`

	// controllerManager adjusts kube-controller-manager.
	// +optional
	ControllerManager ControllerManager `json:"controllerManager,omitempty"`

	// scheduler adjusts kube-scheduler.
	// +optional
	Scheduler Scheduler `json:"scheduler,omitempty"`

	// dns adjusts CoreDNS.
	// +optional
	DNS DNS `json:"dns,omitempty"`

	// certificatesDir is where certificates are kept on control plane
	// machines; /etc/kubernetes/pki when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CertificatesDir string `json:"certificatesDir,omitempty"`

	// imageRepository is the registry and path of images; kubeadm's own default
	// when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ImageRepository string `json:"imageRepository,omitempty"`

	// featureGates are gates of kubeadm, not of Kubernetes.
	// +optional
	FeatureGates map[string]bool `json:"featureGates,omitempty"`

	// certificateValidityPeriodDays is how long certificates last that are
	// not authorities; 365 when it is not set. Needs kubeadm 1.31.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1095
	CertificateValidityPeriodDays int32 `json:"certificateValidityPeriodDays,omitempty"`

	// caCertificateValidityPeriodDays is how long certificate authorities
	// last; 3650 when it is not set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=36500
	CACertificateValidityPeriodDays int32 `json:"caCertificateValidityPeriodDays,omitempty"`

	// encryptionAlgorithm is the kind of the private keys of the cluster.
	// +optional
	EncryptionAlgorithm bootstrapv1.EncryptionAlgorithmType `json:"encryptionAlgorithm,omitempty"`
}

// APIServer adjusts kube-apiserver.
type APIServer struct {
	// extraArgs are flags in addition to those that kubeadm sets.
	// +optional
	ExtraArgs map[string]string `json:"extraArgs,omitempty"`

	// extraVolumes are files of the machine for the container.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ExtraVolumes []HostPathMount `json:"extraVolumes,omitempty"`

	// extraEnvs are environment variables of the container. Needs kubeadm 1.31.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ExtraEnvs []bootstrapv1.EnvVar `json:"extraEnvs,omitempty"`

	// certSANs are further names and addresses in the serving certificate.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	CertSANs []string `json:"certSANs,omitempty"`

	// timeoutForControlPlane is how long to wait for the control plane.
	// +optional
	TimeoutForControlPlane *metav1.Duration `json:"timeoutForControlPlane,omitempty"`
}

// ControllerManager adjusts kube-controller-manager.
type ControllerManager struct {
	// extraArgs are flags in addition to those that kubeadm sets.
	// +optional
	ExtraArgs map[string]string `json:"extraArgs,omitempty"`

	// extraVolumes are files of the machine for the container.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ExtraVolumes []HostPathMount `json:"extraVolumes,omitempty"`

	// extraEnvs are environment variables of the container. Needs kubeadm 1.31.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ExtraEnvs []bootstrapv1.EnvVar `json:"extraEnvs,omitempty"`
}

// Scheduler adjusts kube-scheduler.
type Scheduler struct {
	// extraArgs are flags in addition to those that kubeadm sets.
	// +optional
	ExtraArgs map[string]string `json:"extraArgs,omitempty"`

	// extraVolumes are files of the machine for the container.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ExtraVolumes []HostPathMount `json:"extraVolumes,omitempty"`

	// extraEnvs are environment variables of the container. Needs kubeadm 1.31.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ExtraEnvs []bootstrapv1.EnvVar `json:"extraEnvs,omitempty"`
}

// Networking is dropped: the Cluster specifies it.
type Networking struct {
	// serviceSubnet is the subnet of Services.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	ServiceSubnet string `json:"serviceSubnet,omitempty"`

	// podSubnet is the subnet of Pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	PodSubnet string `json:"podSubnet,omitempty"`

	// dnsDomain is the domain of Services.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DNSDomain string `json:"dnsDomain,omitempty"`
}

// DNS adjusts CoreDNS.
type DNS struct {
	// imageRepository is the registry and path of the image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ImageRepository string `json:"imageRepository,omitempty"`

	// imageTag is the tag of the image. With it set, its choice no longer
	// follows kubeadm's version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ImageTag string `json:"imageTag,omitempty"`
}

// Etcd is the cluster's store. At most one of its fields is set.
type Etcd struct {
	// local adjusts the etcd members that kubeadm runs on control plane
	// machines.
	// +optional
	Local *LocalEtcd `json:"local,omitempty"`

	// external is an etcd cluster that kubeadm does not manage.
	// +optional
	External *ExternalEtcd `json:"external,omitempty"`
}

// LocalEtcd adjusts the etcd members that kubeadm runs.
type LocalEtcd struct {
	// imageRepository is the registry and path of the image.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ImageRepository string `json:"imageRepository,omitempty"`

	// imageTag is the tag of the image. With it set, its choice no longer
	// follows kubeadm's version.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ImageTag string `json:"imageTag,omitempty"`

	// dataDir is where etcd keeps its data; /var/lib/etcd when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	DataDir string `json:"dataDir,omitempty"`

	// extraArgs are flags in addition to those that kubeadm sets.
	// +optional
	ExtraArgs map[string]string `json:"extraArgs,omitempty"`

	// extraEnvs are environment variables of the container. Needs kubeadm 1.31.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	ExtraEnvs []bootstrapv1.EnvVar `json:"extraEnvs,omitempty"`

	// serverCertSANs are further names and addresses in etcd's serving
	// certificate.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ServerCertSANs []string `json:"serverCertSANs,omitempty"`

	// peerCertSANs are further names and addresses in etcd's peer certificate.
	// +optional
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	PeerCertSANs []string `json:"peerCertSANs,omitempty"`
}

// ExternalEtcd is an etcd cluster that kubeadm does not manage.
type ExternalEtcd struct {
	// endpoints are the members' client addresses.
	// +required
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Endpoints []string `json:"endpoints"`

	// caFile is the path of the authority that issues etcd's certificates.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CAFile string `json:"caFile"`

	// certFile is the path of kube-apiserver's client certificate for etcd.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CertFile string `json:"certFile"`

	// keyFile is the path of the key of that certificate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	KeyFile string `json:"keyFile"`
}

// HostPathMount puts a file or directory of the machine into a container.
type HostPathMount struct {
	// name of the volume in the Pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name"`

	// hostPath is the path on the machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	HostPath string `json:"hostPath"`

	// mountPath is the path in the container.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	MountPath string `json:"mountPath"`

	// readOnly forbids writing through the mount.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`

	// pathType defines what must be at hostPath.
	// +optional
	PathType corev1.HostPathType `json:"pathType,omitempty"`
}
