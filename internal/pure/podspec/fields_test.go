// SPDX-License-Identifier: Apache-2.0

package podspec

import (
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/builder"
)

// fates classifies the fields of each type in a Pod: honoured fields take effect,
// harmless ones change nothing that a Pod of a plane could observe, and for each of the
// others there is a Pod that is refused because of it.
var fates = map[reflect.Type]struct {
	honoured, harmless string
	refused            map[string]string
}{
	reflect.TypeFor[corev1.PodSpec](): {
		"volumes initContainers containers restartPolicy terminationGracePeriodSeconds activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName nodeName securityContext imagePullSecrets hostname subdomain schedulerName tolerations hostAliases dnsConfig readinessGates enableServiceLinks schedulingGates affinity",
		// The API server fills in the first two; there is one Node, whose capacity is
		// that of the host, so nothing is spread, grouped, preempted or weighed; and
		// each Pod has its own user namespace wherever that is possible.
		"serviceAccount automountServiceAccountToken priorityClassName priority preemptionPolicy overhead topologySpreadConstraints schedulingGroup hostUsers",
		map[string]string{
			"ephemeralContainers":   "ephemeralContainers: [{name: e}]",
			"hostNetwork":           "hostNetwork: true",
			"hostPID":               "hostPID: true",
			"hostIPC":               "hostIPC: true",
			"shareProcessNamespace": "shareProcessNamespace: true",
			"runtimeClassName":      "runtimeClassName: x",
			"setHostnameAsFQDN":     "setHostnameAsFQDN: true",
			"os":                    "os: {name: windows}",
			"resourceClaims":        "resourceClaims: [{name: x}]",
			"resources":             "resources: {limits: {cpu: 1}}",
			"hostnameOverride":      "hostnameOverride: x",
		},
	},
	reflect.TypeFor[corev1.Container](): {
		"name image command args workingDir ports envFrom env resources restartPolicy volumeMounts livenessProbe readinessProbe startupProbe lifecycle terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce tty",
		"resizePolicy", // a Pod is resized by another one in its place
		map[string]string{
			"restartPolicyRules": "containers: [{name: a, restartPolicyRules: [{action: Restart}]}]",
			"volumeDevices":      "containers: [{name: a, volumeDevices: [{name: x}]}]",
		},
	},
	reflect.TypeFor[corev1.PodSecurityContext](): {
		"runAsUser runAsGroup runAsNonRoot supplementalGroups supplementalGroupsPolicy fsGroup",
		// They are about how labels and groups get onto disks, of which there are none.
		"fsGroupChangePolicy seLinuxChangePolicy",
		map[string]string{
			"seLinuxOptions":  "securityContext: {seLinuxOptions: {type: x}}",
			"windowsOptions":  "securityContext: {windowsOptions: {}}",
			"sysctls":         "securityContext: {sysctls: [{name: x}]}",
			"seccompProfile":  "securityContext: {seccompProfile: {type: Localhost}}",
			"appArmorProfile": "securityContext: {appArmorProfile: {type: Localhost}}",
		},
	},
	reflect.TypeFor[corev1.SecurityContext](): {
		"runAsUser runAsGroup runAsNonRoot readOnlyRootFilesystem",
		"allowPrivilegeEscalation", // no container can gain privileges, regardless of this field
		map[string]string{
			"capabilities":    "containers: [{name: a, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]",
			"privileged":      "containers: [{name: a, securityContext: {privileged: true}}]",
			"seLinuxOptions":  "containers: [{name: a, securityContext: {seLinuxOptions: {type: x}}}]",
			"windowsOptions":  "containers: [{name: a, securityContext: {windowsOptions: {}}}]",
			"procMount":       "containers: [{name: a, securityContext: {procMount: Unmasked}}]",
			"seccompProfile":  "containers: [{name: a, securityContext: {seccompProfile: {type: Localhost}}}]",
			"appArmorProfile": "containers: [{name: a, securityContext: {appArmorProfile: {type: Localhost}}}]",
		},
	},
	reflect.TypeFor[corev1.Probe](): {
		honoured: "exec httpGet tcpSocket grpc initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold terminationGracePeriodSeconds",
	},
	reflect.TypeFor[corev1.HTTPGetAction](): {
		honoured: "path port scheme httpHeaders",
		refused:  map[string]string{"host": "containers: [{name: a, lifecycle: {preStop: {httpGet: {host: x, port: 1}}}}]"},
	},
	reflect.TypeFor[corev1.Lifecycle](): {
		honoured: "postStart preStop stopSignal",
	},
	reflect.TypeFor[corev1.LifecycleHandler](): {
		honoured: "exec httpGet sleep",
		refused:  map[string]string{"tcpSocket": "containers: [{name: a, lifecycle: {postStart: {tcpSocket: {port: 1}}}}]"},
	},
	reflect.TypeFor[corev1.ContainerPort](): {
		honoured: "name containerPort protocol",
		harmless: "hostIP", // it says where hostPort is, which is refused
		refused:  map[string]string{"hostPort": "containers: [{name: a, ports: [{hostPort: 1}]}]"},
	},
	reflect.TypeFor[corev1.VolumeMount](): {
		honoured: "name readOnly mountPath subPath subPathExpr",
		harmless: "recursiveReadOnly", // nothing is mounted below a volume's folder
		refused:  map[string]string{"mountPropagation": "containers: [{name: a, volumeMounts: [{name: v, mountPropagation: Bidirectional}]}]"},
	},
	reflect.TypeFor[corev1.EnvVarSource](): {
		honoured: "fieldRef resourceFieldRef configMapKeyRef secretKeyRef",
		refused:  map[string]string{"fileKeyRef": "containers: [{name: a, env: [{name: E, valueFrom: {fileKeyRef: {key: k}}}]}]"},
	},
	reflect.TypeFor[corev1.EnvFromSource]():        {honoured: "prefix configMapRef secretRef"},
	reflect.TypeFor[corev1.EmptyDirVolumeSource](): {honoured: "medium sizeLimit"},
	reflect.TypeFor[corev1.ResourceRequirements](): {
		honoured: "limits requests",
		refused:  map[string]string{"claims": "containers: [{name: a, resources: {claims: [{name: x}]}}]"},
	},
}

// fieldsOf are the names of a type's fields, including embedded ones.
func fieldsOf(of reflect.Type) (names []string) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" {
			names = append(names, fieldsOf(f.Type)...)
			continue
		}
		names = append(names, name)
	}
	return names
}

func TestNoFieldOfAPodIsDroppedUnsaid(t *testing.T) {
	t.Parallel()
	for of, fate := range fates {
		t.Run(of.Name(), func(t *testing.T) {
			t.Parallel()
			said := map[string]int{}
			for _, name := range append(strings.Fields(fate.honoured), strings.Fields(fate.harmless)...) {
				said[name]++
			}
			for name, spec := range fate.refused {
				said[name]++
				if !refusedFor(builder.Parse[corev1.Pod](t, "spec: {"+spec+"}"), name) {
					t.Errorf("%s: {%s} is not refused for it", name, spec)
				}
			}
			for _, name := range fieldsOf(of) {
				if said[name] != 1 {
					t.Errorf("%s has %d fates, want one: honour it, or refuse it in Check", name, said[name])
				}
				delete(said, name)
			}
			for name := range said {
				t.Errorf("%s is no field any more", name)
			}
		})
	}
}

func refusedFor(pod *corev1.Pod, name string) bool {
	for _, p := range Check(pod) {
		for part := range strings.SplitSeq(p.Field, ".") {
			if part, _, _ = strings.Cut(part, "["); part == name {
				return true
			}
		}
	}
	return false
}
