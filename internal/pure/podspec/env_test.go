// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
)

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func facts(t *testing.T) Facts {
	t.Helper()
	return Facts{
		Host:  Host{Node: builder.Parse[corev1.Node](t, "metadata: {name: plane}\nstatus: {allocatable: {cpu: '2', memory: 4Gi}}"), Address: "10.0.0.1"},
		PodIP: "10.244.0.7",
		Objects: Objects{
			Secrets:    map[string]*corev1.Secret{"s": builder.Parse[corev1.Secret](t, "data: {user: YWRtaW4=, not-a-name!: eA==}")},
			ConfigMaps: map[string]*corev1.ConfigMap{"c": builder.Parse[corev1.ConfigMap](t, "data: {level: '5', b: two}\nbinaryData: {bin: AAE=}")},
		},
		Services: []corev1.Service{
			*builder.Parse[corev1.Service](t, "metadata: {namespace: default, name: kubernetes}\nspec: {clusterIP: 10.96.0.1, ports: [{name: https, port: 443}]}"),
			*builder.Parse[corev1.Service](t, "metadata: {namespace: ns, name: web-hook}\nspec: {clusterIP: 10.96.0.9, ports: [{port: 80, protocol: TCP}]}"),
			*builder.Parse[corev1.Service](t, "metadata: {namespace: ns, name: headless}\nspec: {clusterIP: None, ports: [{port: 80}]}"),
		},
	}
}

func TestAContainerHasItsEnvironment(t *testing.T) {
	t.Parallel()
	const meta = "metadata: {namespace: ns, name: p, uid: u1, labels: {app: x, tier: front}, annotations: {a: 'b c'}}\n"
	tests := map[string]struct {
		pod     string
		image   Image
		want    []string // each is in it
		not     []string // none of these names is
		wantErr string
	}{
		"its image's": {pod: "spec: {containers: [{name: a, env: [{name: B, value: own}]}]}", image: Image{Env: []string{"A=1", "B=image"}}, want: []string{"A=1", "B=own", "HOSTNAME=p"}},
		"references to those before": {
			pod:  "spec: {containers: [{name: a, env: [{name: A, value: one}, {name: B, value: '$(A)-$(KUBERNETES_SERVICE_HOST)-$$(A)-$(LATER)'}, {name: LATER, value: x}]}]}",
			want: []string{"B=one-10.96.0.1-$(A)-$(LATER)"},
		},
		"fields": {
			pod:  "spec: {serviceAccountName: sa, containers: [{name: a, resources: {limits: {cpu: 1500m}, requests: {memory: 100Mi}}, env: [{name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}, {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: H, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}, {name: L, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['tier']\"}}}, {name: AN, valueFrom: {fieldRef: {fieldPath: metadata.annotations}}}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}, {name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}, {name: MEM, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1Mi}}}, {name: ALL, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Gi}}}]}]}",
			want: []string{"NS=ns", "IP=10.244.0.7", "H=10.0.0.1", "L=front", `AN=a="b c"`, "NODE=plane", "CPU=2", "MEM=100", "ALL=4"},
		},
		"objects": {
			pod:  "spec: {containers: [{name: a, envFrom: [{prefix: P_, secretRef: {name: s}}, {configMapRef: {name: c}}, {secretRef: {name: gone, optional: true}}], env: [{name: U, valueFrom: {secretKeyRef: {name: s, key: user}}}, {name: L, valueFrom: {configMapKeyRef: {name: c, key: level}}}, {name: O, valueFrom: {configMapKeyRef: {name: c, key: gone, optional: true}}}]}]}",
			want: []string{"P_user=admin", "level=5", "U=admin", "L=5"}, not: []string{"O", "P_not-a-name!"},
		},
		"the Services of its namespace": {pod: "spec: {containers: [{name: a}]}", want: []string{"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443", "WEB_HOOK_SERVICE_HOST=10.96.0.9", "WEB_HOOK_PORT=tcp://10.96.0.9:80", "WEB_HOOK_PORT_80_TCP_ADDR=10.96.0.9"}, not: []string{"HEADLESS_SERVICE_HOST"}},
		"no Services but one":           {pod: "spec: {enableServiceLinks: false, containers: [{name: a}]}", want: []string{"KUBERNETES_SERVICE_HOST=10.96.0.1"}, not: []string{"WEB_HOOK_SERVICE_HOST"}},
		"no Secret":                     {pod: "spec: {containers: [{name: a, env: [{name: U, valueFrom: {secretKeyRef: {name: gone, key: user}}}]}]}", wantErr: `spec.containers[0].env[0].valueFrom.secretKeyRef: Secret "gone" does not exist: create it, or mark the field optional`},
		"no key":                        {pod: "spec: {containers: [{name: a, env: [{name: U, valueFrom: {configMapKeyRef: {name: c, key: gone}}}]}]}", wantErr: `spec.containers[0].env[0].valueFrom.configMapKeyRef: ConfigMap "c" has no key "gone": add it, or mark the field optional`},
		"no ConfigMap":                  {pod: "spec: {containers: [{name: a, envFrom: [{configMapRef: {name: gone}}]}]}", wantErr: `spec.containers[0].envFrom[0].configMapRef: ConfigMap "gone" does not exist: create it, or mark the field optional`},
		"no such container":             {pod: "spec: {containers: [{name: a, env: [{name: U, valueFrom: {resourceFieldRef: {containerName: z, resource: limits.cpu}}}]}]}", wantErr: `spec.containers[0].env[0].valueFrom.resourceFieldRef: the Pod has no container "z": correct containerName`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := builder.Parse[corev1.Pod](t, meta+tc.pod)
			got, err := Env(pod, Containers(pod)[0], tc.image, facts(t))
			if text(err) != tc.wantErr {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			lookup := In(got)
			for _, want := range tc.want {
				key, value, _ := strings.Cut(want, "=")
				if has, ok := lookup(key); !ok || has != value {
					t.Errorf("%s is %q, want %q", key, has, value)
				}
			}
			for _, key := range tc.not {
				if has, ok := lookup(key); ok {
					t.Errorf("%s is %q, and should not be", key, has)
				}
			}
		})
	}
}

func TestExpansionIsThatOfKubernetes(t *testing.T) {
	t.Parallel()
	lookup := In([]string{"A=old", "A=1", "E="})
	for text, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y$(A)": "x1y1", "$$(A)": "$(A)", "$$$(A)": "$1", "$(B)": "$(B)", "$(E)": "", "$A": "$A", "$(A": "$(A", "a$": "a$", "$()": "$()",
	} {
		if got := Expand(text, lookup); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestACommandIsTheContainersOrItsImages(t *testing.T) {
	t.Parallel()
	image := Image{Entrypoint: []string{"/manager"}, Cmd: []string{"--default"}, Dir: "/srv"}
	tests := map[string]struct {
		container string
		image     Image
		want      []string
		dir       string
	}{
		"neither":     {"name: a", image, []string{"/manager", "--default"}, "/srv"},
		"arguments":   {"args: [--a, $(X)]", image, []string{"/manager", "--a", "1"}, "/srv"},
		"a command":   {"command: [/other]\nworkingDir: /w", image, []string{"/other"}, "/w"},
		"both":        {"command: [/other]\nargs: [-x]", image, []string{"/other", "-x"}, "/srv"},
		"only a cmd":  {"name: a", Image{Cmd: []string{"sh"}}, []string{"sh"}, "/"},
		"none at all": {"name: a", Image{}, nil, "/"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := builder.Parse[corev1.Container](t, tc.container)
			got, err := Command(c, tc.image, []string{"X=1"})
			if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.want != nil) {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if dir := Dir(c, tc.image); dir != tc.dir {
				t.Errorf("in %s, want %s", dir, tc.dir)
			}
		})
	}
}

func TestContainerRunsAsItsUser(t *testing.T) {
	t.Parallel()
	accounts := Accounts{Passwd: []byte("root:x:0:0::/:/bin/sh\ndaemon:x:65532:65531::/:/\nhuge:x:70000:70000::/:\n"), Group: []byte("staff:x:50:daemon,x\nroot:x:0:\n")}
	tests := map[string]struct {
		pod, image string
		want       User
		wantErr    string
	}{
		"root by default":            {pod: "spec: {containers: [{name: a}]}", want: User{}},
		"the image's number":         {pod: "spec: {containers: [{name: a}]}", image: "65532:7", want: User{UID: 65532, GID: 7, Groups: []int64{50}}},
		"the image's name":           {pod: "spec: {containers: [{name: a, securityContext: {runAsNonRoot: true}}]}", image: "daemon:staff", want: User{UID: 65532, GID: 50, Groups: []int64{50}}},
		"the Pod's":                  {pod: "spec: {securityContext: {runAsUser: 65532, runAsGroup: 9, fsGroup: 8, supplementalGroups: [3]}, containers: [{name: a}]}", want: User{UID: 65532, GID: 9, Groups: []int64{3, 8, 50}}},
		"its own":                    {pod: "spec: {securityContext: {runAsUser: 1}, containers: [{name: a, securityContext: {runAsUser: 2}}]}", image: "unknown", want: User{UID: 2}},
		"groups of the Pod alone":    {pod: "spec: {securityContext: {runAsUser: 65532, supplementalGroupsPolicy: Strict}, containers: [{name: a}]}", want: User{UID: 65532, GID: 65531}},
		"root, where it must not be": {pod: "spec: {securityContext: {runAsNonRoot: true}, containers: [{name: a}]}", wantErr: "spec.containers[0].securityContext.runAsNonRoot: the container would run as root: set runAsUser to another one than 0, or take an image that names one"},
		"a name that is not known":   {pod: "spec: {containers: [{name: a}]}", image: "mallory", wantErr: `spec.containers[0].securityContext.runAsUser: the image runs as "mallory", which is not in its /etc/passwd: set it to a number`},
		"a group that is not known":  {pod: "spec: {containers: [{name: a}]}", image: "1:wheel", wantErr: `spec.containers[0].securityContext.runAsUser: the image runs in group "wheel", which its /etc/group does not name: set runAsUser and runAsGroup to numbers`},
		"too large an ID":            {pod: "spec: {containers: [{name: a}]}", image: "huge", wantErr: "spec.containers[0].securityContext.runAsUser: the image asks for ID 70000, and a Pod has those below 65536: set runAsUser and runAsGroup"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := builder.Parse[corev1.Pod](t, tc.pod)
			got, err := UserOf(pod, Containers(pod)[0], Image{User: tc.image}, accounts)
			if diff := cmp.Diff(tc.want, got); diff != "" || text(err) != tc.wantErr {
				t.Errorf("error %v, want %q (-want +got):\n%s", err, tc.wantErr, diff)
			}
		})
	}
}
