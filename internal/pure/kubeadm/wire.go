// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// The types below are kubeadm's, both versions in one: v1beta3 has flags as a map
// instead of a list, its timeouts in other places, and lacks the fields marked v1beta4.
// The conversions ensure that each document has only fields of its version. Fields that
// the API of this module does not have are not listed, and equal types are those of the
// API.

type clusterWire struct {
	metav1.TypeMeta             `json:",inline"`
	ClusterName                 string           `json:"clusterName,omitempty"`
	KubernetesVersion           string           `json:"kubernetesVersion,omitempty"`
	ControlPlaneEndpoint        string           `json:"controlPlaneEndpoint,omitempty"`
	Networking                  networkingWire   `json:"networking,omitzero"`
	APIServer                   componentWire    `json:"apiServer,omitzero"`
	ControllerManager           componentWire    `json:"controllerManager,omitzero"`
	Scheduler                   componentWire    `json:"scheduler,omitzero"`
	Etcd                        etcdWire         `json:"etcd,omitzero"`
	DNS                         bootstrapv1.DNS  `json:"dns,omitzero"`
	CertificatesDir             string           `json:"certificatesDir,omitempty"`
	ImageRepository             string           `json:"imageRepository,omitempty"`
	FeatureGates                map[string]bool  `json:"featureGates,omitempty"`
	EncryptionAlgorithm         string           `json:"encryptionAlgorithm,omitempty"`         // v1beta4
	CertificateValidityPeriod   *metav1.Duration `json:"certificateValidityPeriod,omitempty"`   // v1beta4
	CACertificateValidityPeriod *metav1.Duration `json:"caCertificateValidityPeriod,omitempty"` // v1beta4
}

type networkingWire struct {
	ServiceSubnet string `json:"serviceSubnet,omitempty"`
	PodSubnet     string `json:"podSubnet,omitempty"`
	DNSDomain     string `json:"dnsDomain,omitempty"`
}

// componentWire is any of the components; only apiServer has the last two.
type componentWire struct {
	ExtraArgs              *args                       `json:"extraArgs,omitempty"`
	ExtraVolumes           []bootstrapv1.HostPathMount `json:"extraVolumes,omitempty"`
	ExtraEnvs              *[]bootstrapv1.EnvVar       `json:"extraEnvs,omitempty"` // v1beta4
	CertSANs               []string                    `json:"certSANs,omitempty"`
	TimeoutForControlPlane *metav1.Duration            `json:"timeoutForControlPlane,omitempty"` // v1beta3
}

type etcdWire struct {
	Local    *localEtcdWire            `json:"local,omitempty"`
	External *bootstrapv1.ExternalEtcd `json:"external,omitempty"`
}

type localEtcdWire struct {
	ImageRepository string                `json:"imageRepository,omitempty"`
	ImageTag        string                `json:"imageTag,omitempty"`
	DataDir         string                `json:"dataDir,omitempty"`
	ExtraArgs       *args                 `json:"extraArgs,omitempty"`
	ExtraEnvs       *[]bootstrapv1.EnvVar `json:"extraEnvs,omitempty"` // v1beta4
	ServerCertSANs  []string              `json:"serverCertSANs,omitempty"`
	PeerCertSANs    []string              `json:"peerCertSANs,omitempty"`
}

type initWire struct {
	metav1.TypeMeta  `json:",inline"`
	BootstrapTokens  []tokenWire             `json:"bootstrapTokens,omitempty"`
	NodeRegistration nodeWire                `json:"nodeRegistration,omitzero"`
	LocalAPIEndpoint bootstrapv1.APIEndpoint `json:"localAPIEndpoint,omitzero"`
	CertificateKey   string                  `json:"certificateKey,omitempty"`
	SkipPhases       []string                `json:"skipPhases,omitempty"`
	Patches          bootstrapv1.Patches     `json:"patches,omitzero"`
	Timeouts         *timeouts               `json:"timeouts,omitempty"` // v1beta4
}

type joinWire struct {
	metav1.TypeMeta  `json:",inline"`
	NodeRegistration nodeWire              `json:"nodeRegistration,omitzero"`
	CACertPath       string                `json:"caCertPath,omitempty"`
	Discovery        discoveryWire         `json:"discovery"`
	ControlPlane     *joinControlPlaneWire `json:"controlPlane,omitempty"`
	SkipPhases       []string              `json:"skipPhases,omitempty"`
	Patches          bootstrapv1.Patches   `json:"patches,omitzero"`
	Timeouts         *timeouts             `json:"timeouts,omitempty"` // v1beta4
}

type joinControlPlaneWire struct {
	LocalAPIEndpoint bootstrapv1.APIEndpoint `json:"localAPIEndpoint,omitzero"`
	CertificateKey   string                  `json:"certificateKey,omitempty"`
}

type discoveryWire struct {
	BootstrapToken    *tokenDiscoveryWire `json:"bootstrapToken,omitempty"`
	File              *fileDiscoveryWire  `json:"file,omitempty"`
	TLSBootstrapToken string              `json:"tlsBootstrapToken,omitempty"`
	Timeout           *metav1.Duration    `json:"timeout,omitempty"` // v1beta3
}

type tokenDiscoveryWire struct {
	Token                    string   `json:"token"`
	APIServerEndpoint        string   `json:"apiServerEndpoint,omitempty"`
	CACertHashes             []string `json:"caCertHashes,omitempty"`
	UnsafeSkipCAVerification bool     `json:"unsafeSkipCAVerification,omitempty"`
}

type fileDiscoveryWire struct {
	KubeConfigPath string `json:"kubeConfigPath"`
}

type nodeWire struct {
	Name                  string            `json:"name,omitempty"`
	CRISocket             string            `json:"criSocket,omitempty"`
	Taints                *[]corev1.Taint   `json:"taints,omitempty"` // absent: kubeadm's default; []: none
	KubeletExtraArgs      *args             `json:"kubeletExtraArgs,omitempty"`
	IgnorePreflightErrors []string          `json:"ignorePreflightErrors,omitempty"`
	ImagePullPolicy       corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	ImagePullSerial       *bool             `json:"imagePullSerial,omitempty"` // v1beta4
}

type tokenWire struct {
	Token       string           `json:"token"`
	Description string           `json:"description,omitempty"`
	TTL         *metav1.Duration `json:"ttl,omitempty"`
	Expires     *metav1.Time     `json:"expires,omitempty"`
	Usages      []string         `json:"usages,omitempty"`
	Groups      []string         `json:"groups,omitempty"`
}

type timeouts struct {
	ControlPlaneComponentHealthCheck *metav1.Duration `json:"controlPlaneComponentHealthCheck,omitempty"`
	KubeletHealthCheck               *metav1.Duration `json:"kubeletHealthCheck,omitempty"`
	KubernetesAPICall                *metav1.Duration `json:"kubernetesAPICall,omitempty"`
	EtcdAPICall                      *metav1.Duration `json:"etcdAPICall,omitempty"`
	TLSBootstrap                     *metav1.Duration `json:"tlsBootstrap,omitempty"`
	Discovery                        *metav1.Duration `json:"discovery,omitempty"`
}

// args are flags: a list of name and value in v1beta4, a map in v1beta3.
type args struct {
	list  []bootstrapv1.Arg
	asMap bool
}

// MarshalJSON encodes the form of the version.
func (a args) MarshalJSON() ([]byte, error) {
	if a.asMap {
		m := map[string]string{}
		for _, arg := range a.list {
			m[arg.Name] = value(arg)
		}
		return json.Marshal(m)
	}
	type pair struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	list := make([]pair, 0, len(a.list))
	for _, arg := range a.list {
		list = append(list, pair{arg.Name, value(arg)})
	}
	return json.Marshal(list)
}

// UnmarshalJSON decodes either form.
func (a *args) UnmarshalJSON(b []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		return json.Unmarshal(b, &a.list)
	}
	m := map[string]string{}
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	a.asMap = true
	for _, name := range slices.Sorted(maps.Keys(m)) {
		a.list = append(a.list, bootstrapv1.Arg{Name: name, Value: new(m[name])})
	}
	return nil
}

func value(a bootstrapv1.Arg) string {
	if a.Value == nil {
		return ""
	}
	return *a.Value
}

func argsToWire(api string, list []bootstrapv1.Arg) *args {
	if len(list) == 0 {
		return nil
	}
	return &args{list: list, asMap: api == V1Beta3}
}

func (a *args) toHub() []bootstrapv1.Arg {
	if a == nil {
		return nil
	}
	return a.list
}

func seconds(n *int32) *metav1.Duration {
	if n == nil {
		return nil
	}
	return &metav1.Duration{Duration: time.Duration(*n) * time.Second}
}

func days(n int32) *metav1.Duration {
	if n == 0 {
		return nil
	}
	return &metav1.Duration{Duration: time.Duration(n) * 24 * time.Hour}
}

func toSeconds(d *metav1.Duration) *int32 {
	if d == nil {
		return nil
	}
	return new(int32(min(max(d.Duration/time.Second, math.MinInt32), math.MaxInt32)))
}

func toDays(d *metav1.Duration) int32 {
	if d == nil {
		return 0
	}
	return int32(d.Hours() / 24)
}

// withoutContent retains from a decoder's error the field of a wrong type, and drops
// everything that may quote a token.
func withoutContent(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s is not a %s", wrong.Field, wrong.Type.Kind())
	}
	return errors.New("it is not valid YAML of this kind")
}
