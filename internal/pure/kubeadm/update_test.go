// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
)

func TestUpdateClusterKeepsUnknownFields(t *testing.T) {
	t.Parallel()
	type change = func(*bootstrapv1.ClusterConfiguration, *Data)
	tests := map[string]struct {
		api           string // as before if empty
		current, want string // without apiVersion and kind
		change        change
	}{
		"nothing changes": {
			current: "{proxy: {disabled: true}, dns: {disabled: true}, apiServer: {}, kubernetesVersion: v1.35.0}",
			want:    "{proxy: {disabled: true}, dns: {disabled: true}, apiServer: {}, kubernetesVersion: v1.35.0}",
			change:  func(*bootstrapv1.ClusterConfiguration, *Data) {},
		},
		"a version": {
			current: "{proxy: {disabled: true}, dns: {disabled: true}, kubernetesVersion: v1.35.0, later: {field: [1, {a: b}]}}",
			want:    "{proxy: {disabled: true}, dns: {disabled: true}, kubernetesVersion: v1.36.0, later: {field: [1, {a: b}]}}",
			change:  func(_ *bootstrapv1.ClusterConfiguration, d *Data) { d.KubernetesVersion = "v1.36.0" },
		},
		"a field next to an unknown one": {
			current: "{dns: {disabled: true}}",
			want:    "{dns: {disabled: true, imageTag: v1.13.1}}",
			change:  func(c *bootstrapv1.ClusterConfiguration, _ *Data) { c.DNS.ImageTag = "v1.13.1" },
		},
		"a field that goes next to an unknown one": {
			current: "{dns: {disabled: true, imageTag: v1.13.1, imageRepository: mine}}",
			want:    "{dns: {disabled: true}}",
			change:  func(c *bootstrapv1.ClusterConfiguration, _ *Data) { c.DNS = bootstrapv1.DNS{} },
		},
		"all of what an object has goes": {
			current: "{imageRepository: mine, apiServer: {certSANs: [a], later: 1, extraArgs: [{name: v, value: '4'}]}}",
			want:    "{apiServer: {later: 1}}",
			change: func(c *bootstrapv1.ClusterConfiguration, _ *Data) {
				c.APIServer, c.ImageRepository = bootstrapv1.APIServer{}, ""
			},
		},
		"endpoints of etcd": {
			current: "{etcd: {external: {endpoints: [a], httpEndpoints: [h], caFile: c, certFile: d, keyFile: e}}}",
			want:    "{etcd: {external: {endpoints: [a, b], httpEndpoints: [h], caFile: c, certFile: d, keyFile: e}}}",
			change:  func(c *bootstrapv1.ClusterConfiguration, _ *Data) { c.Etcd.External.Endpoints = []string{"a", "b"} },
		},
		"a validity in hours that is not changed": {
			current: "{certificateValidityPeriod: 36h0m0s, imageRepository: a}",
			want:    "{certificateValidityPeriod: 36h0m0s, imageRepository: b}",
			change:  func(c *bootstrapv1.ClusterConfiguration, _ *Data) { c.ImageRepository = "b" },
		},
		"a validity that is changed": {
			current: "{certificateValidityPeriod: 36h0m0s}",
			want:    "{certificateValidityPeriod: 240h0m0s}",
			change:  func(c *bootstrapv1.ClusterConfiguration, _ *Data) { c.CertificateValidityPeriodDays = 10 },
		},
		"a gate is replaced": {
			current: "{featureGates: {A: true, B: false}}",
			want:    "{featureGates: {B: true}}",
			change:  func(c *bootstrapv1.ClusterConfiguration, _ *Data) { c.FeatureGates = map[string]bool{"B": true} },
		},
		"an older version of the API, in which flags are a map": {
			api:     V1Beta3,
			current: "{scheduler: {extraArgs: [{name: v, value: '4'}]}, encryptionAlgorithm: RSA-4096, later: true}",
			want:    "{scheduler: {extraArgs: {v: '4'}}, later: true}",
			change:  func(*bootstrapv1.ClusterConfiguration, *Data) {},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const kind = "apiVersion: " + V1Beta4 + "\nkind: ClusterConfiguration\n"
			var current map[string]any
			if err := yaml.Unmarshal([]byte(tc.current), &current); err != nil {
				t.Fatal(err)
			}
			rest, err := yaml.Marshal(current)
			if err != nil {
				t.Fatal(err)
			}
			// Other documents come first: kubeadm's own file can have them.
			docs, err := ParseCluster("kind: KubeletConfiguration\n---\n" + kind + string(rest))
			if err != nil {
				t.Fatal(err)
			}
			if tc.api == "" {
				tc.api = docs.APIVersion
			}
			c, data := docs.Cluster.DeepCopy(), docs.Data
			tc.change(c, &data)
			text, err := docs.UpdateCluster(tc.api, *c, data)
			if err != nil {
				t.Fatal(err)
			}
			got, want := map[string]any{}, map[string]any{"apiVersion": tc.api, "kind": "ClusterConfiguration"}
			if err := yaml.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, err := ParseCluster(text)
			if err != nil || again.APIVersion != tc.api {
				t.Fatalf("the result is of %s: %v", again.APIVersion, err)
			}
			if same, err := again.UpdateCluster(tc.api, *again.Cluster, again.Data); err != nil || same != text {
				t.Errorf("another update changes it: %v (-first +second):\n%s", err, cmp.Diff(text, same))
			}
		})
	}
}

func TestUpdateClusterMovesTimeoutToNewVersion(t *testing.T) {
	t.Parallel()
	docs, err := ParseCluster("apiVersion: kubeadm.k8s.io/v1beta3\nkind: ClusterConfiguration\napiServer:\n  timeoutForControlPlane: 4m0s\n  extraArgs:\n    v: '4'\n    a: b\n")
	if err != nil {
		t.Fatal(err)
	}
	if docs.Data.ControlPlaneTimeoutSeconds == nil || *docs.Data.ControlPlaneTimeoutSeconds != 240 {
		t.Errorf("the timeout is %v", docs.Data.ControlPlaneTimeoutSeconds)
	}
	text, err := docs.UpdateCluster(V1Beta4, *docs.Cluster, docs.Data)
	const want = "apiServer:\n  extraArgs:\n  - name: a\n    value: b\n  - name: v\n    value: \"4\"\napiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n"
	if diff := cmp.Diff(want, text); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestParseClusterNeedsClusterConfiguration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"apiVersion: kubeadm.k8s.io/v1beta4\nkind: InitConfiguration\n": "it holds no ClusterConfiguration",
		"kind: ConfigMap\n": "no document of the group kubeadm.k8s.io",
	} {
		if _, err := ParseCluster(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if _, err := UpdateKubeadmDNS(text, bootstrapv1.DNS{ImageTag: "v1"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: update of DNS: %v, want %s", text, err, want)
		}
	}
	docs, err := ParseCluster(" \n")
	if diff := cmp.Diff(&Documents{APIVersion: V1Beta4, Cluster: &bootstrapv1.ClusterConfiguration{}}, docs, values); diff != "" || err != nil {
		t.Errorf("of nothing: %v (-want +got):\n%s", err, diff)
	}
}

func TestUpdateKubeadmDNSKeepsUnknownFields(t *testing.T) {
	t.Parallel()
	const current = "apiVersion: kubeadm.k8s.io/v1beta4\ndns:\n  disabled: true\n  imageTag: v1\nkind: ClusterConfiguration\nproxy:\n  disabled: true\n"
	got, err := UpdateKubeadmDNS(current, bootstrapv1.DNS{ImageTag: "v2"})
	if diff := cmp.Diff(strings.Replace(current, "v1\n", "v2\n", 1), got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestDurationsAreWholeSecondsAndDays: the API has numbers where kubeadm has texts.
func TestDurationsAreWholeSecondsAndDays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		d       time.Duration
		seconds int32
		days    int32
	}{
		"zero":              {0, 0, 0},
		"a part of one":     {999 * time.Millisecond, 0, 0},
		"negative":          {-90 * time.Second, -90, 0},
		"a day and a half":  {36 * time.Hour, 129600, 1},
		"longer than 2^31s": {100 * 365 * 24 * time.Hour, math.MaxInt32, 36500},
		"as far back":       {-100 * 365 * 24 * time.Hour, math.MinInt32, -36500},
	}
	for name, tc := range tests {
		d := &metav1.Duration{Duration: tc.d}
		if seconds, days := *toSeconds(d), toDays(d); seconds != tc.seconds || days != tc.days {
			t.Errorf("%s: %d seconds, %d days, want %d, %d", name, seconds, days, tc.seconds, tc.days)
		}
	}
	if toSeconds(nil) != nil || seconds(nil) != nil || toDays(nil) != 0 || days(0) != nil {
		t.Error("what is not set becomes set")
	}
	if got := seconds(new(int32(0))); got == nil || got.Duration != 0 {
		t.Errorf("zero seconds, which are no timeout, become %v", got)
	}
}

func TestGateOfLocalModeFollowsKubernetes(t *testing.T) {
	t.Parallel()
	const gate = KubeletLocalMode
	mine := map[string]bool{"Mine": true}
	tests := map[string]struct {
		gates   map[string]bool
		version string
		want    map[string]bool
	}{
		"before kubeadm has it":      {mine, "v1.30.9", mine},
		"the first that has it":      {nil, "v1.31.0", map[string]bool{gate: true}},
		"a candidate of it":          {mine, "v1.31.0-rc.1", map[string]bool{gate: true, "Mine": true}},
		"the last that has it":       {mine, "v1.35.4", map[string]bool{gate: true, "Mine": true}},
		"where it is the only mode":  {mine, "v1.36.0", mine},
		"no version":                 {mine, "latest", mine},
		"a user who does not use it": {map[string]bool{gate: false}, "v1.33.0", map[string]bool{gate: false}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := WithKubeletLocalMode(tc.gates, tc.version)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("with (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.gates, WithoutKubeletLocalMode(got, tc.gates)); diff != "" {
				t.Errorf("and without again (-want +got):\n%s", diff)
			}
		})
	}
	if len(mine) != 1 {
		t.Errorf("the gates of the caller are %v", mine)
	}
	if got := WithoutKubeletLocalMode(map[string]bool{gate: true, "Mine": true}, map[string]bool{gate: true}); !got[gate] {
		t.Errorf("a gate of the user is removed: %v", got)
	}
}

func TestNormalizeGivesEqualConfigsOneForm(t *testing.T) {
	t.Parallel()
	spec := func(text string) *bootstrapv1.KubeadmConfigSpec {
		t.Helper()
		s := &bootstrapv1.KubeadmConfigSpec{}
		if err := yaml.UnmarshalStrict([]byte(text), s); err != nil {
			t.Fatal(err)
		}
		Normalize(s)
		return s
	}
	tests := map[string]struct {
		a, b string
		same bool
	}{
		"the default format":     {"{format: cloud-config}", "{}", true},
		"another format":         {"{format: ignition}", "{}", false},
		"the default pull":       {"{joinConfiguration: {nodeRegistration: {imagePullPolicy: IfNotPresent}}, initConfiguration: {nodeRegistration: {imagePullPolicy: IfNotPresent}}}", "{}", true},
		"another pull":           {"{joinConfiguration: {nodeRegistration: {imagePullPolicy: Always}}}", "{}", false},
		"the order of arguments": {"{clusterConfiguration: {etcd: {local: {extraArgs: [{name: b, value: x}, {name: a, value: y}]}}}}", "{clusterConfiguration: {etcd: {local: {extraArgs: [{name: a, value: y}, {name: b, value: x}]}}}}", true},
		"the order of arguments of one name": {
			"{clusterConfiguration: {apiServer: {extraArgs: [{name: a, value: x}, {name: a, value: y}]}}}", "{clusterConfiguration: {apiServer: {extraArgs: [{name: a, value: y}, {name: a, value: x}]}}}", false,
		},
		"an argument without value":  {"{joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [{name: v}]}}}", "{joinConfiguration: {nodeRegistration: {kubeletExtraArgs: [{name: v, value: ''}]}}}", true},
		"no environment":             {"{clusterConfiguration: {scheduler: {extraEnvs: []}}}", "{clusterConfiguration: {scheduler: {}}}", true},
		"an environment":             {"{clusterConfiguration: {scheduler: {extraEnvs: [{name: A, value: b}]}}}", "{}", false},
		"a volume that is writable":  {"{clusterConfiguration: {controllerManager: {extraVolumes: [{name: a, hostPath: /a, mountPath: /a, readOnly: false}]}}}", "{clusterConfiguration: {controllerManager: {extraVolumes: [{name: a, hostPath: /a, mountPath: /a}]}}}", true},
		"a volume that is read only": {"{clusterConfiguration: {controllerManager: {extraVolumes: [{name: a, hostPath: /a, mountPath: /a, readOnly: true}]}}}", "{clusterConfiguration: {controllerManager: {extraVolumes: [{name: a, hostPath: /a, mountPath: /a}]}}}", false},
		"what is not appended":       {"{files: [{path: /a, append: false}]}", "{files: [{path: /a}]}", true},
		"what is appended":           {"{files: [{path: /a, append: true}]}", "{files: [{path: /a}]}", false},
		"no layout":                  {"{diskSetup: {partitions: [{device: /dev/a, layout: false}]}}", "{diskSetup: {partitions: [{device: /dev/a}]}}", true},
		"not strict":                 {"{ignition: {containerLinuxConfig: {strict: false}}}", "{}", true},
		"discovery by default": {
			"{joinConfiguration: {discovery: {bootstrapToken: {token: a, unsafeSkipCAVerification: false}, file: {kubeConfig: {cluster: {insecureSkipTLSVerify: false}, user: {exec: {command: c, provideClusterInfo: false, apiVersion: client.authentication.k8s.io/v1}}}}}}}",
			"{joinConfiguration: {discovery: {bootstrapToken: {token: a}, file: {kubeConfig: {user: {exec: {command: c}}}}}}}", true,
		},
		"an older exec plugin": {"{joinConfiguration: {discovery: {file: {kubeConfig: {user: {exec: {command: c, apiVersion: client.authentication.k8s.io/v1beta1}}}}}}}", "{joinConfiguration: {discovery: {file: {kubeConfig: {user: {exec: {command: c}}}}}}}", false},
	}
	for name, tc := range tests {
		if diff := cmp.Diff(spec(tc.a), spec(tc.b)); (diff == "") != tc.same {
			t.Errorf("%s: the same %t, want %t:\n%s", name, diff == "", tc.same, diff)
		}
	}
}
