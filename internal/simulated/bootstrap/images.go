// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

const defaultRepository = "registry.k8s.io"

// deployed lists, by the first minor of Kubernetes 1 whose kubeadm has them, the
// versions of what kubeadm deploys in addition to Kubernetes itself.
var deployed = []struct {
	minor         uint
	coreDNS, etcd string
}{
	{36, "v1.14.2", "3.6.8-0"},
	{35, "v1.13.1", "3.6.6-0"},
	{34, "v1.12.1", "3.6.4-0"},
	{33, "v1.12.0", "3.5.21-0"},
	{32, "v1.11.3", "3.5.16-0"},
	{31, "v1.11.3", "3.5.15-0"},
	{30, "v1.11.3", "3.5.15-0"},
	{29, "v1.11.1", "3.5.16-0"},
	{27, "v1.10.1", "3.5.12-0"},
	{25, "v1.9.3", "3.5.9-0"},
	{24, "v1.8.6", "3.5.6-0"},
	{23, "v1.8.6", "3.5.6-0"},
	{0, "v1.8.4", "3.5.3-0"},
}

func releasedWith(kubernetes string) (coreDNS, etcd string) {
	v, err := version.ParseSemantic(kubernetes)
	for _, d := range deployed {
		if err != nil || v.Minor() >= d.minor {
			return d.coreDNS, d.etcd
		}
	}
	return "", ""
}

// image is the image of a component, as kubeadm composes it.
func image(component string, docs *kubeadm.Documents, kubernetes string) string {
	cluster := docs.Cluster
	if cluster == nil {
		cluster = &bootstrapv1.ClusterConfiguration{}
	}
	repository := cmp.Or(cluster.ImageRepository, defaultRepository)
	coreDNS, etcd := releasedWith(kubernetes)
	switch component {
	case "etcd":
		return cmp.Or(cluster.Etcd.Local.ImageRepository, repository) + "/etcd:" + cmp.Or(cluster.Etcd.Local.ImageTag, etcd)
	case "coredns":
		tag := cmp.Or(cluster.DNS.ImageTag, coreDNS)
		if cluster.DNS.ImageRepository != "" {
			return cluster.DNS.ImageRepository + "/coredns:" + tag
		}
		if repository == defaultRepository {
			repository += "/coredns" // where the default repository keeps it
		}
		return repository + "/coredns:" + tag
	}
	return repository + "/" + component + ":" + imageTag(kubernetes)
}

// imageTag is a version as the tag of an image, which cannot contain +.
func imageTag(v string) string { return strings.ReplaceAll(v, "+", "_") }
