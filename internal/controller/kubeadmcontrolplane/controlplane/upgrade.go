// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

// UpdateKubeadmConfig updates the ClusterConfiguration that kubeadm stores in the
// cluster, and reads on each machine that joins, to the spec. Fields that are fixed for
// the lifetime of a cluster, such as networks, stay, and so does DNS, which is updated
// separately. If the spec has no ClusterConfiguration, only the version changes and the
// rest stays as its author wrote it.
func UpdateKubeadmConfig(kcp *controlplanev1.KubeadmControlPlane, current string) (string, error) {
	docs, err := kubeadm.ParseCluster(current)
	if err != nil {
		return "", err
	}
	wanted := ConfigSpec(kcp, false)
	from, to := wanted.ClusterConfiguration, docs.Cluster.DeepCopy()
	if empty(kcp.Spec.KubeadmConfigSpec.ClusterConfiguration) {
		if kubeadm.WithKubeletLocalMode(nil, kcp.Spec.Version) == nil {
			delete(to.FeatureGates, kubeadm.KubeletLocalMode) // set by this controller, and unknown to this kubeadm
		}
		to.FeatureGates = kubeadm.WithKubeletLocalMode(to.FeatureGates, kcp.Spec.Version)
	} else {
		to.ImageRepository = from.ImageRepository
		to.FeatureGates = from.FeatureGates
		to.APIServer, to.ControllerManager, to.Scheduler = from.APIServer, from.ControllerManager, from.Scheduler
		to.Etcd = from.Etcd
		to.CertificateValidityPeriodDays = from.CertificateValidityPeriodDays
		to.CACertificateValidityPeriodDays = from.CACertificateValidityPeriodDays
		to.EncryptionAlgorithm = from.EncryptionAlgorithm
	}
	data := docs.Data
	data.KubernetesVersion = kcp.Spec.Version
	if s := wanted.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds; s != nil {
		data.ControlPlaneTimeoutSeconds = s
	}
	api, err := kubeadm.APIVersion(kcp.Spec.Version)
	if err != nil {
		return "", err
	}
	if api == docs.APIVersion && equality.Semantic.DeepEqual(docs.Cluster, to) && equality.Semantic.DeepEqual(docs.Data, data) {
		return current, nil // unknown content in it stays
	}
	return docs.UpdateCluster(api, *to, data)
}

// Image is an image of kubeadm's with the tag of a version of Kubernetes and, unless it
// is empty, another repository. The former registry of Kubernetes is replaced by the
// current one.
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
