// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestWhatAPodMayNotHaveIsRefusedByItsField(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pod  string
		want []string
	}{
		"an ordinary one":        {"spec: {containers: [{name: a, image: x, securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}, readinessProbe: {httpGet: {port: health}}, ports: [{name: health, containerPort: 8081}]}], volumes: [{name: t, emptyDir: {}}, {name: s, secret: {secretName: s}}]}", nil},
		"namespaces of the host": {"spec: {hostNetwork: true, hostPID: true, hostIPC: true, shareProcessNamespace: true}", []string{"spec.hostNetwork", "spec.hostPID", "spec.hostIPC", "spec.shareProcessNamespace"}},
		"of a DaemonSet":         {"metadata: {ownerReferences: [{kind: DaemonSet, name: d}]}", []string{"metadata.ownerReferences"}},
		"volumes of the host":    {"spec: {volumes: [{name: a, hostPath: {path: /}}, {name: b, persistentVolumeClaim: {claimName: c}}, {name: c, ephemeral: {}}, {name: d, csi: {driver: x}}, {name: e, emptyDir: {medium: HugePages}}]}", []string{"spec.volumes[0].hostPath", "spec.volumes[1].persistentVolumeClaim", "spec.volumes[2].ephemeral", "spec.volumes[3]", "spec.volumes[4].emptyDir.medium"}},
		"projected certificates": {"spec: {volumes: [{name: a, projected: {sources: [{configMap: {name: c}}, {clusterTrustBundle: {path: x}}]}}]}", []string{"spec.volumes[0].projected.sources[1]"}},
		"rights": {
			"spec: {containers: [{name: a, securityContext: {privileged: true, capabilities: {add: [NET_ADMIN]}, procMount: Unmasked, seLinuxOptions: {type: x}, appArmorProfile: {type: Localhost}, seccompProfile: {type: Localhost}}}]}",
			[]string{"spec.containers[0].securityContext.privileged", "spec.containers[0].securityContext.capabilities.add", "spec.containers[0].securityContext.seLinuxOptions", "spec.containers[0].securityContext.procMount", "spec.containers[0].securityContext.appArmorProfile", "spec.containers[0].securityContext.seccompProfile"},
		},
		"rights of an init container": {"spec: {initContainers: [{name: a, securityContext: {privileged: true}}]}", []string{"spec.initContainers[0].securityContext.privileged"}},
		"of the Pod":                  {"spec: {securityContext: {sysctls: [{name: a}], seLinuxOptions: {type: x}, appArmorProfile: {type: Localhost}, seccompProfile: {type: Localhost}, fsGroup: 70000}}", []string{"spec.securityContext.seLinuxOptions", "spec.securityContext.sysctls", "spec.securityContext.appArmorProfile", "spec.securityContext.seccompProfile", "spec.securityContext.fsGroup"}},
		"users that it has not":       {"spec: {securityContext: {runAsUser: 65536, supplementalGroups: [1, 99999]}, containers: [{name: a, securityContext: {runAsGroup: 70000}}]}", []string{"spec.securityContext.runAsUser", "spec.securityContext.supplementalGroups[1]", "spec.containers[0].securityContext.runAsGroup"}},
		"ports of the host":           {"spec: {containers: [{name: a, ports: [{containerPort: 1}, {containerPort: 2, hostPort: 2}, {containerPort: 3, protocol: SCTP}]}]}", []string{"spec.containers[0].ports[1].hostPort", "spec.containers[0].ports[2].protocol"}},
		"devices":                     {"spec: {resourceClaims: [{name: a}], containers: [{name: a, volumeDevices: [{name: x}], resources: {limits: {cpu: 1, nvidia.com/gpu: 1}}}]}", []string{"spec.resourceClaims", "spec.containers[0].volumeDevices", "spec.containers[0].resources.limits[nvidia.com/gpu]"}},
		"another kind of run":         {"spec: {runtimeClassName: kata, os: {name: windows}, setHostnameAsFQDN: true, dnsPolicy: ClusterFirstWithHostNet, ephemeralContainers: [{name: e}]}", []string{"spec.runtimeClassName", "spec.ephemeralContainers", "spec.os.name", "spec.setHostnameAsFQDN", "spec.dnsPolicy"}},
		"probes that ask others":      {"spec: {containers: [{name: a, livenessProbe: {httpGet: {host: h, port: 80}}, readinessProbe: {tcpSocket: {port: nope}}, startupProbe: {httpGet: {port: 0}}}]}", []string{"spec.containers[0].startupProbe.httpGet.port", "spec.containers[0].livenessProbe.httpGet.host", "spec.containers[0].readinessProbe.tcpSocket.port"}},
		"mounts that leave it":        {"spec: {containers: [{name: a, volumeMounts: [{name: v, mountPath: /v, mountPropagation: Bidirectional}]}]}", []string{"spec.containers[0].volumeMounts[0].mountPropagation"}},
		"probes of what ends":         {"spec: {initContainers: [{name: a, readinessProbe: {}}]}", []string{"spec.initContainers[0]"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, p := range Check(builder.Parse[corev1.Pod](t, tc.pod)) {
				got = append(got, p.Field)
				if p.Detail == "" {
					t.Errorf("%s: no remedy", p.Field)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPodWaitsUntilTheNodeIsOneForIt(t *testing.T) {
	t.Parallel()
	const plain = "metadata: {name: plane, labels: {size: '3'}}"
	tests := map[string]struct {
		pod, node string
		want      string
	}{
		"any":                       {pod: "spec: {}"},
		"another scheduler":         {pod: "spec: {schedulerName: mine}", want: `spec.schedulerName: a plane has no scheduler "mine": leave it out`},
		"a gate":                    {pod: "spec: {schedulingGates: [{name: g}]}", want: `spec.schedulingGates: the Pod waits until "g" is removed`},
		"a label that it has":       {pod: "spec: {nodeSelector: {kubernetes.io/os: linux}}"},
		"the control plane":         {pod: "spec: {nodeSelector: {node-role.kubernetes.io/control-plane: ''}}"},
		"a label that it has not":   {pod: "spec: {nodeSelector: {disk: ssd}}", want: "spec.nodeSelector: node plane has no label disk=ssd: set the label, or leave the selector out"},
		"affinity that holds":       {pod: "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: x, operator: Exists}]}, {matchExpressions: [{key: size, operator: Gt, values: ['2']}, {key: size, operator: In, values: ['3']}, {key: disk, operator: DoesNotExist}, {key: disk, operator: NotIn, values: [hdd]}], matchFields: [{key: metadata.name, operator: In, values: [plane]}]}]}}}}"},
		"affinity that does not":    {pod: "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: size, operator: Lt, values: ['3']}]}]}}}}", want: "spec.affinity.nodeAffinity: node plane has none of the required labels: set them, or leave the affinity out"},
		"a taint":                   {pod: "spec: {}", node: "metadata: {name: plane}\nspec: {taints: [{key: k, value: v, effect: NoSchedule}]}", want: "spec.tolerations: node plane has the taint k=v:NoSchedule: remove it, or tolerate it"},
		"a taint that is tolerated": {pod: "spec: {tolerations: [{key: k, value: v}]}", node: "metadata: {name: plane}\nspec: {taints: [{key: k, value: v, effect: NoSchedule}, {key: p, effect: PreferNoSchedule}]}"},
		"all taints are tolerated":  {pod: "spec: {tolerations: [{operator: Exists}]}", node: "metadata: {name: plane}\nspec: {unschedulable: true, taints: [{key: k, effect: NoExecute}]}"},
		"a cordoned node":           {pod: "spec: {}", node: "metadata: {name: plane}\nspec: {unschedulable: true}", want: "spec.tolerations: node plane has the taint node.kubernetes.io/unschedulable:NoSchedule: remove it, or tolerate it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.node == "" {
				tc.node = plain
			}
			node := builder.Parse[corev1.Node](t, tc.node)
			node.Labels = labels.Merge(NodeLabels("plane", "linux", "amd64"), node.Labels)
			if got := Describe(Fits(builder.Parse[corev1.Pod](t, tc.pod), node)); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
