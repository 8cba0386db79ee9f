// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

func TestAPIVersionFollowsTheVersionOfKubernetes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		version, want string
		wantErr       error
	}{
		"before 1.22 there is none":             {version: "v1.21.14", wantErr: ErrTooOld},
		"the first with v1beta3":                {version: "v1.22.0", want: V1Beta3},
		"the last with v1beta3":                 {version: "v1.30.14", want: V1Beta3},
		"the first with v1beta4":                {version: "v1.31.0", want: V1Beta4},
		"a candidate of the first with v1beta4": {version: "v1.31.0-rc.0", want: V1Beta4},
		"a build of a new one":                  {version: "v1.36.3+vendor.1", want: V1Beta4},
		"without the letter":                    {version: "1.36.3", want: V1Beta4},
		"some day":                              {version: "v2.0.0", want: V1Beta4},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := APIVersion(tc.version)
			if got != tc.want || !errors.Is(err, tc.wantErr) {
				t.Errorf("APIVersion(%q) = %q, %v, want %q, %v", tc.version, got, err, tc.want, tc.wantErr)
			}
		})
	}
	if _, err := APIVersion("rubbish"); err == nil || !strings.Contains(err.Error(), `"rubbish"`) {
		t.Errorf("APIVersion(rubbish) = %v, want an error that names it", err)
	}
}

// fullCluster has every field of v1beta4.
func fullCluster() bootstrapv1.ClusterConfiguration {
	args := []bootstrapv1.Arg{{Name: "v", Value: new("2")}, {Name: "profiling", Value: new("")}}
	volumes := []bootstrapv1.HostPathMount{{
		Name: "audit", HostPath: "/var/log/audit", MountPath: "/audit", ReadOnly: new(false), PathType: corev1.HostPathDirectoryOrCreate,
	}}
	envs := []bootstrapv1.EnvVar{{EnvVar: corev1.EnvVar{Name: "HTTP_PROXY", Value: "http://proxy:3128"}}}
	return bootstrapv1.ClusterConfiguration{
		Etcd: bootstrapv1.Etcd{Local: bootstrapv1.LocalEtcd{
			ImageRepository: "registry.example/etcd", ImageTag: "3.6.5-0", DataDir: "/data/etcd", ExtraArgs: args, ExtraEnvs: &envs,
			ServerCertSANs: []string{"etcd.example"}, PeerCertSANs: []string{"peer.example"},
		}},
		ControlPlaneEndpoint:            "api.example:6443",
		APIServer:                       bootstrapv1.APIServer{ExtraArgs: args, ExtraVolumes: volumes, ExtraEnvs: &envs, CertSANs: []string{"api.example"}},
		ControllerManager:               bootstrapv1.ControllerManager{ExtraArgs: args, ExtraVolumes: volumes, ExtraEnvs: &envs},
		Scheduler:                       bootstrapv1.Scheduler{ExtraArgs: args, ExtraVolumes: volumes, ExtraEnvs: &envs},
		DNS:                             bootstrapv1.DNS{ImageRepository: "registry.example/coredns", ImageTag: "v1.13.1"},
		CertificatesDir:                 "/etc/pki/kubernetes",
		ImageRepository:                 "registry.example",
		FeatureGates:                    map[string]bool{"ControlPlaneKubeletLocalMode": true},
		CertificateValidityPeriodDays:   100,
		CACertificateValidityPeriodDays: 1000,
		EncryptionAlgorithm:             bootstrapv1.EncryptionAlgorithmECDSAP256,
	}
}

func fullData() Data {
	return Data{
		KubernetesVersion: "v1.36.3", ClusterName: "demo", ControlPlaneEndpoint: "api.example:6443", DNSDomain: "cluster.local",
		ServiceSubnet: "10.96.0.0/16,fd00:1::/108", PodSubnet: "10.244.0.0/16",
	}
}

func fullNode() bootstrapv1.NodeRegistrationOptions {
	return bootstrapv1.NodeRegistrationOptions{
		Name: "{{ ds.meta_data.local_hostname }}", CRISocket: "unix:///run/containerd/containerd.sock",
		Taints:                &[]corev1.Taint{{Key: "example.com/dedicated", Value: "yes", Effect: corev1.TaintEffectNoSchedule}},
		KubeletExtraArgs:      []bootstrapv1.Arg{{Name: "node-labels", Value: new("a=b")}, {Name: "v", Value: new("2")}},
		IgnorePreflightErrors: []string{"SystemVerification"}, ImagePullPolicy: corev1.PullNever, ImagePullSerial: new(false),
	}
}

func fullTimeouts() bootstrapv1.Timeouts {
	return bootstrapv1.Timeouts{
		ControlPlaneComponentHealthCheckSeconds: new(int32(1)), KubeletHealthCheckSeconds: new(int32(2)), KubernetesAPICallSeconds: new(int32(3)),
		EtcdAPICallSeconds: new(int32(4)), TLSBootstrapSeconds: new(int32(5)), DiscoverySeconds: new(int32(0)),
	}
}

func fullInit() bootstrapv1.InitConfiguration {
	return bootstrapv1.InitConfiguration{
		BootstrapTokens: []bootstrapv1.BootstrapToken{{
			Token: &bootstrapv1.BootstrapTokenString{ID: "abcdef", Secret: "0123456789abcdef"}, Description: "first", TTLSeconds: new(int32(3600)),
			Usages: []string{"signing", "authentication"}, Groups: []string{NodeGroup},
		}, {
			Token:   &bootstrapv1.BootstrapTokenString{ID: "ghijkl", Secret: "0123456789abcdef"},
			Expires: metav1.NewTime(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC).Local()),
		}},
		NodeRegistration: fullNode(),
		LocalAPIEndpoint: bootstrapv1.APIEndpoint{AdvertiseAddress: "172.30.0.11", BindPort: 6443},
		SkipPhases:       []string{"addon/kube-proxy"},
		Patches:          bootstrapv1.Patches{Directory: "/etc/kubernetes/patches"},
		Timeouts:         fullTimeouts(),
	}
}

func fullJoin() bootstrapv1.JoinConfiguration {
	return bootstrapv1.JoinConfiguration{
		NodeRegistration: fullNode(),
		CACertPath:       "/etc/pki/kubernetes/ca.crt",
		Discovery: bootstrapv1.Discovery{
			BootstrapToken: bootstrapv1.BootstrapTokenDiscovery{
				Token: "abcdef.0123456789abcdef", APIServerEndpoint: "api.example:6443",
				CACertHashes: []string{"sha256:" + strings.Repeat("ab", 32)}, UnsafeSkipCAVerification: new(true),
			},
			TLSBootstrapToken: "ghijkl.0123456789abcdef",
		},
		ControlPlane: &bootstrapv1.JoinControlPlane{LocalAPIEndpoint: bootstrapv1.APIEndpoint{AdvertiseAddress: "172.30.0.12", BindPort: 6443}},
		SkipPhases:   []string{"preflight"},
		Patches:      bootstrapv1.Patches{Directory: "/etc/kubernetes/patches"},
		Timeouts:     fullTimeouts(),
	}
}

// values compares what documents mean, not their text.
var values = cmpopts.IgnoreUnexported(Documents{})

func TestEveryFieldSurvivesV1Beta4(t *testing.T) {
	t.Parallel()
	raw, err := RenderInit(fullCluster(), fullInit(), fullData())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := &Documents{APIVersion: V1Beta4, Cluster: new(fullCluster()), Init: new(fullInit()), Data: fullData()}
	if diff := cmp.Diff(want, got, values); diff != "" {
		t.Errorf("init (-want +got):\n%s", diff)
	}

	if raw, err = RenderJoin(fullJoin(), "v1.36.3"); err != nil {
		t.Fatal(err)
	}
	if got, err = Parse(raw); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Documents{APIVersion: V1Beta4, Join: new(fullJoin())}, got, values); diff != "" {
		t.Errorf("join (-want +got):\n%s", diff)
	}
}

// TestV1Beta3HasOnlyWhatItKnows parses a file rendered for 1.30: fields that v1beta3
// does not have are absent, and those that it stores elsewhere are found there.
func TestV1Beta3HasOnlyWhatItKnows(t *testing.T) {
	t.Parallel()
	data := fullData()
	data.KubernetesVersion = "v1.30.4"
	raw, err := RenderInit(fullCluster(), fullInit(), data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	cluster, start := fullCluster(), fullInit()
	cluster.EncryptionAlgorithm, cluster.CertificateValidityPeriodDays, cluster.CACertificateValidityPeriodDays = "", 0, 0
	cluster.APIServer.ExtraEnvs, cluster.ControllerManager.ExtraEnvs, cluster.Scheduler.ExtraEnvs, cluster.Etcd.Local.ExtraEnvs = nil, nil, nil, nil
	byName := []bootstrapv1.Arg{{Name: "profiling", Value: new("")}, {Name: "v", Value: new("2")}} // a map has no order
	cluster.APIServer.ExtraArgs, cluster.ControllerManager.ExtraArgs, cluster.Scheduler.ExtraArgs, cluster.Etcd.Local.ExtraArgs = byName, byName, byName, byName
	start.Timeouts, start.NodeRegistration.ImagePullSerial = bootstrapv1.Timeouts{}, nil
	data.ControlPlaneTimeoutSeconds = new(int32(1))
	if diff := cmp.Diff(&Documents{APIVersion: V1Beta3, Cluster: &cluster, Init: &start, Data: data}, got, values); diff != "" {
		t.Errorf("init (-want +got):\n%s", diff)
	}

	join := fullJoin()
	join.Timeouts.DiscoverySeconds = nil
	if raw, err = RenderJoin(join, "v1.30.4"); err != nil {
		t.Fatal(err)
	}
	if got, err = Parse(raw); err != nil {
		t.Fatal(err)
	}
	join.NodeRegistration.ImagePullSerial = nil
	join.Timeouts = bootstrapv1.Timeouts{DiscoverySeconds: new(int32(5))}
	if diff := cmp.Diff(&Documents{APIVersion: V1Beta3, Join: &join}, got, values); diff != "" {
		t.Errorf("join (-want +got):\n%s", diff)
	}
}

func TestTaintsDistinguishNoneFromDefault(t *testing.T) {
	t.Parallel()
	for name, taints := range map[string]*[]corev1.Taint{"default": nil, "none": {}} {
		join := bootstrapv1.JoinConfiguration{NodeRegistration: bootstrapv1.NodeRegistrationOptions{Taints: taints}}
		raw, err := RenderJoin(join, "v1.36.3")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Contains(string(raw), "taints: []"), taints != nil; got != want {
			t.Errorf("%s: taints: [] written: %t, want %t:\n%s", name, got, want, raw)
		}
	}
}

func TestExternalEtcdIsWritten(t *testing.T) {
	t.Parallel()
	cluster := bootstrapv1.ClusterConfiguration{Etcd: bootstrapv1.Etcd{External: bootstrapv1.ExternalEtcd{
		Endpoints: []string{"https://etcd:2379"}, CAFile: "/etc/etcd/ca.crt", CertFile: "/etc/etcd/c.crt", KeyFile: "/etc/etcd/c.key",
	}}}
	raw, err := RenderInit(cluster, bootstrapv1.InitConfiguration{}, fullData())
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cluster.Etcd, got.Cluster.Etcd); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	pairs := Pairs{CA: Pair{[]byte("ca"), nil}, Etcd: Pair{[]byte("etcd"), []byte("not to be written")}, APIServerEtcdClient: Pair{[]byte("cert"), []byte("key")}}
	want := []bootstrapv1.File{
		{Path: "/etc/kubernetes/pki/ca.crt", Owner: "root:root", Permissions: "0640", Content: "ca"},
		{Path: "/etc/etcd/ca.crt", Owner: "root:root", Permissions: "0640", Content: "etcd"},
		{Path: "/etc/etcd/c.crt", Owner: "root:root", Permissions: "0640", Content: "cert"},
		{Path: "/etc/etcd/c.key", Owner: "root:root", Permissions: "0600", Content: "key"},
	}
	if diff := cmp.Diff(want, CertificateFiles(cluster, pairs)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ in, want string }{
		"nothing":              {"", "no document of the group kubeadm.k8s.io"},
		"another group alone":  {"apiVersion: v1\nkind: Pod\n", "no document of the group kubeadm.k8s.io"},
		"an old version":       {"apiVersion: kubeadm.k8s.io/v1beta2\nkind: InitConfiguration\n", "kubeadm.k8s.io/v1beta2 is not known"},
		"two versions":         {"apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n---\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n", "mixes"},
		"not YAML":             {"{", "is not YAML"},
		"a wrong type":         {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: secret-word\n", "discovery is not a struct"},
		"a token out of shape": {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nbootstrapTokens: [{token: secret-word}]\n", "bootstrapTokens[0]"},
		"too much by aliases":  {"a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 1000) + "]", "aliases that make too much"},
		"too much":             {strings.Repeat("#", maxConfig+1), "larger than"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tc.in))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "secret-word") {
				t.Errorf("Parse = %v, want an error with %q and without content", err, tc.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, version := range []string{"v1.30.4", "v1.36.3"} {
		data := fullData()
		data.KubernetesVersion = version
		raw, err := RenderInit(fullCluster(), fullInit(), data)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
		if raw, err = RenderJoin(fullJoin(), version); err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		docs, err := Parse(raw)
		if err == nil && docs.APIVersion == "" {
			t.Error("no error and no version")
		}
	})
}
