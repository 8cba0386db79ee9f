// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"strings"
	"testing"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
)

func TestPlanDNS(t *testing.T) {
	t.Parallel()
	const current = "registry.k8s.io/coredns/coredns:v1.12.0"
	tests := map[string]struct {
		current    string
		dns        bootstrapv1.DNS
		repository string // of all images
		skip       bool
		want       string // image, from, to
		wantErr    string
	}{
		"nothing wanted":             {current: current},
		"what there is":              {current: current, dns: bootstrapv1.DNS{ImageTag: "v1.12.0"}},
		"a newer tag":                {current: current, dns: bootstrapv1.DNS{ImageTag: "v1.13.1"}, want: "registry.k8s.io/coredns/coredns:v1.13.1 1.12.0 1.13.1"},
		"left alone":                 {current: current, dns: bootstrapv1.DNS{ImageTag: "v1.13.1"}, skip: true},
		"into the folder":            {current: "k8s.gcr.io/coredns:1.7.0", dns: bootstrapv1.DNS{ImageTag: "v1.8.6"}, want: "k8s.gcr.io/coredns/coredns:v1.8.6 1.7.0 1.8.6"},
		"another repository":         {current: current, dns: bootstrapv1.DNS{ImageRepository: "host:5000/x"}, want: "host:5000/x/coredns:v1.12.0 1.12.0 1.12.0"},
		"the one of all images":      {current: current, repository: "all", want: "all/coredns:v1.12.0 1.12.0 1.12.0"},
		"its own before all":         {current: current, repository: "all", dns: bootstrapv1.DNS{ImageRepository: "own"}, want: "own/coredns:v1.12.0 1.12.0 1.12.0"},
		"a vendor's tag":             {current: "x/coredns:v1.12.0_v.1", dns: bootstrapv1.DNS{ImageTag: "v1.12.0_v.2"}, want: "x/coredns:v1.12.0_v.2 1.12.0 1.12.0"},
		"back":                       {current: current, dns: bootstrapv1.DNS{ImageTag: "v1.11.0"}, wantErr: "CoreDNS cannot go back from 1.12.0 to 1.11.0"},
		"no version wanted":          {current: current, dns: bootstrapv1.DNS{ImageTag: "latest"}, wantErr: `dns.imageTag: tag "latest" is no version`},
		"a part of a version wanted": {current: current, dns: bootstrapv1.DNS{ImageTag: "1-7"}, wantErr: `dns.imageTag: tag "1-7" is no version`},
		"a short version":            {current: current, dns: bootstrapv1.DNS{ImageTag: "v1.13"}, want: "registry.k8s.io/coredns/coredns:v1.13 1.12.0 1.13.0"},
		"no version there":           {current: "x/coredns:latest", dns: bootstrapv1.DNS{ImageTag: "v1.12.0"}, wantErr: `tag "latest" is no version`},
		"no version, none wanted":    {current: "x/coredns:latest"},
		"a digest does not matter":   {current: current + "@sha256:abc", dns: bootstrapv1.DNS{ImageTag: "v1.12.1"}, want: "registry.k8s.io/coredns/coredns:v1.12.1 1.12.0 1.12.1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kcp := &controlplanev1.KubeadmControlPlane{}
			kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS = tc.dns
			kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.ImageRepository = tc.repository
			if tc.skip {
				kcp.Annotations = map[string]string{controlplanev1.SkipCoreDNSAnnotation: ""}
			}
			got := ""
			plan, err := PlanDNS(kcp, tc.current)
			if plan != nil {
				got = plan.Image + " " + plan.From + " " + plan.To
			}
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func TestUpdateKubeadmDNSKeepsTheRest(t *testing.T) {
	t.Parallel()
	const current = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.0\ndns: {imageTag: v1}\n"
	got, err := UpdateKubeadmDNS(current, bootstrapv1.DNS{ImageTag: "v2"})
	if err != nil || !strings.Contains(got, "imageTag: v2") || !strings.Contains(got, "kubernetesVersion: v1.35.0") {
		t.Errorf("%v\n%s", err, got)
	}
	if same, err := UpdateKubeadmDNS(current, bootstrapv1.DNS{ImageTag: "v1"}); err != nil || same != current {
		t.Errorf("changed for nothing: %v\n%s", err, same)
	}
}
