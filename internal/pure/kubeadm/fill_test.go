// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
)

func TestDataOfReadsTheCluster(t *testing.T) {
	t.Parallel()
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "demo"}}
	if diff := cmp.Diff(Data{ClusterName: "demo", KubernetesVersion: "v1.36.3"}, DataOf(cluster, "v1.36.3")); diff != "" {
		t.Errorf("a bare Cluster (-want +got):\n%s", diff)
	}
	cluster.Spec = clusterv1.ClusterSpec{
		ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "fd00::1", Port: 6443},
		ClusterNetwork: clusterv1.ClusterNetwork{
			ServiceDomain: "cluster.local",
			Services:      clusterv1.NetworkRanges{CIDRBlocks: []string{"10.96.0.0/16", "fd00:1::/108"}},
			Pods:          clusterv1.NetworkRanges{CIDRBlocks: []string{"10.244.0.0/16"}},
		},
	}
	want := Data{
		ClusterName: "demo", KubernetesVersion: "v1.36.3", ControlPlaneEndpoint: "[fd00::1]:6443", DNSDomain: "cluster.local",
		ServiceSubnet: "10.96.0.0/16,fd00:1::/108", PodSubnet: "10.244.0.0/16",
	}
	if diff := cmp.Diff(want, DataOf(cluster, "v1.36.3")); diff != "" {
		t.Errorf("a full Cluster (-want +got):\n%s", diff)
	}
}

func TestForWorkerAddsTheTaintOnce(t *testing.T) {
	t.Parallel()
	other := corev1.Taint{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct{ taints, want []corev1.Taint }{
		"kubeadm's default":  {nil, []corev1.Taint{nodesync.Uninitialized}},
		"explicitly none":    {[]corev1.Taint{}, []corev1.Taint{nodesync.Uninitialized}},
		"with others":        {[]corev1.Taint{other}, []corev1.Taint{other, nodesync.Uninitialized}},
		"with the taint too": {[]corev1.Taint{nodesync.Uninitialized, other}, []corev1.Taint{nodesync.Uninitialized, other}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var join bootstrapv1.JoinConfiguration
			if tc.taints != nil {
				join.NodeRegistration.Taints = &tc.taints
			}
			before := join.DeepCopy()
			got, err := ForWorker(join)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *got.NodeRegistration.Taints); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(*before, join); diff != "" {
				t.Errorf("the config itself was changed (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := ForWorker(ForControlPlane(bootstrapv1.JoinConfiguration{})); err == nil || !strings.Contains(err.Error(), "spec.joinConfiguration.controlPlane") {
		t.Errorf("ForWorker of a control plane config = %v, want an error that names the field", err)
	}
}

func TestDiscoveryKubeConfigFillsWhatIsMissing(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config   bootstrapv1.FileDiscoveryKubeConfig
		contains []string
		lacks    []string
	}{
		"all is filled in": {
			config:   bootstrapv1.FileDiscoveryKubeConfig{User: bootstrapv1.KubeConfigUser{Exec: bootstrapv1.KubeConfigAuthExec{Command: "/bin/login", Args: []string{"-x"}, Env: []bootstrapv1.KubeConfigAuthExecEnv{{Name: "A", Value: "b"}}, ProvideClusterInfo: new(true)}}},
			contains: []string{"server: https://api.example:6443", "certificate-authority-data: Y2E=", "command: /bin/login", "client.authentication.k8s.io/v1", "interactiveMode: Never", "- -x", "name: A", "provideClusterInfo: true"},
		},
		"all is given": {
			config: bootstrapv1.FileDiscoveryKubeConfig{
				Cluster: bootstrapv1.KubeConfigCluster{Server: "https://other:443", CertificateAuthorityData: []byte("other"), TLSServerName: "name", ProxyURL: "http://proxy"},
				User:    bootstrapv1.KubeConfigUser{AuthProvider: bootstrapv1.KubeConfigAuthProvider{Name: "oidc", Config: map[string]string{"k": "v"}}},
			},
			contains: []string{"server: https://other:443", "certificate-authority-data: b3RoZXI=", "tls-server-name: name", "proxy-url: http://proxy", "name: oidc", "k: v"},
			lacks:    []string{"exec", "api.example"},
		},
		"nothing is checked": {
			config:   bootstrapv1.FileDiscoveryKubeConfig{Cluster: bootstrapv1.KubeConfigCluster{InsecureSkipTLSVerify: new(true)}},
			contains: []string{"insecure-skip-tls-verify: true"},
			lacks:    []string{"certificate-authority-data"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := DiscoveryKubeConfig(bootstrapv1.FileDiscovery{KubeConfigPath: "/etc/discovery.conf", KubeConfig: tc.config}, "api.example:6443", []byte("ca"))
			if err != nil {
				t.Fatal(err)
			}
			if f.Path != "/etc/discovery.conf" || f.Permissions != "0640" {
				t.Errorf("file %s with mode %s, want /etc/discovery.conf with 0640", f.Path, f.Permissions)
			}
			for _, part := range tc.contains {
				if !strings.Contains(f.Content, part) {
					t.Errorf("no %q in:\n%s", part, f.Content)
				}
			}
			for _, part := range tc.lacks {
				if strings.Contains(f.Content, part) {
					t.Errorf("%q in:\n%s", part, f.Content)
				}
			}
		})
	}
}

// TestTemplateBombsEnd: files of Secrets are not checked by admission.
func TestTemplateBombsEnd(t *testing.T) {
	t.Parallel()
	for name, bomb := range builder.TemplateBombs() {
		files := []bootstrapv1.File{{Path: "/f", ContentFormat: bootstrapv1.FileContentFormatTemplate, Content: bomb}}
		if _, err := Expand(files, "v1.34.1"); err == nil || !strings.HasPrefix(err.Error(), "file /f: its ") {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

func TestExpandGivesTheVersionOfTheControlPlane(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ content, version, want, wantErr string }{
		"the version":               {content: "v={{ .controlPlane.version }}", version: "1.36.3", want: "v=v1.36.3"},
		"no version":                {content: "{{ with .controlPlane.version }}{{ . }}{{ else }}none{{ end }}", want: "none"},
		"no template":               {content: "{{ secret-word", wantErr: "/f: its content is not a valid Go template"},
		"a wrong use of the datum":  {content: "{{ .controlPlane.version.secretword }}", version: "v1.36.3", wantErr: "/f: its template cannot be executed"},
		"a template without an end": {content: "{{ range $i := 100000000 }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{ end }}", wantErr: "/f: its template makes more than 1024 KiB"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := []bootstrapv1.File{{Path: "/raw", Content: "{{"}, {Path: "/f", ContentFormat: bootstrapv1.FileContentFormatTemplate, Content: tc.content}}
			got, err := Expand(files, tc.version)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || strings.Contains(err.Error(), "secret") {
					t.Errorf("Expand = %v, want an error with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got[0].Content != "{{" || got[1].Content != tc.want {
				t.Errorf("Expand = %q and %q, want {{ and %q", got[0].Content, got[1].Content, tc.want)
			}
		})
	}
	if HasTemplates([]bootstrapv1.File{{}}) || !HasTemplates([]bootstrapv1.File{{}, {ContentFormat: bootstrapv1.FileContentFormatTemplate}}) {
		t.Error("HasTemplates is wrong")
	}
}
