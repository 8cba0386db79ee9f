// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
)

// registries are those of Kubernetes itself, in which CoreDNS moved to its own folder
// with 1.8.0.
var registries = []string{"registry.k8s.io", "k8s.gcr.io"}

// DNS is a change of CoreDNS.
type DNS struct {
	Image    string // to run
	From, To string // versions of CoreDNS, without a v
	Spec     bootstrapv1.DNS
}

// PlanDNS returns the image of CoreDNS with which the spec replaces the current one; nil
// if the spec has none or the same. A lower version is refused: a Corefile can only be
// migrated to a newer CoreDNS.
func PlanDNS(kcp *controlplanev1.KubeadmControlPlane, current string) (*DNS, error) {
	if _, skip := kcp.Annotations[controlplanev1.SkipCoreDNSAnnotation]; skip {
		return nil, nil
	}
	config := kcp.Spec.KubeadmConfigSpec.ClusterConfiguration
	wanted := config.DNS
	repository, tag := splitImage(current)
	from, err := DNSVersion(tag)
	if err != nil {
		if wanted == (bootstrapv1.DNS{}) && config.ImageRepository == "" {
			return nil, nil // no change is requested
		}
		return nil, fmt.Errorf("version of CoreDNS in image %s: %w", current, err)
	}
	repository = cmp.Or(wanted.ImageRepository, config.ImageRepository, repository)
	tag = cmp.Or(wanted.ImageTag, tag)
	to, err := DNSVersion(tag)
	if err != nil {
		return nil, fmt.Errorf("spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag: %w", err)
	}
	plan := &DNS{Image: dnsImage(repository, to) + ":" + tag, From: from.String(), To: to.String(), Spec: wanted}
	if plan.Image == current {
		return nil, nil
	}
	if to.LessThan(from) {
		return nil, fmt.Errorf("CoreDNS cannot go back from %s to %s: correct spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag", from, to)
	}
	return plan, nil
}

func dnsImage(repository string, v *version.Version) string {
	if slices.Contains(registries, repository) && v.AtLeast(version.MajorMinor(1, 8)) {
		return repository + "/coredns/coredns"
	}
	return strings.TrimSuffix(repository, "/") + "/coredns"
}

// splitImage returns the repository without the name of the image, and the tag.
func splitImage(image string) (repository, tag string) {
	if i := strings.LastIndexByte(image, '@'); i >= 0 {
		image = image[:i]
	}
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image, tag = image[:i], image[i+1:]
	}
	repository = strings.TrimSuffix(image, "/coredns")
	if base, ok := strings.CutSuffix(repository, "/coredns"); ok && slices.Contains(registries, base) {
		repository = base
	}
	return repository, tag
}

// DNSVersion parses a tag of CoreDNS such as v1.12.0, v1.12 or 1.12.0_vendor.3.
func DNSVersion(tag string) (*version.Version, error) {
	number, _, _ := strings.Cut(strings.TrimPrefix(tag, "v"), "_")
	if !strings.ContainsAny(number, "-+") {
		number += strings.Repeat(".0", max(0, 2-strings.Count(number, ".")))
	}
	v, err := version.ParseSemantic(number)
	if err != nil {
		return nil, fmt.Errorf("tag %q is no version", tag)
	}
	return v.WithPreRelease("").WithBuildMetadata(""), nil
}

// UpdateKubeadmDNS sets the DNS of the ClusterConfiguration that kubeadm stores in the
// cluster to that of the spec.
func UpdateKubeadmDNS(current string, dns bootstrapv1.DNS) (string, error) {
	docs, err := ParseCluster(current)
	if err != nil {
		return "", err
	}
	if docs.Cluster.DNS == dns {
		return current, nil
	}
	c := *docs.Cluster
	c.DNS = dns
	return docs.UpdateCluster(docs.APIVersion, c, docs.Data)
}
