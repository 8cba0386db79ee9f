// SPDX-License-Identifier: Apache-2.0

package v1beta2

// Discovery defines how a node finds the cluster.
// +kubebuilder:validation:MinProperties=1
type Discovery struct {
	// bootstrapToken finds the cluster by a token.
	// +optional
	BootstrapToken BootstrapTokenDiscovery `json:"bootstrapToken,omitempty,omitzero"`

	// file finds the cluster by a kubeconfig on the machine, instead of
	// bootstrapToken.
	// +optional
	File FileDiscovery `json:"file,omitempty,omitzero"`

	// tlsBootstrapToken is the token for the kubelet's certificate; that of
	// bootstrapToken when it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	TLSBootstrapToken string `json:"tlsBootstrapToken,omitempty"`
}

// BootstrapTokenDiscovery finds the cluster by a token.
// +kubebuilder:validation:MinProperties=1
type BootstrapTokenDiscovery struct {
	// token authenticates the cluster information that the API server returns.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Token string `json:"token,omitempty"`

	// apiServerEndpoint is "host:port" of an API server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	APIServerEndpoint string `json:"apiServerEndpoint,omitempty"`

	// caCertHashes are the public keys that the cluster's authority may have,
	// each as "sha256:<hex>".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	CACertHashes []string `json:"caCertHashes,omitempty"`

	// unsafeSkipCAVerification trusts any authority that has the token.
	// +optional
	UnsafeSkipCAVerification *bool `json:"unsafeSkipCAVerification,omitempty"`
}

// FileDiscovery finds the cluster by a kubeconfig on the machine.
type FileDiscovery struct {
	// kubeConfigPath is the file's path, or a URL.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	KubeConfigPath string `json:"kubeConfigPath,omitempty"`

	// kubeConfig is written to kubeConfigPath when it is set.
	// +optional
	KubeConfig FileDiscoveryKubeConfig `json:"kubeConfig,omitempty,omitzero"`
}

// FileDiscoveryKubeConfig is a kubeconfig with one cluster and one user.
type FileDiscoveryKubeConfig struct {
	// cluster is how the cluster is reached. Server and authority are filled in
	// from the Cluster where they are missing.
	// +optional
	Cluster KubeConfigCluster `json:"cluster,omitempty,omitzero"`

	// user is how the node authenticates.
	// +required
	User KubeConfigUser `json:"user,omitempty,omitzero"`
}

// KubeConfigCluster is how a cluster is reached.
// +kubebuilder:validation:MinProperties=1
type KubeConfigCluster struct {
	// server is the address, "https://host:port".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Server string `json:"server,omitempty"`

	// tlsServerName is the name expected in the server's certificate.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	TLSServerName string `json:"tlsServerName,omitempty"`

	// insecureSkipTLSVerify accepts any certificate.
	// +optional
	InsecureSkipTLSVerify *bool `json:"insecureSkipTLSVerify,omitempty"`

	// certificateAuthorityData is the authority in PEM.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=51200
	CertificateAuthorityData []byte `json:"certificateAuthorityData,omitempty"`

	// proxyURL is the proxy through which the server is reached.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProxyURL string `json:"proxyURL,omitempty"`
}

// KubeConfigUser is how a client authenticates: exactly one of its fields.
// +kubebuilder:validation:MinProperties=1
type KubeConfigUser struct {
	// authProvider is a plugin built into the client.
	// +optional
	AuthProvider KubeConfigAuthProvider `json:"authProvider,omitempty,omitzero"`

	// exec is a program that gives credentials.
	// +optional
	Exec KubeConfigAuthExec `json:"exec,omitempty,omitzero"`
}

// KubeConfigAuthProvider is a plugin built into the client.
type KubeConfigAuthProvider struct {
	// name of the plugin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`

	// config of the plugin.
	// +optional
	Config map[string]string `json:"config,omitempty"`
}

// KubeConfigAuthExec is a program that gives credentials.
type KubeConfigAuthExec struct {
	// command to run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Command string `json:"command,omitempty"`

	// args of the command.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	Args []string `json:"args,omitempty"`

	// env is added to the environment of the command.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Env []KubeConfigAuthExecEnv `json:"env,omitempty"`

	// apiVersion of the command's answer; client.authentication.k8s.io/v1 when
	// it is empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	APIVersion string `json:"apiVersion,omitempty"`

	// provideClusterInfo passes information about the cluster to the command, in
	// its environment.
	// +optional
	ProvideClusterInfo *bool `json:"provideClusterInfo,omitempty"`
}

// KubeConfigAuthExecEnv is one environment variable.
type KubeConfigAuthExecEnv struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Name string `json:"name,omitempty"`

	// value of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Value string `json:"value,omitempty"`
}
