// SPDX-License-Identifier: Apache-2.0

// Package kubeadm converts bootstrap.cluster.x-k8s.io and
// controlplane.cluster.x-k8s.io between v1beta1 and v1beta2.
package kubeadm

import (
	bootstrapv1beta1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta1"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1beta1 "github.com/capstan-dev/capstan/api/controlplane/v1beta1"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1beta1 "github.com/capstan-dev/capstan/api/core/v1beta1"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// Kinds are the conversions of both groups.
func Kinds() []rules.Kind {
	return []rules.Kind{
		rules.Define(rules.Definition[bootstrapv1beta1.KubeadmConfig, bootstrapv1.KubeadmConfig]{
			Kind: "KubeadmConfig", Old: bootstrapv1beta1.GroupVersion(), Hub: bootstrapv1.GroupVersion(), Up: configUp, Down: configDown,
			Keep: func(c *bootstrapv1.KubeadmConfig) any { return rules.Data(c.TypeMeta, c.Spec, c.Status) },
		}),
		rules.Define(rules.Definition[bootstrapv1beta1.KubeadmConfigTemplate, bootstrapv1.KubeadmConfigTemplate]{
			Kind: "KubeadmConfigTemplate", Old: bootstrapv1beta1.GroupVersion(), Hub: bootstrapv1.GroupVersion(), Up: templateUp, Down: templateDown,
			Keep: func(t *bootstrapv1.KubeadmConfigTemplate) any { return rules.Data(t.TypeMeta, t.Spec, struct{}{}) },
		}),
		rules.Define(rules.Definition[controlplanev1beta1.KubeadmControlPlane, controlplanev1.KubeadmControlPlane]{
			Kind: "KubeadmControlPlane", Old: controlplanev1beta1.GroupVersion(), Hub: controlplanev1.GroupVersion(), Up: controlPlaneUp, Down: controlPlaneDown,
			Keep: func(c *controlplanev1.KubeadmControlPlane) any { return rules.Data(c.TypeMeta, c.Spec, c.Status) },
		}),
		rules.Define(rules.Definition[controlplanev1beta1.KubeadmControlPlaneTemplate, controlplanev1.KubeadmControlPlaneTemplate]{
			Kind: "KubeadmControlPlaneTemplate", Old: controlplanev1beta1.GroupVersion(), Hub: controlplanev1.GroupVersion(), Up: controlPlaneTemplateUp, Down: controlPlaneTemplateDown,
			Keep: func(t *controlplanev1.KubeadmControlPlaneTemplate) any {
				return rules.Data(t.TypeMeta, t.Spec, struct{}{})
			},
		}),
	}
}

func configUp(old *bootstrapv1beta1.KubeadmConfig, hub, kept *bootstrapv1.KubeadmConfig) error {
	k := rules.Value(kept)
	if err := specUp(&old.Spec, &hub.Spec, &k.Spec); err != nil {
		return err
	}
	hub.Status = bootstrapv1.KubeadmConfigStatus{
		Conditions:         rules.Value(old.Status.V1Beta2).Conditions,
		DataSecretName:     rules.Value(old.Status.DataSecretName),
		ObservedGeneration: old.Status.ObservedGeneration,
		Deprecated: &bootstrapv1.KubeadmConfigDeprecatedStatus{V1Beta1: &bootstrapv1.KubeadmConfigV1Beta1DeprecatedStatus{
			Conditions: old.Status.Conditions, FailureReason: old.Status.FailureReason, FailureMessage: old.Status.FailureMessage,
		}},
	}
	hub.Status.Initialization.DataSecretCreated = rules.Meant(old.Status.Ready, k.Status.Initialization.DataSecretCreated)
	return nil
}

func configDown(hub *bootstrapv1.KubeadmConfig, old *bootstrapv1beta1.KubeadmConfig, _ rules.Lookup) error {
	specDown(&hub.Spec, &old.Spec)
	deprecated := rules.Value(rules.Value(hub.Status.Deprecated).V1Beta1)
	old.Status = bootstrapv1beta1.KubeadmConfigStatus{
		Conditions:         deprecated.Conditions,
		FailureReason:      deprecated.FailureReason,
		FailureMessage:     deprecated.FailureMessage,
		V1Beta2:            rules.Pointer(bootstrapv1beta1.KubeadmConfigV1Beta2Status{Conditions: hub.Status.Conditions}),
		Ready:              rules.Value(hub.Status.Initialization.DataSecretCreated),
		DataSecretName:     rules.Pointer(hub.Status.DataSecretName),
		ObservedGeneration: hub.Status.ObservedGeneration,
	}
	return nil
}

func templateUp(old *bootstrapv1beta1.KubeadmConfigTemplate, hub, kept *bootstrapv1.KubeadmConfigTemplate) error {
	hub.Spec.Template.ObjectMeta = clusterv1.ObjectMeta(old.Spec.Template.ObjectMeta)
	k := rules.Value(kept)
	return specUp(&old.Spec.Template.Spec, &hub.Spec.Template.Spec, &k.Spec.Template.Spec)
}

func templateDown(hub *bootstrapv1.KubeadmConfigTemplate, old *bootstrapv1beta1.KubeadmConfigTemplate, _ rules.Lookup) error {
	old.Spec.Template.ObjectMeta = clusterv1beta1.ObjectMeta(hub.Spec.Template.ObjectMeta)
	specDown(&hub.Spec.Template.Spec, &old.Spec.Template.Spec)
	return nil
}

// specUp converts a KubeadmConfigSpec; kept is the previous hub, zero if not known.
func specUp(old *bootstrapv1beta1.KubeadmConfigSpec, hub, kept *bootstrapv1.KubeadmConfigSpec) error {
	*hub = bootstrapv1.KubeadmConfigSpec{
		Files:     filesUp(old.Files, kept.Files),
		DiskSetup: diskSetupUp(old.DiskSetup),
		Mounts: rules.List(old.Mounts, func(old *bootstrapv1beta1.MountPoints, hub *bootstrapv1.MountPoints) {
			*hub = bootstrapv1.MountPoints(*old)
		}),
		BootCommands:        old.BootCommands,
		PreKubeadmCommands:  old.PreKubeadmCommands,
		PostKubeadmCommands: old.PostKubeadmCommands,
		Users:               usersUp(old.Users),
		Format:              old.Format,
		Verbosity:           old.Verbosity,
	}
	if n := old.NTP; n != nil {
		hub.NTP = bootstrapv1.NTP(*n)
	}
	if i := rules.Value(old.Ignition).ContainerLinuxConfig; i != nil {
		hub.Ignition.ContainerLinuxConfig = bootstrapv1.ContainerLinuxConfig{
			AdditionalConfig: i.AdditionalConfig, Strict: rules.Meant(i.Strict, kept.Ignition.ContainerLinuxConfig.Strict),
		}
	}
	if c := old.ClusterConfiguration; c != nil {
		hub.ClusterConfiguration = clusterUp(c, &kept.ClusterConfiguration)
	}
	if i := old.InitConfiguration; i != nil {
		var err error
		if hub.InitConfiguration, err = initUp(i); err != nil {
			return err
		}
	}
	if j := old.JoinConfiguration; j != nil {
		hub.JoinConfiguration = joinUp(j, &kept.JoinConfiguration)
	}
	timeoutsUp(old, hub, kept)
	return nil
}

// timeoutsUp restores from kept the timeouts that v1beta1 does not have. Those that it
// has take precedence: of the control plane, which init and join share, and of
// discovery, which is the kubelet's bootstrap in v1beta2.
func timeoutsUp(old *bootstrapv1beta1.KubeadmConfigSpec, hub, kept *bootstrapv1.KubeadmConfigSpec) {
	hub.InitConfiguration.Timeouts, hub.JoinConfiguration.Timeouts = kept.InitConfiguration.Timeouts, kept.JoinConfiguration.Timeouts
	if t := rules.Value(old.ClusterConfiguration).APIServer.TimeoutForControlPlane; t != nil {
		hub.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = rules.Seconds(t)
		hub.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = rules.Seconds(t)
	}
	if t := rules.Value(old.JoinConfiguration).Discovery.Timeout; t != nil {
		hub.JoinConfiguration.Timeouts.TLSBootstrapSeconds = rules.Seconds(t)
	}
}

func specDown(hub *bootstrapv1.KubeadmConfigSpec, old *bootstrapv1beta1.KubeadmConfigSpec) {
	*old = bootstrapv1beta1.KubeadmConfigSpec{
		Files:     filesDown(hub.Files),
		DiskSetup: diskSetupDown(hub.DiskSetup),
		Mounts: rules.List(hub.Mounts, func(hub *bootstrapv1.MountPoints, old *bootstrapv1beta1.MountPoints) {
			*old = bootstrapv1beta1.MountPoints(*hub)
		}),
		BootCommands:        hub.BootCommands,
		PreKubeadmCommands:  hub.PreKubeadmCommands,
		PostKubeadmCommands: hub.PostKubeadmCommands,
		Users:               usersDown(hub.Users),
		NTP:                 rules.Pointer(bootstrapv1beta1.NTP(hub.NTP)),
		Format:              hub.Format,
		Verbosity:           hub.Verbosity,
	}
	if i := hub.Ignition.ContainerLinuxConfig; !rules.IsZero(i) {
		old.Ignition = &bootstrapv1beta1.IgnitionSpec{ContainerLinuxConfig: &bootstrapv1beta1.ContainerLinuxConfig{AdditionalConfig: i.AdditionalConfig, Strict: rules.Value(i.Strict)}}
	}
	controlPlane := rules.Duration(hub.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds)
	if !rules.IsZero(hub.ClusterConfiguration) || controlPlane != nil {
		old.ClusterConfiguration = clusterDown(&hub.ClusterConfiguration)
		old.ClusterConfiguration.APIServer.TimeoutForControlPlane = controlPlane
	}
	old.InitConfiguration = rules.Pointer(initDown(&hub.InitConfiguration))
	old.JoinConfiguration = rules.Pointer(joinDown(&hub.JoinConfiguration))
}
