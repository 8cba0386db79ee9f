// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"path"
	"strings"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// UpdateKubeadmConfig brings the ClusterConfiguration that kubeadm keeps in the
// cluster, and reads on each machine that joins, to what the spec wants. What
// is fixed for the life of a cluster, such as networks, stays, and so does
// DNS, which is updated on its own.
func UpdateKubeadmConfig(kcp *controlplanev1.KubeadmControlPlane, current string) (string, error) {
	docs, err := kubeadm.Parse([]byte(current))
	if err != nil {
		return "", err
	}
	if docs.Cluster == nil {
		return "", errors.New("it holds no ClusterConfiguration")
	}
	wanted := ConfigSpec(kcp, false)
	from, to := wanted.ClusterConfiguration, docs.Cluster
	to.ImageRepository = from.ImageRepository
	to.FeatureGates = from.FeatureGates
	to.APIServer, to.ControllerManager, to.Scheduler = from.APIServer, from.ControllerManager, from.Scheduler
	to.Etcd = from.Etcd
	to.CertificateValidityPeriodDays = from.CertificateValidityPeriodDays
	to.CACertificateValidityPeriodDays = from.CACertificateValidityPeriodDays
	to.EncryptionAlgorithm = from.EncryptionAlgorithm
	data := docs.Data
	data.KubernetesVersion = kcp.Spec.Version
	if s := wanted.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds; s != nil {
		data.ControlPlaneTimeoutSeconds = s
	}
	api, err := kubeadm.APIVersion(kcp.Spec.Version)
	if err != nil {
		return "", err
	}
	out, err := kubeadm.RenderCluster(api, *to, data)
	if err != nil {
		return "", err
	}
	return string(out), nil
}

// Image is an image of kubeadm's with the tag of a version of Kubernetes and,
// unless it is empty, another repository. The registry that Kubernetes has left
// is replaced by the one it moved to.
func Image(current, repository, version string) string {
	name := current
	if i := strings.LastIndexByte(name, '@'); i >= 0 {
		name = name[:i]
	}
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, '/') {
		name = name[:i]
	}
	switch dir, base := path.Split(name); {
	case repository != "":
		name = strings.TrimSuffix(repository, "/") + "/" + base
	case strings.TrimSuffix(dir, "/") == "k8s.gcr.io":
		name = "registry.k8s.io/" + base
	}
	return name + ":" + strings.ReplaceAll(version, "+", "_") // a tag has no plus
}
