// SPDX-License-Identifier: Apache-2.0

package v1beta2

import corev1 "k8s.io/api/core/v1"

// EncryptionAlgorithmType is a kind of private key.
// +kubebuilder:validation:Enum=ECDSA-P256;ECDSA-P384;RSA-2048;RSA-3072;RSA-4096
type EncryptionAlgorithmType string

const (
	// EncryptionAlgorithmECDSAP256 is ECDSA on the curve P-256.
	EncryptionAlgorithmECDSAP256 EncryptionAlgorithmType = "ECDSA-P256"
	// EncryptionAlgorithmECDSAP384 is ECDSA on the curve P-384.
	EncryptionAlgorithmECDSAP384 EncryptionAlgorithmType = "ECDSA-P384"
	// EncryptionAlgorithmRSA2048 is RSA with 2048 bits.
	EncryptionAlgorithmRSA2048 EncryptionAlgorithmType = "RSA-2048"
	// EncryptionAlgorithmRSA3072 is RSA with 3072 bits.
	EncryptionAlgorithmRSA3072 EncryptionAlgorithmType = "RSA-3072"
	// EncryptionAlgorithmRSA4096 is RSA with 4096 bits.
	EncryptionAlgorithmRSA4096 EncryptionAlgorithmType = "RSA-4096"
)

// ClusterConfiguration is the configuration of the whole cluster for kubeadm. It
// does not repeat what the Cluster and Machine already specify (name, versions,
// networks).
// +kubebuilder:validation:MinProperties=1
type ClusterConfiguration struct {
	// etcd is the cluster's store; a local member on each control plane
	// machine when it is empty.
	// +optional
	Etcd Etcd `json:"etcd,omitempty,omitzero"`

	// controlPlaneEndpoint is where all reach the control plane: "host:port".
	// Taken from the Cluster when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ControlPlaneEndpoint string `json:"controlPlaneEndpoint,omitempty"`

	// apiServer adjusts kube-apiserver.
	// +optional
	APIServer APIServer `json:"apiServer,omitempty,omitzero"`

	// controllerManager adjusts kube-controller-manager.
	// +optional
	ControllerManager ControllerManager `json:"controllerManager,omitempty,omitzero"`

	// scheduler adjusts kube-scheduler.
	// +optional
	Scheduler Scheduler `json:"scheduler,omitempty,omitzero"`

	// dns adjusts CoreDNS.
	// +optional
	DNS DNS `json:"dns,omitempty,omitzero"`

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
	EncryptionAlgorithm EncryptionAlgorithmType `json:"encryptionAlgorithm,omitempty"`
}

// APIServer adjusts kube-apiserver.
// +kubebuilder:validation:MinProperties=1
type APIServer struct {
	// extraArgs are flags in addition to those that kubeadm sets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=value
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x.name == y.name))",message="name each flag once"
	ExtraArgs []Arg `json:"extraArgs,omitempty"`

	// extraVolumes are files of the machine for the container.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	ExtraVolumes []HostPathMount `json:"extraVolumes,omitempty"`

	// extraEnvs are environment variables of the container. Needs kubeadm 1.31.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	ExtraEnvs *[]EnvVar `json:"extraEnvs,omitempty"`

	// certSANs are further names and addresses in the serving certificate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	CertSANs []string `json:"certSANs,omitempty"`
}

// ControllerManager adjusts kube-controller-manager.
// +kubebuilder:validation:MinProperties=1
type ControllerManager struct {
	// extraArgs are flags in addition to those that kubeadm sets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=value
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x.name == y.name))",message="name each flag once"
	ExtraArgs []Arg `json:"extraArgs,omitempty"`

	// extraVolumes are files of the machine for the container.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	ExtraVolumes []HostPathMount `json:"extraVolumes,omitempty"`

	// extraEnvs are environment variables of the container. Needs kubeadm 1.31.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	ExtraEnvs *[]EnvVar `json:"extraEnvs,omitempty"`
}

// Scheduler adjusts kube-scheduler.
// +kubebuilder:validation:MinProperties=1
type Scheduler struct {
	// extraArgs are flags in addition to those that kubeadm sets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=value
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x.name == y.name))",message="name each flag once"
	ExtraArgs []Arg `json:"extraArgs,omitempty"`

	// extraVolumes are files of the machine for the container.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	ExtraVolumes []HostPathMount `json:"extraVolumes,omitempty"`

	// extraEnvs are environment variables of the container. Needs kubeadm 1.31.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	ExtraEnvs *[]EnvVar `json:"extraEnvs,omitempty"`
}

// DNS adjusts CoreDNS.
// +kubebuilder:validation:MinProperties=1
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
// +kubebuilder:validation:MinProperties=1
type Etcd struct {
	// local adjusts the etcd members that kubeadm runs on control plane
	// machines.
	// +optional
	Local LocalEtcd `json:"local,omitempty,omitzero"`

	// external is an etcd cluster that kubeadm does not manage.
	// +optional
	External ExternalEtcd `json:"external,omitempty,omitzero"`
}

// LocalEtcd adjusts the etcd members that kubeadm runs.
// +kubebuilder:validation:MinProperties=1
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
	// +listType=map
	// +listMapKey=name
	// +listMapKey=value
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(x, self.exists_one(y, x.name == y.name))",message="name each flag once"
	ExtraArgs []Arg `json:"extraArgs,omitempty"`

	// extraEnvs are environment variables of the container. Needs kubeadm 1.31.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	ExtraEnvs *[]EnvVar `json:"extraEnvs,omitempty"`

	// serverCertSANs are further names and addresses in etcd's serving
	// certificate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	ServerCertSANs []string `json:"serverCertSANs,omitempty"`

	// peerCertSANs are further names and addresses in etcd's peer certificate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	PeerCertSANs []string `json:"peerCertSANs,omitempty"`
}

// ExternalEtcd is an etcd cluster that kubeadm does not manage.
type ExternalEtcd struct {
	// endpoints are the members' client addresses.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Endpoints []string `json:"endpoints,omitempty"`

	// caFile is the path of the authority that issues etcd's certificates.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CAFile string `json:"caFile,omitempty"`

	// certFile is the path of kube-apiserver's client certificate for etcd.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	CertFile string `json:"certFile,omitempty"`

	// keyFile is the path of the key of that certificate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	KeyFile string `json:"keyFile,omitempty"`
}

// Arg is one command-line flag, without the leading dashes.
type Arg struct {
	// name of the flag.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// value of the flag; may be empty.
	// +required
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=1024
	Value *string `json:"value,omitempty"`
}

// EnvVar is one environment variable of a container.
type EnvVar struct {
	corev1.EnvVar `json:",inline"`
}

// HostPathMount puts a file or directory of the machine into a container.
type HostPathMount struct {
	// name of the volume in the Pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name,omitempty"`

	// hostPath is the path on the machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	HostPath string `json:"hostPath,omitempty"`

	// mountPath is the path in the container.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	MountPath string `json:"mountPath,omitempty"`

	// readOnly forbids writing through the mount.
	// +optional
	ReadOnly *bool `json:"readOnly,omitempty"`

	// pathType defines what must be at hostPath.
	// +optional
	PathType corev1.HostPathType `json:"pathType,omitempty"`
}
