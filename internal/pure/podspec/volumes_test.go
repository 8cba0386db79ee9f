// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestAVolumeHoldsWhatItSays(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		volume  string
		want    []File
		wantErr string
	}{
		"an empty one":         {volume: "emptyDir: {}"},
		"a Secret":             {volume: "secret: {secretName: s, defaultMode: 256}", want: []File{{"not-a-name!", []byte("x"), 0o400}, {"user", []byte("admin"), 0o400}}},
		"a ConfigMap":          {volume: "configMap: {name: c}", want: []File{{"b", []byte("two"), 0o644}, {"bin", []byte{0, 1}, 0o644}, {"level", []byte("5"), 0o644}}},
		"some of it":           {volume: "configMap: {name: c, items: [{key: b, path: d/./b.txt, mode: 511}]}", want: []File{{"d/b.txt", []byte("two"), 0o777}}},
		"the Pod":              {volume: "downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: cpu, resourceFieldRef: {containerName: a, resource: limits.cpu}}]}", want: []File{{"cpu", []byte("2"), 0o644}, {"labels", []byte(`app="x"`), 0o644}}},
		"several, later wins":  {volume: "projected: {defaultMode: 288, sources: [{configMap: {name: c, items: [{key: b, path: x}]}}, {secret: {name: s, items: [{key: user, path: x}]}}, {serviceAccountToken: {path: token}}]}", want: []File{{"x", []byte("admin"), 0o440}}},
		"an optional one":      {volume: "secret: {secretName: gone, optional: true}"},
		"an optional key":      {volume: "secret: {secretName: s, optional: true, items: [{key: gone, path: x}]}"},
		"none":                 {volume: "secret: {secretName: gone}", wantErr: `spec.volumes[0].secret: Secret "gone" does not exist: create it, or mark the field optional`},
		"no key":               {volume: "projected: {sources: [{secret: {name: s, items: [{key: gone, path: x}]}}]}", wantErr: `spec.volumes[0].projected.sources[0].secret.items[0]: Secret "s" has no key "gone": add it, or mark the field optional`},
		"a path that leaves":   {volume: "configMap: {name: c, items: [{key: b, path: ../../etc/passwd}]}", wantErr: `spec.volumes[0].configMap.items[0].path: "../../etc/passwd" leaves the volume: use a path inside of it`},
		"a field that is none": {volume: "downwardAPI: {items: [{path: x, fieldRef: {fieldPath: spec.containers}}]}", wantErr: `spec.volumes[0].downwardAPI.items[0]: "spec.containers" is no field that a Pod may ask for: see kubectl explain pod.spec.containers.env.valueFrom.fieldRef`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := builder.Parse[corev1.Pod](t, "metadata: {labels: {app: x}}\nspec: {containers: [{name: a}], volumes: [{name: v, "+tc.volume+"}]}")
			got, err := Files(pod, "v", facts(t))
			if diff := cmp.Diff(tc.want, got); diff != "" || text(err) != tc.wantErr {
				t.Errorf("error %v, want %q (-want +got):\n%s", err, tc.wantErr, diff)
			}
		})
	}
}

func TestTheObjectsOfAPodAreThoseItNames(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, "spec: {initContainers: [{name: i, envFrom: [{secretRef: {name: e}}]}], containers: [{name: a, env: [{name: x, valueFrom: {secretKeyRef: {name: k}}}, {name: y, valueFrom: {configMapKeyRef: {name: c}}}], envFrom: [{configMapRef: {name: m}}]}], volumes: [{name: a, secret: {secretName: k}}, {name: b, configMap: {name: c}}, {name: c, projected: {sources: [{secret: {name: p}}, {configMap: {name: q}}, {serviceAccountToken: {path: token, expirationSeconds: 600, audience: me}}]}}]}")
	if diff := cmp.Diff(Names{Secrets: []string{"e", "k", "p"}, ConfigMaps: []string{"c", "m", "q"}}, NamesOf(pod)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Token{{Volume: "c", Path: "token", Audience: "me", Seconds: 600, Mode: 0o644}}, TokensOf(pod)); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

func TestOuterMountsComeFirst(t *testing.T) {
	t.Parallel()
	pod := builder.Parse[corev1.Pod](t, "spec: {containers: [{name: a, volumeMounts: [{name: certs, mountPath: /tmp/serving/, readOnly: true}, {name: tmp, mountPath: /tmp}, {name: logs, mountPath: /logs, subPathExpr: $(NAME)/x}]}]}")
	got, err := MountsOf(Containers(pod)[0], []string{"NAME=p"})
	want := []Mount{{Volume: "logs", Target: "/logs", SubPath: "p/x"}, {Volume: "tmp", Target: "/tmp"}, {Volume: "certs", Target: "/tmp/serving", ReadOnly: true}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for field, bad := range map[string]string{"subPath": "{name: v, mountPath: /v, subPath: ../x}", "mountPath": "{name: v, mountPath: /}"} {
		pod := builder.Parse[corev1.Pod](t, "spec: {containers: [{name: a, volumeMounts: ["+bad+"]}]}")
		if _, err := MountsOf(Containers(pod)[0], nil); err == nil || !strings.HasPrefix(err.Error(), "spec.containers[0].volumeMounts[0]."+field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestAContainerWritesAsMuchAsItsLimitOfStorage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"{}": 0, "{limits: {memory: 1Gi}}": 0, "{limits: {ephemeral-storage: 1Gi}}": 1 << 30} {
		pod := builder.Parse[corev1.Pod](t, "spec: {containers: [{name: a, resources: "+text+"}]}")
		if got := Scratch(&pod.Spec.Containers[0]); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

func TestPodLimitSumsConcurrentContainers(t *testing.T) {
	t.Parallel()
	const limits = "resources: {limits: {cpu: 100m, memory: 10Mi}}"
	tests := map[string]struct {
		pod  string
		want Limits
		qos  corev1.PodQOSClass
	}{
		"none":                 {"spec: {containers: [{name: a}]}", Limits{}, corev1.PodQOSBestEffort},
		"two":                  {"spec: {containers: [{name: a, " + limits + "}, {name: b, " + limits + "}]}", Limits{20 << 20, 200}, corev1.PodQOSGuaranteed},
		"a large beginning":    {"spec: {initContainers: [{name: i, resources: {limits: {cpu: '1', memory: 5Mi}}}], containers: [{name: a, " + limits + "}]}", Limits{10 << 20, 1000}, corev1.PodQOSGuaranteed},
		"a sidecar":            {"spec: {initContainers: [{name: i, restartPolicy: Always, " + limits + "}], containers: [{name: a, " + limits + "}]}", Limits{20 << 20, 200}, corev1.PodQOSGuaranteed},
		"one without a limit":  {"spec: {containers: [{name: a, " + limits + "}, {name: b, resources: {limits: {cpu: 1}}}]}", Limits{0, 1100}, corev1.PodQOSBurstable},
		"requests that differ": {"spec: {containers: [{name: a, resources: {requests: {cpu: 10m}, limits: {cpu: 100m, memory: 10Mi}}}]}", Limits{10 << 20, 100}, corev1.PodQOSBurstable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := builder.Parse[corev1.Pod](t, tc.pod)
			if got, qos := PodLimits(pod), QOS(pod); got != tc.want || qos != tc.qos {
				t.Errorf("%+v %s, want %+v %s", got, qos, tc.want, tc.qos)
			}
		})
	}
}

func TestPodGetsResolvConfAndHosts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ pod, resolv, hosts string }{
		"an ordinary one": {
			"metadata: {namespace: ns, name: p}",
			"search ns.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n",
			"10.244.0.7\tp\n",
		},
		"one with a subdomain": {
			"metadata: {namespace: ns, name: p}\nspec: {hostname: h, subdomain: d, hostAliases: [{ip: 192.0.2.1, hostnames: [a, b]}], dnsConfig: {searches: [x], options: [{name: ndots, value: '1'}, {name: edns0}]}}",
			"search ns.svc.cluster.local svc.cluster.local cluster.local x\nnameserver 10.96.0.10\noptions ndots:1 edns0\n",
			"10.244.0.7\th.d.ns.svc.cluster.local\th\n192.0.2.1\ta\tb\n",
		},
		"one with names of its own": {"metadata: {name: p}\nspec: {dnsPolicy: None, dnsConfig: {nameservers: [192.0.2.53]}}", "nameserver 192.0.2.53\n", "10.244.0.7\tp\n"},
		"one without a domain":      {"metadata: {name: p}\nspec: {dnsPolicy: Default}", "nameserver 10.96.0.10\n", "10.244.0.7\tp\n"},
		"a long name":               {"metadata: {name: " + strings.Repeat("a", 62) + "-bc}\nspec: {dnsPolicy: Default}", "nameserver 10.96.0.10\n", "10.244.0.7\t" + strings.Repeat("a", 62) + "\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := builder.Parse[corev1.Pod](t, tc.pod)
			if got := string(Resolv(pod, "10.96.0.10")); got != tc.resolv {
				t.Errorf("resolv.conf %q, want %q", got, tc.resolv)
			}
			want := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" + tc.hosts
			if got := string(Hosts(pod, "10.244.0.7")); got != want {
				t.Errorf("hosts %q, want %q", got, want)
			}
		})
	}
}
