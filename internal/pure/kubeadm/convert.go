// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// clusterToWire sets the fields that the version of kubeadm's API has: the timeout was
// the API server's up to v1beta3, and v1beta4 added algorithms and validities of
// certificates.
func clusterToWire(api string, c bootstrapv1.ClusterConfiguration, d Data) clusterWire {
	w := clusterWire{
		TypeMeta:             metav1.TypeMeta{APIVersion: api, Kind: "ClusterConfiguration"},
		ClusterName:          d.ClusterName,
		KubernetesVersion:    d.KubernetesVersion,
		ControlPlaneEndpoint: cmp.Or(c.ControlPlaneEndpoint, d.ControlPlaneEndpoint),
		Networking:           networkingWire{ServiceSubnet: d.ServiceSubnet, PodSubnet: d.PodSubnet, DNSDomain: d.DNSDomain},
		APIServer:            componentToWire(api, c.APIServer.ExtraArgs, c.APIServer.ExtraVolumes, c.APIServer.ExtraEnvs),
		ControllerManager:    componentToWire(api, c.ControllerManager.ExtraArgs, c.ControllerManager.ExtraVolumes, c.ControllerManager.ExtraEnvs),
		Scheduler:            componentToWire(api, c.Scheduler.ExtraArgs, c.Scheduler.ExtraVolumes, c.Scheduler.ExtraEnvs),
		Etcd:                 etcdToWire(api, c.Etcd),
		DNS:                  c.DNS,
		CertificatesDir:      c.CertificatesDir,
		ImageRepository:      c.ImageRepository,
		FeatureGates:         c.FeatureGates,
	}
	w.APIServer.CertSANs = c.APIServer.CertSANs
	if api == V1Beta3 {
		w.APIServer.TimeoutForControlPlane = seconds(d.ControlPlaneTimeoutSeconds)
		return w
	}
	w.EncryptionAlgorithm = string(c.EncryptionAlgorithm)
	w.CertificateValidityPeriod = days(c.CertificateValidityPeriodDays)
	w.CACertificateValidityPeriod = days(c.CACertificateValidityPeriodDays)
	return w
}

func (w *clusterWire) toHub() (*bootstrapv1.ClusterConfiguration, Data) {
	c := &bootstrapv1.ClusterConfiguration{
		ControlPlaneEndpoint: w.ControlPlaneEndpoint,
		APIServer: bootstrapv1.APIServer{
			ExtraArgs: w.APIServer.ExtraArgs.toHub(), ExtraVolumes: w.APIServer.ExtraVolumes,
			ExtraEnvs: w.APIServer.ExtraEnvs, CertSANs: w.APIServer.CertSANs,
		},
		ControllerManager: bootstrapv1.ControllerManager{
			ExtraArgs: w.ControllerManager.ExtraArgs.toHub(), ExtraVolumes: w.ControllerManager.ExtraVolumes,
			ExtraEnvs: w.ControllerManager.ExtraEnvs,
		},
		Scheduler: bootstrapv1.Scheduler{
			ExtraArgs: w.Scheduler.ExtraArgs.toHub(), ExtraVolumes: w.Scheduler.ExtraVolumes,
			ExtraEnvs: w.Scheduler.ExtraEnvs,
		},
		Etcd:                            w.Etcd.toHub(),
		DNS:                             w.DNS,
		CertificatesDir:                 w.CertificatesDir,
		ImageRepository:                 w.ImageRepository,
		FeatureGates:                    w.FeatureGates,
		EncryptionAlgorithm:             bootstrapv1.EncryptionAlgorithmType(w.EncryptionAlgorithm),
		CertificateValidityPeriodDays:   toDays(w.CertificateValidityPeriod),
		CACertificateValidityPeriodDays: toDays(w.CACertificateValidityPeriod),
	}
	return c, Data{
		KubernetesVersion:          w.KubernetesVersion,
		ClusterName:                w.ClusterName,
		ControlPlaneEndpoint:       w.ControlPlaneEndpoint,
		DNSDomain:                  w.Networking.DNSDomain,
		ServiceSubnet:              w.Networking.ServiceSubnet,
		PodSubnet:                  w.Networking.PodSubnet,
		ControlPlaneTimeoutSeconds: toSeconds(w.APIServer.TimeoutForControlPlane),
	}
}

func componentToWire(api string, flags []bootstrapv1.Arg, volumes []bootstrapv1.HostPathMount, envs *[]bootstrapv1.EnvVar) componentWire {
	w := componentWire{ExtraArgs: argsToWire(api, flags), ExtraVolumes: volumes}
	if api != V1Beta3 {
		w.ExtraEnvs = envs
	}
	return w
}

func etcdToWire(api string, e bootstrapv1.Etcd) etcdWire {
	var w etcdWire
	if len(e.External.Endpoints) > 0 {
		w.External = &e.External
	}
	local := localEtcdWire{
		ImageRepository: e.Local.ImageRepository, ImageTag: e.Local.ImageTag, DataDir: e.Local.DataDir,
		ExtraArgs: argsToWire(api, e.Local.ExtraArgs), ServerCertSANs: e.Local.ServerCertSANs, PeerCertSANs: e.Local.PeerCertSANs,
	}
	if api != V1Beta3 {
		local.ExtraEnvs = e.Local.ExtraEnvs
	}
	empty := local.ImageRepository == "" && local.ImageTag == "" && local.DataDir == "" && local.ExtraArgs == nil &&
		len(ptr.Deref(local.ExtraEnvs, nil))+len(local.ServerCertSANs)+len(local.PeerCertSANs) == 0
	if !empty {
		w.Local = &local
	}
	return w
}

func (w etcdWire) toHub() (e bootstrapv1.Etcd) {
	e.External = ptr.Deref(w.External, e.External)
	if l := w.Local; l != nil {
		e.Local = bootstrapv1.LocalEtcd{
			ImageRepository: l.ImageRepository, ImageTag: l.ImageTag, DataDir: l.DataDir, ExtraArgs: l.ExtraArgs.toHub(),
			ExtraEnvs: l.ExtraEnvs, ServerCertSANs: l.ServerCertSANs, PeerCertSANs: l.PeerCertSANs,
		}
	}
	return e
}

func initToWire(api string, c bootstrapv1.InitConfiguration) initWire {
	w := initWire{
		TypeMeta:         metav1.TypeMeta{APIVersion: api, Kind: "InitConfiguration"},
		NodeRegistration: nodeToWire(api, c.NodeRegistration),
		LocalAPIEndpoint: c.LocalAPIEndpoint,
		SkipPhases:       c.SkipPhases,
		Patches:          c.Patches,
	}
	for _, t := range c.BootstrapTokens {
		tw := tokenWire{Description: t.Description, TTL: seconds(t.TTLSeconds), Usages: t.Usages, Groups: t.Groups}
		if t.Token != nil {
			tw.Token = t.Token.String()
		}
		if !t.Expires.IsZero() {
			tw.Expires = &t.Expires
		}
		w.BootstrapTokens = append(w.BootstrapTokens, tw)
	}
	if api != V1Beta3 {
		w.Timeouts = timeoutsToWire(c.Timeouts)
	}
	return w
}

func (w *initWire) toHub() (*bootstrapv1.InitConfiguration, error) {
	c := &bootstrapv1.InitConfiguration{
		NodeRegistration: w.NodeRegistration.toHub(),
		LocalAPIEndpoint: w.LocalAPIEndpoint,
		SkipPhases:       w.SkipPhases,
		Patches:          w.Patches,
		Timeouts:         w.Timeouts.toHub(),
	}
	for i, t := range w.BootstrapTokens {
		token, err := bootstrapv1.NewBootstrapTokenString(t.Token)
		if err != nil {
			return nil, fmt.Errorf("read InitConfiguration: bootstrapTokens[%d]: %w", i, err)
		}
		hub := bootstrapv1.BootstrapToken{Token: token, Description: t.Description, TTLSeconds: toSeconds(t.TTL), Usages: t.Usages, Groups: t.Groups}
		if t.Expires != nil {
			hub.Expires = *t.Expires
		}
		c.BootstrapTokens = append(c.BootstrapTokens, hub)
	}
	return c, nil
}

func joinToWire(api string, c bootstrapv1.JoinConfiguration) joinWire {
	w := joinWire{
		TypeMeta:         metav1.TypeMeta{APIVersion: api, Kind: "JoinConfiguration"},
		NodeRegistration: nodeToWire(api, c.NodeRegistration),
		CACertPath:       c.CACertPath,
		Discovery:        discoveryWire{TLSBootstrapToken: c.Discovery.TLSBootstrapToken},
		SkipPhases:       c.SkipPhases,
		Patches:          c.Patches,
	}
	if c.ControlPlane != nil {
		w.ControlPlane = &joinControlPlaneWire{LocalAPIEndpoint: c.ControlPlane.LocalAPIEndpoint}
	}
	if f := c.Discovery.File; f.KubeConfigPath != "" {
		w.Discovery.File = &fileDiscoveryWire{KubeConfigPath: f.KubeConfigPath}
	}
	if t := c.Discovery.BootstrapToken; t.Token != "" || t.APIServerEndpoint != "" {
		w.Discovery.BootstrapToken = &tokenDiscoveryWire{
			Token: t.Token, APIServerEndpoint: t.APIServerEndpoint, CACertHashes: t.CACertHashes,
			UnsafeSkipCAVerification: t.UnsafeSkipCAVerification != nil && *t.UnsafeSkipCAVerification,
		}
	}
	if api == V1Beta3 {
		w.Discovery.Timeout = seconds(cmp.Or(c.Timeouts.DiscoverySeconds, c.Timeouts.TLSBootstrapSeconds))
	} else {
		w.Timeouts = timeoutsToWire(c.Timeouts)
	}
	return w
}

func (w *joinWire) toHub() *bootstrapv1.JoinConfiguration {
	c := &bootstrapv1.JoinConfiguration{
		NodeRegistration: w.NodeRegistration.toHub(),
		CACertPath:       w.CACertPath,
		Discovery:        bootstrapv1.Discovery{TLSBootstrapToken: w.Discovery.TLSBootstrapToken},
		SkipPhases:       w.SkipPhases,
		Patches:          w.Patches,
		Timeouts:         w.Timeouts.toHub(),
	}
	if w.Discovery.Timeout != nil {
		c.Timeouts.DiscoverySeconds = toSeconds(w.Discovery.Timeout)
	}
	if w.ControlPlane != nil {
		c.ControlPlane = &bootstrapv1.JoinControlPlane{LocalAPIEndpoint: w.ControlPlane.LocalAPIEndpoint}
	}
	if f := w.Discovery.File; f != nil {
		c.Discovery.File.KubeConfigPath = f.KubeConfigPath
	}
	if t := w.Discovery.BootstrapToken; t != nil {
		c.Discovery.BootstrapToken = bootstrapv1.BootstrapTokenDiscovery{Token: t.Token, APIServerEndpoint: t.APIServerEndpoint, CACertHashes: t.CACertHashes}
		if t.UnsafeSkipCAVerification {
			c.Discovery.BootstrapToken.UnsafeSkipCAVerification = new(true)
		}
	}
	return c
}

func nodeToWire(api string, n bootstrapv1.NodeRegistrationOptions) nodeWire {
	w := nodeWire{
		Name: n.Name, CRISocket: n.CRISocket, Taints: n.Taints, KubeletExtraArgs: argsToWire(api, n.KubeletExtraArgs),
		IgnorePreflightErrors: n.IgnorePreflightErrors, ImagePullPolicy: n.ImagePullPolicy,
	}
	if api != V1Beta3 {
		w.ImagePullSerial = n.ImagePullSerial
	}
	return w
}

func (w nodeWire) toHub() bootstrapv1.NodeRegistrationOptions {
	return bootstrapv1.NodeRegistrationOptions{
		Name: w.Name, CRISocket: w.CRISocket, Taints: w.Taints, KubeletExtraArgs: w.KubeletExtraArgs.toHub(),
		IgnorePreflightErrors: w.IgnorePreflightErrors, ImagePullPolicy: w.ImagePullPolicy, ImagePullSerial: w.ImagePullSerial,
	}
}

func timeoutsToWire(t bootstrapv1.Timeouts) *timeouts {
	if t == (bootstrapv1.Timeouts{}) {
		return nil
	}
	return &timeouts{
		ControlPlaneComponentHealthCheck: seconds(t.ControlPlaneComponentHealthCheckSeconds),
		KubeletHealthCheck:               seconds(t.KubeletHealthCheckSeconds),
		KubernetesAPICall:                seconds(t.KubernetesAPICallSeconds),
		EtcdAPICall:                      seconds(t.EtcdAPICallSeconds),
		TLSBootstrap:                     seconds(t.TLSBootstrapSeconds),
		Discovery:                        seconds(t.DiscoverySeconds),
	}
}

func (w *timeouts) toHub() bootstrapv1.Timeouts {
	if w == nil {
		return bootstrapv1.Timeouts{}
	}
	return bootstrapv1.Timeouts{
		ControlPlaneComponentHealthCheckSeconds: toSeconds(w.ControlPlaneComponentHealthCheck),
		KubeletHealthCheckSeconds:               toSeconds(w.KubeletHealthCheck),
		KubernetesAPICallSeconds:                toSeconds(w.KubernetesAPICall),
		EtcdAPICallSeconds:                      toSeconds(w.EtcdAPICall),
		TLSBootstrapSeconds:                     toSeconds(w.TLSBootstrap),
		DiscoverySeconds:                        toSeconds(w.Discovery),
	}
}
