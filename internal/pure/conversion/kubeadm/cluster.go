// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"maps"
	"slices"

	bootstrapv1beta1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta1"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
)

// clusterUp drops the values of the Cluster and the Machine: name, version, networks.
func clusterUp(old *bootstrapv1beta1.ClusterConfiguration, kept *bootstrapv1.ClusterConfiguration) bootstrapv1.ClusterConfiguration {
	hub := bootstrapv1.ClusterConfiguration{
		ControlPlaneEndpoint: old.ControlPlaneEndpoint,
		APIServer: bootstrapv1.APIServer{
			ExtraArgs:    argsUp(old.APIServer.ExtraArgs),
			ExtraVolumes: volumesUp(old.APIServer.ExtraVolumes, kept.APIServer.ExtraVolumes),
			ExtraEnvs:    rules.Pointer(old.APIServer.ExtraEnvs),
			CertSANs:     old.APIServer.CertSANs,
		},
		ControllerManager: bootstrapv1.ControllerManager{
			ExtraArgs:    argsUp(old.ControllerManager.ExtraArgs),
			ExtraVolumes: volumesUp(old.ControllerManager.ExtraVolumes, kept.ControllerManager.ExtraVolumes),
			ExtraEnvs:    rules.Pointer(old.ControllerManager.ExtraEnvs),
		},
		Scheduler: bootstrapv1.Scheduler{
			ExtraArgs:    argsUp(old.Scheduler.ExtraArgs),
			ExtraVolumes: volumesUp(old.Scheduler.ExtraVolumes, kept.Scheduler.ExtraVolumes),
			ExtraEnvs:    rules.Pointer(old.Scheduler.ExtraEnvs),
		},
		DNS:                             bootstrapv1.DNS(old.DNS),
		CertificatesDir:                 old.CertificatesDir,
		ImageRepository:                 old.ImageRepository,
		FeatureGates:                    old.FeatureGates,
		CertificateValidityPeriodDays:   old.CertificateValidityPeriodDays,
		CACertificateValidityPeriodDays: old.CACertificateValidityPeriodDays,
		EncryptionAlgorithm:             old.EncryptionAlgorithm,
	}
	if l := old.Etcd.Local; l != nil {
		hub.Etcd.Local = bootstrapv1.LocalEtcd{
			ImageRepository: l.ImageRepository, ImageTag: l.ImageTag, DataDir: l.DataDir,
			ExtraArgs: argsUp(l.ExtraArgs), ExtraEnvs: rules.Pointer(l.ExtraEnvs),
			ServerCertSANs: l.ServerCertSANs, PeerCertSANs: l.PeerCertSANs,
		}
	}
	if e := old.Etcd.External; e != nil {
		hub.Etcd.External = bootstrapv1.ExternalEtcd(*e)
	}
	return hub
}

func clusterDown(hub *bootstrapv1.ClusterConfiguration) *bootstrapv1beta1.ClusterConfiguration {
	old := &bootstrapv1beta1.ClusterConfiguration{
		ControlPlaneEndpoint: hub.ControlPlaneEndpoint,
		APIServer: bootstrapv1beta1.APIServer{
			ExtraArgs:    argsDown(hub.APIServer.ExtraArgs),
			ExtraVolumes: volumesDown(hub.APIServer.ExtraVolumes),
			ExtraEnvs:    rules.Value(hub.APIServer.ExtraEnvs),
			CertSANs:     hub.APIServer.CertSANs,
		},
		ControllerManager: bootstrapv1beta1.ControllerManager{
			ExtraArgs:    argsDown(hub.ControllerManager.ExtraArgs),
			ExtraVolumes: volumesDown(hub.ControllerManager.ExtraVolumes),
			ExtraEnvs:    rules.Value(hub.ControllerManager.ExtraEnvs),
		},
		Scheduler: bootstrapv1beta1.Scheduler{
			ExtraArgs:    argsDown(hub.Scheduler.ExtraArgs),
			ExtraVolumes: volumesDown(hub.Scheduler.ExtraVolumes),
			ExtraEnvs:    rules.Value(hub.Scheduler.ExtraEnvs),
		},
		DNS:                             bootstrapv1beta1.DNS(hub.DNS),
		CertificatesDir:                 hub.CertificatesDir,
		ImageRepository:                 hub.ImageRepository,
		FeatureGates:                    hub.FeatureGates,
		CertificateValidityPeriodDays:   hub.CertificateValidityPeriodDays,
		CACertificateValidityPeriodDays: hub.CACertificateValidityPeriodDays,
		EncryptionAlgorithm:             hub.EncryptionAlgorithm,
	}
	if l := hub.Etcd.Local; !rules.IsZero(l) {
		old.Etcd.Local = &bootstrapv1beta1.LocalEtcd{
			ImageRepository: l.ImageRepository, ImageTag: l.ImageTag, DataDir: l.DataDir,
			ExtraArgs: argsDown(l.ExtraArgs), ExtraEnvs: rules.Value(l.ExtraEnvs),
			ServerCertSANs: l.ServerCertSANs, PeerCertSANs: l.PeerCertSANs,
		}
	}
	old.Etcd.External = rules.Pointer(bootstrapv1beta1.ExternalEtcd(hub.Etcd.External))
	return old
}

// argsUp converts flags to a list, sorted by name.
func argsUp(old map[string]string) []bootstrapv1.Arg {
	if old == nil {
		return nil
	}
	hub := make([]bootstrapv1.Arg, 0, len(old))
	for _, name := range slices.Sorted(maps.Keys(old)) {
		hub = append(hub, bootstrapv1.Arg{Name: name, Value: new(old[name])})
	}
	return hub
}

// argsDown keeps the last of flags of one name.
func argsDown(hub []bootstrapv1.Arg) map[string]string {
	if hub == nil {
		return nil
	}
	old := make(map[string]string, len(hub))
	for _, arg := range hub {
		old[arg.Name] = rules.Value(arg.Value)
	}
	return old
}

func volumesUp(old []bootstrapv1beta1.HostPathMount, kept []bootstrapv1.HostPathMount) []bootstrapv1.HostPathMount {
	var hub []bootstrapv1.HostPathMount
	for i, v := range old {
		was := partner(kept, i, func(k *bootstrapv1.HostPathMount) bool { return k.HostPath == v.HostPath })
		hub = append(hub, bootstrapv1.HostPathMount{
			Name: v.Name, HostPath: v.HostPath, MountPath: v.MountPath, PathType: v.PathType, ReadOnly: rules.Meant(v.ReadOnly, was.ReadOnly),
		})
	}
	return hub
}

func volumesDown(hub []bootstrapv1.HostPathMount) []bootstrapv1beta1.HostPathMount {
	return rules.Rebuilt(hub, func(hub *bootstrapv1.HostPathMount, old *bootstrapv1beta1.HostPathMount) {
		*old = bootstrapv1beta1.HostPathMount{Name: hub.Name, HostPath: hub.HostPath, MountPath: hub.MountPath, PathType: hub.PathType, ReadOnly: rules.Value(hub.ReadOnly)}
	})
}

// partner is what an element of a list was before: the one at its place if that is
// the same thing, else the first that is. Several may have one path.
func partner[T any](kept []T, i int, same func(*T) bool) T {
	if i < len(kept) && same(&kept[i]) {
		return kept[i]
	}
	return rules.Find(kept, same)
}
