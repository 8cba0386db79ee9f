// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"cmp"
	"slices"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

// Normalize converts a config to the one form of all equivalent configs.
//
//   - Defaults that earlier upstream releases wrote, and later ones omit, are removed.
//   - So is a false that means the same as unset, and an empty list of environment
//     variables; and an argument without a value gets an empty one. v1beta1 cannot
//     distinguish these, so each write at that version may change them.
//   - Arguments are sorted by name, because those of v1beta1 have no order. Of several
//     with one name the last counts, so these retain their order.
func Normalize(spec *bootstrapv1.KubeadmConfigSpec) {
	if spec.Format == bootstrapv1.CloudConfig {
		spec.Format = ""
	}
	c := &spec.ClusterConfiguration
	args := []*[]bootstrapv1.Arg{&c.APIServer.ExtraArgs, &c.ControllerManager.ExtraArgs, &c.Scheduler.ExtraArgs, &c.Etcd.Local.ExtraArgs}
	for _, n := range []*bootstrapv1.NodeRegistrationOptions{&spec.InitConfiguration.NodeRegistration, &spec.JoinConfiguration.NodeRegistration} {
		if n.ImagePullPolicy == "IfNotPresent" {
			n.ImagePullPolicy = ""
		}
		args = append(args, &n.KubeletExtraArgs)
	}
	for _, list := range args {
		for i := range *list {
			if a := &(*list)[i]; a.Value == nil {
				a.Value = new("")
			}
		}
		slices.SortStableFunc(*list, func(a, b bootstrapv1.Arg) int { return cmp.Compare(a.Name, b.Name) })
	}
	for _, envs := range []**[]bootstrapv1.EnvVar{&c.APIServer.ExtraEnvs, &c.ControllerManager.ExtraEnvs, &c.Scheduler.ExtraEnvs, &c.Etcd.Local.ExtraEnvs} {
		if *envs != nil && len(**envs) == 0 {
			*envs = nil
		}
	}
	for _, volumes := range [][]bootstrapv1.HostPathMount{c.APIServer.ExtraVolumes, c.ControllerManager.ExtraVolumes, c.Scheduler.ExtraVolumes} {
		for i := range volumes {
			withoutFalse(&volumes[i].ReadOnly)
		}
	}
	for i := range spec.Files {
		withoutFalse(&spec.Files[i].Append)
	}
	for i := range spec.DiskSetup.Partitions {
		withoutFalse(&spec.DiskSetup.Partitions[i].Layout)
	}
	withoutFalse(&spec.Ignition.ContainerLinuxConfig.Strict)
	d := &spec.JoinConfiguration.Discovery
	withoutFalse(&d.BootstrapToken.UnsafeSkipCAVerification)
	withoutFalse(&d.File.KubeConfig.Cluster.InsecureSkipTLSVerify)
	exec := &d.File.KubeConfig.User.Exec
	withoutFalse(&exec.ProvideClusterInfo)
	if exec.APIVersion == "client.authentication.k8s.io/v1" {
		exec.APIVersion = ""
	}
}

func withoutFalse(b **bool) {
	if *b != nil && !**b {
		*b = nil
	}
}
