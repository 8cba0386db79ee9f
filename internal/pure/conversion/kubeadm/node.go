// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"fmt"

	bootstrapv1beta1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta1"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

func initUp(old *bootstrapv1beta1.InitConfiguration) (hub bootstrapv1.InitConfiguration, err error) {
	hub = bootstrapv1.InitConfiguration{
		NodeRegistration: registrationUp(old.NodeRegistration),
		LocalAPIEndpoint: bootstrapv1.APIEndpoint(old.LocalAPIEndpoint),
		SkipPhases:       old.SkipPhases,
		Patches:          bootstrapv1.Patches(rules.Value(old.Patches)),
	}
	hub.BootstrapTokens, err = rules.TryList(old.BootstrapTokens, func(old *bootstrapv1beta1.BootstrapToken, hub *bootstrapv1.BootstrapToken) (err error) {
		*hub = bootstrapv1.BootstrapToken{
			Description: old.Description, TTLSeconds: rules.Seconds(old.TTL), Expires: rules.Time(old.Expires), Usages: old.Usages, Groups: old.Groups,
		}
		switch {
		case old.Token == nil:
		case *old.Token == "":
			hub.Token = &bootstrapv1.BootstrapTokenString{}
		default:
			if hub.Token, err = bootstrapv1.NewBootstrapTokenString(*old.Token); err != nil {
				err = fmt.Errorf("initConfiguration.bootstrapTokens: %w", err)
			}
		}
		return err
	})
	return hub, err
}

func initDown(hub *bootstrapv1.InitConfiguration) bootstrapv1beta1.InitConfiguration {
	return bootstrapv1beta1.InitConfiguration{
		BootstrapTokens: rules.List(hub.BootstrapTokens, func(hub *bootstrapv1.BootstrapToken, old *bootstrapv1beta1.BootstrapToken) {
			*old = bootstrapv1beta1.BootstrapToken{
				Description: hub.Description, TTL: rules.Duration(hub.TTLSeconds), Expires: rules.TimePointer(hub.Expires), Usages: hub.Usages, Groups: hub.Groups,
			}
			if hub.Token != nil {
				old.Token = new(hub.Token.String())
			}
		}),
		NodeRegistration: registrationDown(hub.NodeRegistration),
		LocalAPIEndpoint: bootstrapv1beta1.APIEndpoint(hub.LocalAPIEndpoint),
		SkipPhases:       hub.SkipPhases,
		Patches:          rules.Pointer(bootstrapv1beta1.Patches(hub.Patches)),
	}
}

func registrationUp(old bootstrapv1beta1.NodeRegistrationOptions) bootstrapv1.NodeRegistrationOptions {
	return bootstrapv1.NodeRegistrationOptions{
		Name: old.Name, CRISocket: old.CRISocket, Taints: old.Taints, KubeletExtraArgs: argsUp(old.KubeletExtraArgs),
		IgnorePreflightErrors: old.IgnorePreflightErrors, ImagePullPolicy: old.ImagePullPolicy, ImagePullSerial: old.ImagePullSerial,
	}
}

func registrationDown(hub bootstrapv1.NodeRegistrationOptions) bootstrapv1beta1.NodeRegistrationOptions {
	return bootstrapv1beta1.NodeRegistrationOptions{
		Name: hub.Name, CRISocket: hub.CRISocket, Taints: hub.Taints, KubeletExtraArgs: argsDown(hub.KubeletExtraArgs),
		IgnorePreflightErrors: hub.IgnorePreflightErrors, ImagePullPolicy: hub.ImagePullPolicy, ImagePullSerial: hub.ImagePullSerial,
	}
}

func joinUp(old *bootstrapv1beta1.JoinConfiguration, kept *bootstrapv1.JoinConfiguration) bootstrapv1.JoinConfiguration {
	hub := bootstrapv1.JoinConfiguration{
		NodeRegistration: registrationUp(old.NodeRegistration),
		CACertPath:       old.CACertPath,
		Discovery:        discoveryUp(&old.Discovery, &kept.Discovery),
		SkipPhases:       old.SkipPhases,
		Patches:          bootstrapv1.Patches(rules.Value(old.Patches)),
	}
	if c := old.ControlPlane; c != nil {
		hub.ControlPlane = &bootstrapv1.JoinControlPlane{LocalAPIEndpoint: bootstrapv1.APIEndpoint(c.LocalAPIEndpoint)}
	}
	return hub
}

func joinDown(hub *bootstrapv1.JoinConfiguration) bootstrapv1beta1.JoinConfiguration {
	old := bootstrapv1beta1.JoinConfiguration{
		NodeRegistration: registrationDown(hub.NodeRegistration),
		CACertPath:       hub.CACertPath,
		Discovery:        discoveryDown(&hub.Discovery),
		SkipPhases:       hub.SkipPhases,
		Patches:          rules.Pointer(bootstrapv1beta1.Patches(hub.Patches)),
	}
	old.Discovery.Timeout = rules.Duration(hub.Timeouts.TLSBootstrapSeconds)
	if c := hub.ControlPlane; c != nil {
		old.ControlPlane = &bootstrapv1beta1.JoinControlPlane{LocalAPIEndpoint: bootstrapv1beta1.APIEndpoint(c.LocalAPIEndpoint)}
	}
	return old
}

func discoveryUp(old *bootstrapv1beta1.Discovery, kept *bootstrapv1.Discovery) bootstrapv1.Discovery {
	hub := bootstrapv1.Discovery{TLSBootstrapToken: old.TLSBootstrapToken}
	if t := old.BootstrapToken; t != nil {
		hub.BootstrapToken = bootstrapv1.BootstrapTokenDiscovery{
			Token: t.Token, APIServerEndpoint: t.APIServerEndpoint, CACertHashes: t.CACertHashes,
			UnsafeSkipCAVerification: rules.Meant(t.UnsafeSkipCAVerification, kept.BootstrapToken.UnsafeSkipCAVerification),
		}
	}
	if f := old.File; f != nil {
		hub.File.KubeConfigPath = f.KubeConfigPath
		if f.KubeConfig != nil {
			hub.File.KubeConfig = kubeConfigUp(f.KubeConfig, &kept.File.KubeConfig)
		}
	}
	return hub
}

func discoveryDown(hub *bootstrapv1.Discovery) bootstrapv1beta1.Discovery {
	old := bootstrapv1beta1.Discovery{TLSBootstrapToken: hub.TLSBootstrapToken}
	if t := hub.BootstrapToken; !rules.IsZero(t) {
		old.BootstrapToken = &bootstrapv1beta1.BootstrapTokenDiscovery{
			Token: t.Token, APIServerEndpoint: t.APIServerEndpoint, CACertHashes: t.CACertHashes, UnsafeSkipCAVerification: rules.Value(t.UnsafeSkipCAVerification),
		}
	}
	if f := hub.File; !rules.IsZero(f) {
		old.File = &bootstrapv1beta1.FileDiscovery{KubeConfigPath: f.KubeConfigPath, KubeConfig: kubeConfigDown(&f.KubeConfig)}
	}
	return old
}

func kubeConfigUp(old *bootstrapv1beta1.FileDiscoveryKubeConfig, kept *bootstrapv1.FileDiscoveryKubeConfig) (hub bootstrapv1.FileDiscoveryKubeConfig) {
	if c := old.Cluster; c != nil {
		hub.Cluster = bootstrapv1.KubeConfigCluster{
			Server: c.Server, TLSServerName: c.TLSServerName, CertificateAuthorityData: c.CertificateAuthorityData, ProxyURL: c.ProxyURL,
			InsecureSkipTLSVerify: rules.Meant(c.InsecureSkipTLSVerify, kept.Cluster.InsecureSkipTLSVerify),
		}
	}
	if a := old.User.AuthProvider; a != nil {
		hub.User.AuthProvider = bootstrapv1.KubeConfigAuthProvider(*a)
	}
	if e := old.User.Exec; e != nil {
		hub.User.Exec = bootstrapv1.KubeConfigAuthExec{
			Command: e.Command, Args: e.Args, APIVersion: e.APIVersion,
			Env: rules.List(e.Env, func(old *bootstrapv1beta1.KubeConfigAuthExecEnv, hub *bootstrapv1.KubeConfigAuthExecEnv) {
				*hub = bootstrapv1.KubeConfigAuthExecEnv(*old)
			}),
			ProvideClusterInfo: rules.Meant(e.ProvideClusterInfo, kept.User.Exec.ProvideClusterInfo),
		}
	}
	return hub
}

func kubeConfigDown(hub *bootstrapv1.FileDiscoveryKubeConfig) *bootstrapv1beta1.FileDiscoveryKubeConfig {
	if rules.IsZero(*hub) {
		return nil
	}
	old := &bootstrapv1beta1.FileDiscoveryKubeConfig{}
	if c := hub.Cluster; !rules.IsZero(c) {
		old.Cluster = &bootstrapv1beta1.KubeConfigCluster{
			Server: c.Server, TLSServerName: c.TLSServerName, CertificateAuthorityData: c.CertificateAuthorityData, ProxyURL: c.ProxyURL,
			InsecureSkipTLSVerify: rules.Value(c.InsecureSkipTLSVerify),
		}
	}
	old.User.AuthProvider = rules.Pointer(bootstrapv1beta1.KubeConfigAuthProvider(hub.User.AuthProvider))
	if e := hub.User.Exec; !rules.IsZero(e) {
		old.User.Exec = &bootstrapv1beta1.KubeConfigAuthExec{
			Command: e.Command, Args: e.Args, APIVersion: e.APIVersion,
			Env: rules.List(e.Env, func(hub *bootstrapv1.KubeConfigAuthExecEnv, old *bootstrapv1beta1.KubeConfigAuthExecEnv) {
				*old = bootstrapv1beta1.KubeConfigAuthExecEnv(*hub)
			}),
			ProvideClusterInfo: rules.Value(e.ProvideClusterInfo),
		}
	}
	return old
}
