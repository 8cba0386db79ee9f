// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func TestCompare(t *testing.T) {
	t.Parallel()
	type kcpChange = func(*controlplanev1.KubeadmControlPlane)
	tests := map[string]struct {
		kcp     kcpChange
		machine func(*Machine)
		want    []string
	}{
		"as made":                  {},
		"another version":          {machine: func(m *Machine) { m.Spec.Version = "v1.34.0" }, want: []string{"Version v1.34.0, v1.35.0 required"}},
		"another template":         {machine: func(m *Machine) { m.Source = &Source{"big", "HostTemplate.infra.io"} }, want: []string{"Host is not up-to-date"}},
		"another kind of template": {machine: func(m *Machine) { m.Source = &Source{"small", "Host2Template.infra.io"} }, want: []string{"Host is not up-to-date"}},
		"infrastructure not there": {machine: func(m *Machine) { m.Source = nil }},
		"config not there":         {machine: func(m *Machine) { m.Config = nil }},
		"another command": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.PreKubeadmCommands = []string{"true"}
		}, want: []string{"KubeadmConfig is not up-to-date"}},
		"another DNS image": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = "v9"
		}},
		"labels and timeouts": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.MachineTemplate.ObjectMeta.Labels = map[string]string{"a": "b"}
			k.Spec.MachineTemplate.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(3))
		}},
		"rollout after, passed": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.Rollout.After = metav1.NewTime(now.Add(-time.Minute))
		}, want: []string{"KubeadmControlPlane spec.rollout.after expired"}},
		"rollout after, to come": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.Rollout.After = metav1.NewTime(now.Add(time.Minute))
		}},
		"rollout after, made since": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.Rollout.After = metav1.NewTime(now.Add(-48 * time.Hour))
		}},
		"certificates about to end":        {kcp: func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Rollout.Before.CertificatesExpiryDays = 8 }, machine: func(m *Machine) { m.Status.CertificatesExpiryDate = metav1.NewTime(now.AddDate(0, 0, 7)) }, want: []string{"KubeadmControlPlane spec.rollout.before expired"}},
		"certificates whose time has come": {kcp: func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Rollout.Before.CertificatesExpiryDays = 8 }, machine: func(m *Machine) { m.Status.CertificatesExpiryDate = metav1.NewTime(now.AddDate(0, 0, 8)) }, want: []string{"KubeadmControlPlane spec.rollout.before expired"}},
		"certificates with time left":      {kcp: func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Rollout.Before.CertificatesExpiryDays = 8 }, machine: func(m *Machine) { m.Status.CertificatesExpiryDate = metav1.NewTime(now.AddDate(0, 0, 9)) }},
		"several reasons": {machine: func(m *Machine) { m.Spec.Version, m.Source = "v1.34.0", &Source{"big", "HostTemplate.infra.io"} },
			want: []string{"Version v1.34.0, v1.35.0 required", "Host is not up-to-date"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kcp := controlPlane(1)
			m := withConfig(machine("a"), ConfigSpec(kcp, false))
			m.Spec.Version, m.Spec.InfrastructureRef.Kind = "v1.35.0", "Host"
			m.Source = &Source{"small", "HostTemplate.infra.io"}
			if tc.kcp != nil {
				tc.kcp(kcp)
			}
			if tc.machine != nil {
				tc.machine(m)
			}
			v := Compare(kcp, m, now)
			if diff := cmp.Diff(tc.want, v.Why); diff != "" || v.UpToDate != (len(tc.want) == 0) {
				t.Errorf("up to date %v (-want +got)\n%s", v.UpToDate, diff)
			}
		})
	}
}

func TestSameConfig(t *testing.T) {
	t.Parallel()
	type spec = bootstrapv1.KubeadmConfigSpec
	wanted := func(k *controlplanev1.KubeadmControlPlane) {
		s := &k.Spec.KubeadmConfigSpec
		s.InitConfiguration.NodeRegistration.Name, s.JoinConfiguration.NodeRegistration.Name = "n", "n"
		s.ClusterConfiguration.ImageRepository = "r"
	}
	tests := map[string]struct {
		init   bool // the machine has the config for kubeadm init
		change func(*spec)
		kcp    func(*controlplanev1.KubeadmControlPlane)
		want   bool
	}{
		"a join as made":  {want: true},
		"an init as made": {init: true, want: true},
		"defaults of bootstrapping": {change: func(s *spec) {
			s.JoinConfiguration.Discovery.BootstrapToken.Token = "t"
			s.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
			s.Format = bootstrapv1.CloudConfig
		}, want: true},
		"the endpoint filled in":        {change: func(s *spec) { s.ClusterConfiguration.ControlPlaneEndpoint = "x:6443" }, want: true},
		"empty and nil lists":           {change: func(s *spec) { s.Files, s.Users = []bootstrapv1.File{}, []bootstrapv1.User{} }, want: true},
		"no taints is not the default":  {change: func(s *spec) { s.JoinConfiguration.NodeRegistration.Taints = &[]corev1.Taint{} }, want: false},
		"another repository":            {change: func(s *spec) { s.ClusterConfiguration.ImageRepository = "other" }, want: false},
		"another repository on an init": {init: true, change: func(s *spec) { s.ClusterConfiguration.ImageRepository = "other" }, want: false},
		"another name in join":          {change: func(s *spec) { s.JoinConfiguration.NodeRegistration.Name = "other" }, want: false},
		"init and join differ, machine inited": {init: true, kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.Name = "only join"
		}, want: true},
		"init and join differ, machine joined": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.InitConfiguration.NodeRegistration.Name = "only init"
		}, want: true},
		"the ca path of join on an init": {init: true, kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.JoinConfiguration.CACertPath = "/x"
		}, want: true},
		"another ca path on a join": {change: func(s *spec) { s.JoinConfiguration.CACertPath = "/x" }, want: false},
		"a ca path for a join without one": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.JoinConfiguration.CACertPath = "/x"
		}, change: func(s *spec) { s.JoinConfiguration.CACertPath = "" }, want: false},
		"only join is set up, machine inited": {init: true, kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.InitConfiguration = bootstrapv1.InitConfiguration{}
		}, want: true},
		"only join is set up, machine joined otherwise": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.InitConfiguration = bootstrapv1.InitConfiguration{}
		}, change: func(s *spec) {
			s.JoinConfiguration = bootstrapv1.JoinConfiguration{Discovery: bootstrapv1.Discovery{BootstrapToken: bootstrapv1.BootstrapTokenDiscovery{Token: "t"}}}
		}, want: false},
		"more time to start, on a join": {change: func(s *spec) { s.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = new(int32(9)) }, want: true},
		"more time to start, on an init that differs from joins": {init: true, kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.JoinConfiguration.NodeRegistration.Name = "only join"
		}, change: func(s *spec) { s.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = new(int32(9)) }, want: true},
		"arguments in another order":          {kcp: withArgs("b", "a"), change: func(s *spec) { s.ClusterConfiguration.APIServer.ExtraArgs = args("a", "b") }, want: true},
		"an argument twice, in another order": {kcp: withArgs("a=1", "a=2"), change: func(s *spec) { s.ClusterConfiguration.APIServer.ExtraArgs = args("a=2", "a=1") }, want: false},
		"false where nothing means the same": {change: func(s *spec) {
			s.Ignition.ContainerLinuxConfig.Strict = new(false)
			s.JoinConfiguration.Discovery.BootstrapToken.UnsafeSkipCAVerification = new(false)
		}, want: true},
		"false where nothing means something else": {change: func(s *spec) { s.JoinConfiguration.NodeRegistration.ImagePullSerial = new(false) }, want: false},
		"a join that has the timeout of v1beta1 in init too": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.JoinConfiguration.CACertPath = "/x"
		}, change: func(s *spec) {
			s.InitConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = new(int32(9))
		}, want: true},
		"an init that has the timeout of v1beta1 in join too": {init: true, kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.InitConfiguration = bootstrapv1.InitConfiguration{}
			k.Spec.KubeadmConfigSpec.JoinConfiguration.CACertPath = "/x"
		}, change: func(s *spec) {
			s.JoinConfiguration.Timeouts.ControlPlaneComponentHealthCheckSeconds = new(int32(9))
		}, want: true},
		"the kubelet's mode that machines were made without": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.Version = "v1.33.0"
		}, change: func(s *spec) { s.ClusterConfiguration.FeatureGates = nil }, want: true},
		"the kubelet's mode that a user asks for": {kcp: func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.KubeadmConfigSpec.ClusterConfiguration.FeatureGates = map[string]bool{"ControlPlaneKubeletLocalMode": true}
		}, change: func(s *spec) { s.ClusterConfiguration.FeatureGates = nil }, want: false},
		"more time for etcd": {change: func(s *spec) { s.JoinConfiguration.Timeouts.EtcdAPICallSeconds = new(int32(9)) }, want: false},
		"more verbosity":     {change: func(s *spec) { s.Verbosity = new(int32(4)) }, want: false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kcp := controlPlane(1, wanted)
			if tc.kcp != nil {
				tc.kcp(kcp)
			}
			current := ConfigSpec(kcp, tc.init)
			if tc.change != nil {
				tc.change(&current)
			}
			if got := SameConfig(kcp, current); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func args(list ...string) (all []bootstrapv1.Arg) {
	for _, a := range list {
		name, value, _ := strings.Cut(a, "=")
		all = append(all, bootstrapv1.Arg{Name: name, Value: &value})
	}
	return all
}

func withArgs(list ...string) func(*controlplanev1.KubeadmControlPlane) {
	return func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs = args(list...)
	}
}

func TestKubeletLocalModeIsAskedForWhereItIsNew(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		version string
		set     map[string]bool
		want    map[string]bool
	}{
		"too old":                      {"v1.30.4", nil, nil},
		"from 1.31":                    {"v1.31.0", nil, map[string]bool{"ControlPlaneKubeletLocalMode": true}},
		"to 1.35":                      {"v1.35.9", map[string]bool{"X": false}, map[string]bool{"X": false, "ControlPlaneKubeletLocalMode": true}},
		"a user's own choice stays":    {"v1.34.0", map[string]bool{"ControlPlaneKubeletLocalMode": false}, map[string]bool{"ControlPlaneKubeletLocalMode": false}},
		"kubeadm knows nothing else":   {"v1.36.0", nil, nil},
		"rubbish is left to admission": {"latest", nil, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kcp := controlPlane(1, func(k *controlplanev1.KubeadmControlPlane) {
				k.Spec.Version = tc.version
				k.Spec.KubeadmConfigSpec.ClusterConfiguration.FeatureGates = tc.set
			})
			if diff := cmp.Diff(tc.want, ConfigSpec(kcp, false).ClusterConfiguration.FeatureGates); diff != "" {
				t.Errorf("gates (-want +got)\n%s", diff)
			}
		})
	}
}

func TestRolloutDueIsTheNextMoment(t *testing.T) {
	t.Parallel()
	kcp := controlPlane(1, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Rollout.After = metav1.NewTime(now.Add(72 * time.Hour))
		k.Spec.Rollout.Before.CertificatesExpiryDays = 7
	})
	all := machines("a,b,c")
	all[0].Status.CertificatesExpiryDate = metav1.NewTime(now.AddDate(0, 0, 9))
	all[1].Status.CertificatesExpiryDate = metav1.NewTime(now.AddDate(0, 0, 3))
	if got, want := rolloutDue(kcp, all, now), now.AddDate(0, 0, 2); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := rolloutDue(controlPlane(1), all, now), now.AddDate(0, 0, 3); !got.Equal(want) {
		t.Errorf("got %s without a rollout to come, want %s: the first certificate ends", got, want)
	}
	if got := rolloutDue(controlPlane(1), machines("a"), now); !got.IsZero() {
		t.Errorf("got %s of nothing to come", got)
	}
}

func TestUpdateKubeadmConfig(t *testing.T) {
	t.Parallel()
	kcp := controlPlane(1, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Version = "v1.36.0"
		k.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: new("4")}}
		k.Spec.KubeadmConfigSpec.ClusterConfiguration.DNS.ImageTag = "v9"
	})
	const current = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.35.0
clusterName: demo
controlPlaneEndpoint: x:6443
imageRepository: old
dns: {imageTag: v1}
networking: {podSubnet: 10.0.0.0/8}
`
	got, err := UpdateKubeadmConfig(kcp, current)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubernetesVersion: v1.36.0", "clusterName: demo", "controlPlaneEndpoint: x:6443", "podSubnet: 10.0.0.0/8", "imageTag: v1\n", "name: v\n"} {
		if !contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
	if contains(got, "old") {
		t.Errorf("keeps the repository:\n%s", got)
	}
	again, err := UpdateKubeadmConfig(kcp, got)
	if err != nil || again != got {
		t.Errorf("a second update changes it: %v", err)
	}
	if _, err := UpdateKubeadmConfig(kcp, "kind: Rubbish"); err == nil {
		t.Error("rubbish is taken")
	}
}

func TestUpdateKubeadmConfigKeepsUnspecifiedFields(t *testing.T) {
	t.Parallel()
	const current = `apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.35.0
# of the user
imageRepository: mine
apiServer: {extraArgs: [{name: v, value: "4"}]}
featureGates: {ControlPlaneKubeletLocalMode: true, Mine: true}
proxy: {disabled: true}
`
	const gates = "featureGates:\n  ControlPlaneKubeletLocalMode: true\n  Mine: true\n"
	const proxy = "proxy:\n  disabled: true\n" // which the spec of a control plane cannot have
	type change = func(*controlplanev1.KubeadmControlPlane)
	version := func(v string) change { return func(k *controlplanev1.KubeadmControlPlane) { k.Spec.Version = v } }
	repository := func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.KubeadmConfigSpec.ClusterConfiguration.ImageRepository = "other"
	}
	tests := map[string]struct {
		kcp         change
		current     string
		want, lacks []string
	}{
		"the same version":              {version("v1.35.0"), current, []string{current}, nil},
		"another version":               {version("v1.35.1"), current, []string{"kubernetesVersion: v1.35.1\n", "imageRepository: mine\n", "name: v\n", gates, proxy}, nil},
		"a version without the gate":    {version("v1.36.0"), current, []string{"kubernetesVersion: v1.36.0\n", "featureGates:\n  Mine: true\n"}, []string{"LocalMode"}},
		"the first that knows the gate": {version("v1.31.0"), "apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\n", []string{"v1beta4", "kubernetesVersion: v1.31.0\n", "ControlPlaneKubeletLocalMode: true\n"}, nil},
		"a spec that does":              {repository, current, []string{"imageRepository: other\n", "featureGates:\n  ControlPlaneKubeletLocalMode: true\n", proxy}, []string{"Mine", "name: v"}},
		"an empty document":             {version("v1.35.0"), "", []string{"kind: ClusterConfiguration\n", "kubernetesVersion: v1.35.0\n"}, nil},
		"an empty document, old":        {version("v1.30.0"), "\n", []string{"kubeadm.k8s.io/v1beta3", "kubernetesVersion: v1.30.0\n"}, []string{"featureGates"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := UpdateKubeadmConfig(controlPlane(1, tc.kcp), tc.current)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !contains(got, want) {
					t.Errorf("lacks %q:\n%s", want, got)
				}
			}
			for _, lacks := range tc.lacks {
				if contains(got, lacks) {
					t.Errorf("has %q:\n%s", lacks, got)
				}
			}
			again, err := UpdateKubeadmConfig(controlPlane(1, tc.kcp), got)
			if err != nil || again != got {
				t.Errorf("a second update changes it: %v", err)
			}
		})
	}
}

func TestImage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ current, repository, version, want string }{
		"a newer tag":            {"registry.k8s.io/kube-proxy:v1.35.0", "", "v1.36.0", "registry.k8s.io/kube-proxy:v1.36.0"},
		"another repository":     {"registry.k8s.io/kube-proxy:v1.35.0", "host:5000/k8s", "v1.36.0", "host:5000/k8s/kube-proxy:v1.36.0"},
		"a port is not a tag":    {"host:5000/kube-proxy", "", "v1.36.0", "host:5000/kube-proxy:v1.36.0"},
		"a digest goes":          {"x/kube-proxy:v1.35.0@sha256:abc", "", "v1.36.0", "x/kube-proxy:v1.36.0"},
		"the registry that left": {"k8s.gcr.io/kube-proxy:v1.24.0", "", "v1.25.0", "registry.k8s.io/kube-proxy:v1.25.0"},
		"build metadata":         {"x/kube-proxy:v1", "", "v1.36.0+k3s1", "x/kube-proxy:v1.36.0_k3s1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Image(tc.current, tc.repository, tc.version); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestUndatedAreThoseThatCanBeAsked(t *testing.T) {
	t.Parallel()
	ready := podCondition(corev1.PodReady, corev1.ConditionTrue)
	for name, tc := range map[string]struct {
		machine string
		change  func(*Facts, *Machine)
		want    bool
	}{
		"whose API server answers": {machine: "a", want: true},
		"of which it is known": {machine: "a", change: func(_ *Facts, m *Machine) {
			m.Config.Annotations = map[string]string{clusterv1.MachineCertificatesExpiryDateAnnotation: "x"}
		}},
		"without a KubeadmConfig":       {machine: "a", change: func(_ *Facts, m *Machine) { m.Config = nil }},
		"without a Node":                {machine: "a bare"},
		"that goes":                     {machine: "a going"},
		"whose API server is starting":  {machine: "a", change: func(f *Facts, _ *Machine) { f.Workload.Pods["kube-apiserver-a"] = pod(corev1.PodPending, ready) }},
		"whose API server is not ready": {machine: "a", change: func(f *Facts, _ *Machine) { f.Workload.Pods["kube-apiserver-a"] = pod(corev1.PodRunning) }},
		"of an unknown cluster":         {machine: "a", change: func(f *Facts, _ *Machine) { f.Workload = Workload{} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(1, tc.machine)
			m := withConfig(f.Machines[0], bootstrapv1.KubeadmConfigSpec{})
			f.Workload.Pods = map[string]*corev1.Pod{"kube-apiserver-a": pod(corev1.PodRunning, ready)}
			if tc.change != nil {
				tc.change(&f, m)
			}
			if got := len(Undated(f)) == 1; got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAPIServerPort(t *testing.T) {
	t.Parallel()
	var spec bootstrapv1.KubeadmConfigSpec
	for _, tc := range []struct {
		change func()
		want   int
	}{
		{func() {}, 6443},
		{func() { spec.InitConfiguration.LocalAPIEndpoint.BindPort = 7443 }, 7443},
		{func() { spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{} }, 7443},
		{func() { spec.JoinConfiguration.ControlPlane.LocalAPIEndpoint.BindPort = 8443 }, 8443},
	} {
		if tc.change(); APIServerPort(spec) != tc.want {
			t.Errorf("got %d, want %d", APIServerPort(spec), tc.want)
		}
	}
}
