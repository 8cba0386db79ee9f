// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/json"
	"reflect"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// ConfigSpec is the bootstrap config of a control plane machine: the one on which
// kubeadm init runs, or one that joins.
func ConfigSpec(kcp *controlplanev1.KubeadmControlPlane, init bool) bootstrapv1.KubeadmConfigSpec {
	spec := *kcp.Spec.KubeadmConfigSpec.DeepCopy()
	if init {
		spec.JoinConfiguration = bootstrapv1.JoinConfiguration{}
	} else {
		// The ClusterConfiguration stays: a joining machine does not need it,
		// but a later change of it shows which machines are older.
		spec.InitConfiguration = bootstrapv1.InitConfiguration{}
	}
	spec.ClusterConfiguration.FeatureGates = kubeadm.WithKubeletLocalMode(spec.ClusterConfiguration.FeatureGates, kcp.Spec.Version)
	return spec
}

// SameConfig reports whether a machine's config equals the desired config of the control
// plane. Fields that bootstrapping fills in automatically do not count.
func SameConfig(kcp *controlplanev1.KubeadmControlPlane, current bootstrapv1.KubeadmConfigSpec) bool {
	isInit := ranInit(current)
	users := kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.FeatureGates
	plain := func(spec bootstrapv1.KubeadmConfigSpec) bootstrapv1.KubeadmConfigSpec {
		spec.ClusterConfiguration.FeatureGates = kubeadm.WithoutKubeletLocalMode(spec.ClusterConfiguration.FeatureGates, users)
		return spec
	}
	current = plain(current)
	wanted := plain(ConfigSpec(kcp, false))
	if isInit {
		wanted.JoinConfiguration.CACertPath = "" // init has no such field
	}
	if equal(asJoin(current), asJoin(wanted)) {
		return true
	}
	// A config for kubeadm init may also match as such, where init and join are
	// set up differently.
	return isInit && equal(normal(current), normal(plain(ConfigSpec(kcp, true))))
}

// ranInit reports whether a config is for kubeadm init. A config that joins has at least
// the discovery, once its data is created. A timeout does not distinguish them: v1beta1
// has one for both.
func ranInit(spec bootstrapv1.KubeadmConfigSpec) bool {
	withoutStart(&spec)
	return !empty(spec.InitConfiguration) || empty(spec.JoinConfiguration)
}

// asJoin converts a config to the form of one that joins.
func asJoin(spec bootstrapv1.KubeadmConfigSpec) bootstrapv1.KubeadmConfigSpec {
	spec = normal(spec)
	if init := spec.InitConfiguration; !empty(init) {
		join := &spec.JoinConfiguration
		join.Timeouts, join.Patches = init.Timeouts, init.Patches
		join.SkipPhases, join.NodeRegistration = init.SkipPhases, init.NodeRegistration
		if !empty(init.LocalAPIEndpoint) {
			join.ControlPlane = &bootstrapv1.JoinControlPlane{LocalAPIEndpoint: init.LocalAPIEndpoint}
		}
		spec.InitConfiguration = bootstrapv1.InitConfiguration{}
	}
	if cp := spec.JoinConfiguration.ControlPlane; cp != nil && empty(cp.LocalAPIEndpoint) {
		spec.JoinConfiguration.ControlPlane = nil // always set when the config is rendered
	}
	return spec
}

// normal removes fields that other controllers may have filled in, and defaults.
func normal(spec bootstrapv1.KubeadmConfigSpec) bootstrapv1.KubeadmConfigSpec {
	spec = *spec.DeepCopy()
	spec.ClusterConfiguration.ControlPlaneEndpoint = ""
	spec.ClusterConfiguration.DNS = bootstrapv1.DNS{}
	spec.JoinConfiguration.Discovery = bootstrapv1.Discovery{}
	withoutStart(&spec) // this timeout only matters for the next join
	kubeadm.Normalize(&spec)
	return spec
}

func withoutStart(spec *bootstrapv1.KubeadmConfigSpec) {
	spec.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = nil
	spec.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = nil
}

// equal compares the JSON forms: an empty list equals an absent one, except where the
// API distinguishes the two.
func equal(a, b bootstrapv1.KubeadmConfigSpec) bool {
	return reflect.DeepEqual(wire(a), wire(b))
}

func wire(spec bootstrapv1.KubeadmConfigSpec) (out any) {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err) // an API type always has a JSON form
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		panic(err)
	}
	return out
}

func empty(v any) bool { return reflect.ValueOf(v).IsZero() }
