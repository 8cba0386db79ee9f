// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/kubeadm"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// run reads user data that calls kubeadm with a configuration.
func run(t *testing.T, verb, config string) *Run {
	t.Helper()
	text := "#cloud-config\nwrite_files:\n- path: /k.yaml\n  content: |\n    " + strings.ReplaceAll(config, "\n", "\n    ") +
		"\nruncmd:\n- kubeadm " + verb + " --config /k.yaml\n"
	r, err := Read([]byte(text), "cloud-config", "Host-1")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const join = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: {bootstrapToken: {token: a}}\n"

func TestNodesAreWhatTheirRegistrationSays(t *testing.T) {
	t.Parallel()
	controlPlane := corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}
	tests := map[string]struct {
		verb, config string
		name         string
		providerID   string
		taints       []corev1.Taint
		labels       map[string]string // some that have to be there
	}{
		"a worker by default":        {"join", join, "host-1", "sim://1", nil, map[string]string{"kubernetes.io/hostname": "host-1"}},
		"a control plane by default": {"join", join + "controlPlane: {}\n", "host-1", "sim://1", []corev1.Taint{controlPlane}, map[string]string{"node-role.kubernetes.io/control-plane": ""}},
		"the founder by default":     {"init", "apiVersion: kubeadm.k8s.io/v1beta3\nkind: InitConfiguration\n", "host-1", "sim://1", []corev1.Taint{controlPlane}, nil},
		"a control plane without taints": {"join", join + "controlPlane: {}\nnodeRegistration: {taints: []}\n", "host-1", "sim://1", nil,
			map[string]string{"node-role.kubernetes.io/control-plane": ""}},
		"with a name": {"join", join + "nodeRegistration: {name: n1}\n", "n1", "sim://1", nil, map[string]string{"kubernetes.io/hostname": "n1"}},
		"with flags of the kubelet": {"join", join + "nodeRegistration:\n  kubeletExtraArgs:\n  - {name: provider-id, value: 'other://2'}\n  - {name: node-labels, value: 'a=b,c'}\n" +
			"  - {name: register-with-taints, value: 'x=y:NoExecute'}\n", "host-1", "other://2", []corev1.Taint{{Key: "x", Value: "y", Effect: corev1.TaintEffectNoExecute}}, map[string]string{"a": "b", "c": ""}},
		"with flags in the older form": {"join", strings.Replace(join, "v1beta4", "v1beta3", 1) + "nodeRegistration: {kubeletExtraArgs: {provider-id: 'other://2'}}\n", "host-1", "other://2", nil, nil},
		"with taints": {"join", join + "nodeRegistration: {taints: [{key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}]}\n", "host-1", "sim://1",
			[]corev1.Taint{{Key: "node.cluster.x-k8s.io/uninitialized", Effect: corev1.TaintEffectNoSchedule}}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := run(t, tc.verb, tc.config).Node(Host{Name: "Host-1", UID: "u", Address: "10.0.0.1", ProviderID: "sim://1", Version: "v1.36.3", Now: now})
			if n.Name != tc.name || n.Spec.ProviderID != tc.providerID {
				t.Errorf("got Node %s with %s, want %s with %s", n.Name, n.Spec.ProviderID, tc.name, tc.providerID)
			}
			if diff := cmp.Diff(tc.taints, n.Spec.Taints); diff != "" {
				t.Errorf("taints (-want +got):\n%s", diff)
			}
			for key, want := range tc.labels {
				if got, ok := n.Labels[key]; !ok || got != want {
					t.Errorf("got label %s=%q, want %q", key, got, want)
				}
			}
		})
	}
}

func TestReadinessKeepsOtherTaints(t *testing.T) {
	t.Parallel()
	n := run(t, "join", join+"nodeRegistration: {taints: [{key: a, effect: NoSchedule}]}\n").Node(Host{Name: "h", Now: now})
	before := n.DeepCopy()
	if SetReady(n, corev1.ConditionTrue, now) {
		t.Error("making a ready Node ready changed something")
	}
	later := now.Add(time.Minute)
	if !SetReady(n, corev1.ConditionUnknown, later) || len(n.Spec.Taints) != 3 || n.Spec.Taints[1].Key != "node.kubernetes.io/unreachable" {
		t.Errorf("got taints %v of an unknown Node", n.Spec.Taints)
	}
	for _, c := range n.Status.Conditions {
		if c.Status != corev1.ConditionUnknown || !c.LastTransitionTime.Time.Equal(later) {
			t.Errorf("got condition %s %s since %s, want Unknown since %s", c.Type, c.Status, c.LastTransitionTime, later)
		}
	}
	SetReady(n, corev1.ConditionTrue, later)
	if diff := cmp.Diff(before.Spec.Taints, n.Spec.Taints); diff != "" {
		t.Errorf("taints after all (-want +got):\n%s", diff)
	}
	for i := range before.Status.Conditions {
		c := &before.Status.Conditions[i]
		c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(later), metav1.NewTime(later)
	}
	if diff := cmp.Diff(before.Status.Conditions, n.Status.Conditions); diff != "" {
		t.Errorf("conditions once its kubelet speaks again (-want +got):\n%s", diff)
	}
}

func TestImagesAreThoseOfKubeadm(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		component, version string
		cluster            bootstrapv1.ClusterConfiguration
		want               string
	}{
		"a component":             {"kube-apiserver", "v1.36.3", bootstrapv1.ClusterConfiguration{}, "registry.k8s.io/kube-apiserver:v1.36.3"},
		"a component of a build":  {"kube-proxy", "v1.36.3+abc", bootstrapv1.ClusterConfiguration{}, "registry.k8s.io/kube-proxy:v1.36.3_abc"},
		"from another repository": {"kube-proxy", "v1.36.3", bootstrapv1.ClusterConfiguration{ImageRepository: "r.example"}, "r.example/kube-proxy:v1.36.3"},
		"etcd":                    {"etcd", "v1.36.3", bootstrapv1.ClusterConfiguration{}, "registry.k8s.io/etcd:3.6.8-0"},
		"etcd with a tag": {"etcd", "v1.36.3", bootstrapv1.ClusterConfiguration{Etcd: bootstrapv1.Etcd{Local: bootstrapv1.LocalEtcd{ImageRepository: "e.example", ImageTag: "1"}}},
			"e.example/etcd:1"},
		"CoreDNS":                 {"coredns", "v1.36.3", bootstrapv1.ClusterConfiguration{}, "registry.k8s.io/coredns/coredns:v1.14.2"},
		"CoreDNS of an old one":   {"coredns", "v1.30.1", bootstrapv1.ClusterConfiguration{}, "registry.k8s.io/coredns/coredns:v1.11.3"},
		"CoreDNS from elsewhere":  {"coredns", "v1.36.3", bootstrapv1.ClusterConfiguration{ImageRepository: "r.example"}, "r.example/coredns:v1.14.2"},
		"CoreDNS by itself moved": {"coredns", "v1.36.3", bootstrapv1.ClusterConfiguration{DNS: bootstrapv1.DNS{ImageRepository: "d.example", ImageTag: "v9"}}, "d.example/coredns:v9"},
	}
	for name, tc := range tests {
		if got := image(tc.component, &kubeadm.Documents{Cluster: &tc.cluster}, tc.version); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestEndpointsAreComparedAsAddresses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		a, b string
		want bool
	}{
		"the same":          {"10.0.0.1:6443", "10.0.0.1:6443", true},
		"the default port":  {"10.0.0.1", "10.0.0.1:6443", true},
		"a URL":             {"https://10.0.0.1:6443", "10.0.0.1:6443", true},
		"two forms of IPv6": {"[::1]:6443", "[0:0::1]:6443", true},
		"upper case":        {"API.example:443", "api.example:443", true},
		"another port":      {"10.0.0.1:443", "10.0.0.1:6443", false},
		"another host":      {"10.0.0.2:6443", "10.0.0.1:6443", false},
		"nothing":           {"", "10.0.0.1:6443", false},
	}
	for name, tc := range tests {
		if got := SameEndpoint(tc.a, tc.b); got != tc.want {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}

func TestTokensOfTheConfigurationBecomeSecrets(t *testing.T) {
	t.Parallel()
	r := run(t, "init", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\nbootstrapTokens:\n"+
		"- {token: abcdef.0123456789abcdef}\n- {token: fedcba.0123456789abcdef, ttl: 0s, usages: [signing], groups: ['system:bootstrappers:x'], description: d}\n")
	got, err := r.tokens(now)
	if err != nil {
		t.Fatal(err)
	}
	want := []map[string]string{
		{"token-id": "abcdef", "token-secret": "0123456789abcdef", "expiration": "2026-01-03T03:04:05Z", "usage-bootstrap-signing": "true",
			"usage-bootstrap-authentication": "true", "auth-extra-groups": nodeTokens},
		{"token-id": "fedcba", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true", "auth-extra-groups": "system:bootstrappers:x", "description": "d"},
	}
	for i, obj := range got {
		s, data := obj.(*corev1.Secret), map[string]string{}
		for k, v := range s.Data {
			data[k] = string(v)
		}
		if diff := cmp.Diff(want[i], data); diff != "" || s.Name != "bootstrap-token-"+want[i]["token-id"] || s.Namespace != metav1.NamespaceSystem {
			t.Errorf("Secret %s/%s (-want +got):\n%s", s.Namespace, s.Name, diff)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %d Secrets, want %d", len(got), len(want))
	}
}

func TestTokensExpireAsConfigured(t *testing.T) {
	t.Parallel()
	later := metav1.NewTime(now.Add(time.Minute))
	for name, tc := range map[string]struct {
		token bootstrapv1.BootstrapToken
		want  time.Time
	}{
		"by default":        {bootstrapv1.BootstrapToken{}, now.Add(24 * time.Hour)},
		"after a time":      {bootstrapv1.BootstrapToken{TTLSeconds: new(int32(60))}, now.Add(time.Minute)},
		"never":             {bootstrapv1.BootstrapToken{TTLSeconds: new(int32(0))}, time.Time{}},
		"at a time":         {bootstrapv1.BootstrapToken{Expires: later}, later.Time},
		"at a time, rather": {bootstrapv1.BootstrapToken{Expires: later, TTLSeconds: new(int32(0))}, later.Time},
	} {
		if got := expiry(tc.token, now); !got.Equal(tc.want) {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestServiceAddressesAreCounted(t *testing.T) {
	t.Parallel()
	for subnet, want := range map[string]string{
		"10.96.0.0/12": "10.96.0.10", "10.97.3.7/12": "10.96.0.10", "10.0.0.250/24, fd00::/112": "10.0.0.10", "fd00:1::/112,10.96.0.0/12": "fd00:1::a", "": "", "services": "",
	} {
		if got := serviceIP(kubeadm.Data{ServiceSubnet: subnet}, 10); got != want {
			t.Errorf("of %q: got %q, want %q", subnet, got, want)
		}
	}
}

func TestOtherFormatsAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := Read([]byte("{}"), "butane", "h"); err == nil || !strings.Contains(err.Error(), `no format "butane": use cloud-config or ignition`) {
		t.Errorf("got %v, want it to name the format and what to use", err)
	}
}

func TestAPodWithoutContainersDoesNotRun(t *testing.T) {
	t.Parallel()
	if SetRunning(&corev1.Pod{}, true, now) {
		t.Error("it runs")
	}
}
