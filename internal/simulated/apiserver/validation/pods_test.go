// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// onePod is a Pod with what the changes replace.
const onePod = "spec: {containers: [{name: c, image: v1}]}"

// podField is a change that adds a field to the spec.
func podField(field, want string) change { return change{"spec: {", "spec: {" + field + ", ", want} }

// part is a change that adds a field to the container.
func part(field, want string) change { return change{"image: v1", "image: v1, " + field, want} }

// The paths and the kinds of errors are those of the validation of Kubernetes.
func TestObjectChecksPods(t *testing.T) {
	t.Parallel()
	many := "a" + strings.Repeat(", a", 32)
	compare(t, &corev1.Pod{}, onePod, []change{
		{"[{name: c, image: v1}]", "[]", "spec.containers: Required value"},
		podField("restartPolicy: Sometimes", "spec.restartPolicy: Unsupported value"),
		podField("serviceAccountName: A_b", "spec.serviceAccountName: Invalid value"),
		podField("nodeName: n/m", "spec.nodeName: Invalid value"),
		podField("priorityClassName: A_b", "spec.priorityClassName: Invalid value"),
		podField("hostname: a.b", "spec.hostname: Invalid value"),
		podField("subdomain: A", "spec.subdomain: Invalid value"),
		podField("runtimeClassName: A_b", "spec.runtimeClassName: Invalid value"),
		podField("activeDeadlineSeconds: 0", "spec.activeDeadlineSeconds: Invalid value: 0"),
		podField("activeDeadlineSeconds: 1", ""),
		podField("activeDeadlineSeconds: 2147483648", "spec.activeDeadlineSeconds: Invalid value"),
		podField("preemptionPolicy: Always", "spec.preemptionPolicy: Unsupported value"),
		podField("nodeSelector: {a b: c}", "spec.nodeSelector: Invalid value"),
		podField("nodeSelector: {a: b c}", "spec.nodeSelector: Invalid value"),
		podField("readinessGates: [{conditionType: a b}]", "spec.readinessGates[0].conditionType: Invalid value"),
		podField("schedulingGates: [{name: a b}]", "spec.schedulingGates[0].name: Invalid value"),
		podField("hostAliases: [{ip: 10.0.0.1, hostnames: [a.b]}]", ""),
		podField("hostAliases: [{ip: x}]", "spec.hostAliases[0].ip: Invalid value"),
		podField("hostAliases: [{ip: fe80::1%eth0}]", "spec.hostAliases[0].ip: Invalid value"),
		podField("hostAliases: [{ip: 10.0.0.1, hostnames: [A_b]}]", "spec.hostAliases[0].hostnames[0]: Invalid value"),
		podField("overhead: {cpu: -1}", "spec.overhead[cpu]: Invalid value"),

		podField("initContainers: [{name: i, image: v1}]", ""),
		podField("initContainers: [{name: c, image: v1}]", `spec.initContainers[0].name: Duplicate value: "c"`),
		podField("initContainers: [{name: i, image: v1}, {name: i, image: v1}]", `spec.initContainers[1].name: Duplicate value: "i"`),
		podField("initContainers: [{name: i, image: v1, livenessProbe: {exec: {command: [a]}}}]", "spec.initContainers[0]: Forbidden"),
		podField("initContainers: [{name: i, image: v1, restartPolicy: Always, livenessProbe: {exec: {command: [a]}}}]", ""),
		podField("initContainers: [{name: i, image: v1, restartPolicy: Sometimes}]", "spec.initContainers[0].restartPolicy: Unsupported value"),
		podField("initContainers: [{name: i, image: ' v1'}]", "spec.initContainers[0].image: Invalid value"),

		podField("dnsPolicy: Other", "spec.dnsPolicy: Unsupported value"),
		podField("dnsPolicy: None", "spec.dnsConfig: Required value"),
		podField("dnsPolicy: None, dnsConfig: {}", "spec.dnsConfig.nameservers: Required value"),
		podField("dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.1]}", ""),
		podField("dnsConfig: {nameservers: [x]}", "spec.dnsConfig.nameservers[0]: Invalid value"),
		podField("dnsConfig: {nameservers: [10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4]}", "spec.dnsConfig.nameservers: Too many"),
		podField("dnsConfig: {searches: [a.b., ., _a.b]}", ""),
		podField("dnsConfig: {searches: [A B]}", "spec.dnsConfig.searches[0]: Invalid value"),
		podField("dnsConfig: {searches: ["+many+"]}", "spec.dnsConfig.searches: Too many"),
		podField("dnsConfig: {options: [{value: a}]}", "spec.dnsConfig.options[0]: Required value"),

		podField("securityContext: {runAsUser: -1}", "spec.securityContext.runAsUser: Invalid value: -1"),
		podField("securityContext: {runAsGroup: -1}", "spec.securityContext.runAsGroup: Invalid value: -1"),
		podField("securityContext: {fsGroup: 2147483648}", "spec.securityContext.fsGroup: Invalid value"),
		podField("securityContext: {supplementalGroups: [-1]}", "spec.securityContext.supplementalGroups[0]: Invalid value"),
		podField("securityContext: {fsGroupChangePolicy: Never}", "spec.securityContext.fsGroupChangePolicy: Unsupported value"),
		podField("securityContext: {sysctls: [{name: net.core.somaxconn, value: '1'}, {name: kernel/shm_rmid_forced, value: '1'}]}", ""),
		podField("securityContext: {sysctls: [{value: '1'}]}", "spec.securityContext.sysctls[0].name: Required value"),
		podField("securityContext: {sysctls: [{name: A.b, value: '1'}]}", "spec.securityContext.sysctls[0].name: Invalid value"),
		podField("securityContext: {sysctls: [{name: a.b, value: '1'}, {name: a.b, value: '2'}]}", "spec.securityContext.sysctls[1].name: Duplicate value"),
		podField("securityContext: {seccompProfile: {type: RuntimeDefault}}", ""),
		podField("securityContext: {seccompProfile: {type: Other}}", "spec.securityContext.seccompProfile.type: Unsupported value"),
		podField("securityContext: {seccompProfile: {type: Localhost}}", "spec.securityContext.seccompProfile.localhostProfile: Invalid value"),
		podField("securityContext: {seccompProfile: {type: RuntimeDefault, localhostProfile: a}}", "spec.securityContext.seccompProfile.localhostProfile: Invalid value"),
		podField("securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../a}}", "spec.securityContext.seccompProfile.localhostProfile: Invalid value"),
	})
}

func TestObjectChecksTheSchedulingOfPods(t *testing.T) {
	t.Parallel()
	toleration := func(text, want string) change { return podField("tolerations: [{"+text+"}]", want) }
	spread := func(text, want string) change { return podField("topologySpreadConstraints: ["+text+"]", want) }
	required := func(text, want string) change {
		return podField("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: ["+text+"]}}}", want)
	}
	nodes := func(text, want string) change { return required("{matchExpressions: [{"+text+"}]}", want) }
	preferred := func(text, want string) change {
		return podField("affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{"+text+"}]}}", want)
	}
	pods := func(kind, text, want string) change {
		return podField("affinity: {"+kind+": {requiredDuringSchedulingIgnoredDuringExecution: [{"+text+"}]}}", want)
	}
	const terms = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
	const podTerm = "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
	compare(t, &corev1.Pod{}, onePod, []change{
		toleration("operator: Exists", ""),
		toleration("key: a, operator: Equal, value: b, effect: NoSchedule", ""),
		toleration("key: a, effect: NoExecute, tolerationSeconds: 5", ""),
		toleration("key: a b", "spec.tolerations[0].key: Invalid value"),
		toleration("value: b", "spec.tolerations[0].operator: Invalid value"),
		toleration("key: a, operator: Exists, value: b", "spec.tolerations[0].operator: Invalid value"),
		toleration("key: a, operator: Is, value: b", "spec.tolerations[0].operator: Unsupported value"),
		toleration("key: a, value: b c", "spec.tolerations[0].value: Invalid value"),
		toleration("key: a, effect: Never", "spec.tolerations[0].effect: Unsupported value"),
		toleration("key: a, effect: NoSchedule, tolerationSeconds: 5", "spec.tolerations[0].effect: Invalid value"),

		spread("{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, minDomains: 2}", ""),
		spread("{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}", "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0"),
		spread("{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}", "spec.topologySpreadConstraints[0].topologyKey: Required value"),
		spread("{maxSkew: 1, topologyKey: z, whenUnsatisfiable: Never}", "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value"),
		spread("{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}", "spec.topologySpreadConstraints[0].minDomains: Invalid value"),
		spread("{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, minDomains: 0}", "spec.topologySpreadConstraints[0].minDomains: Invalid value: 0"),
		spread("{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a b: c}}}", "spec.topologySpreadConstraints[0].labelSelector.matchLabels: Invalid value"),
		spread("{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule}", "spec.topologySpreadConstraints[1]: Duplicate value"),
		spread("{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}", ""),

		required("", terms+": Required value"),
		nodes("key: a, operator: In, values: [b]", ""),
		nodes("key: a, operator: NotIn", terms+"[0].matchExpressions[0].values: Required value"),
		nodes("key: a, operator: Exists", ""),
		nodes("key: a, operator: DoesNotExist, values: [b]", terms+"[0].matchExpressions[0].values: Forbidden"),
		nodes("key: a, operator: Gt, values: ['5']", ""),
		nodes("key: a, operator: Lt, values: ['5', '6']", terms+"[0].matchExpressions[0].values: Required value"),
		nodes("key: a, operator: Is, values: [b]", terms+"[0].matchExpressions[0].operator: Invalid value"),
		nodes("key: a b, operator: Exists", terms+"[0].matchExpressions[0].key: Invalid value"),
		nodes("key: a, operator: In, values: [b c]", terms+"[0].matchExpressions[0].values[0]: Invalid value"),
		required("{matchFields: [{key: metadata.name, operator: In, values: [n]}]}", ""),
		required("{matchFields: [{key: metadata.uid, operator: In, values: [n]}]}", terms+"[0].matchFields[0].key: Unsupported value"),
		preferred("weight: 100, preference: {matchExpressions: [{key: a, operator: Exists}]}", ""),
		preferred("weight: 101, preference: {matchExpressions: [{key: a, operator: Exists}]}", "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101"),
		preferred("weight: 1, preference: {matchExpressions: [{key: a, operator: In}]}", "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Required value"),

		pods("podAffinity", "topologyKey: z, namespaces: [a], labelSelector: {matchLabels: {a: b}}", ""),
		pods("podAffinity", "labelSelector: {matchLabels: {a: b}}", podTerm+".topologyKey: Required value"),
		pods("podAffinity", "topologyKey: z z", podTerm+".topologyKey: Invalid value"),
		pods("podAffinity", "topologyKey: z, namespaces: [A_b]", podTerm+".namespaces[0]: Invalid value"),
		pods("podAffinity", "topologyKey: z, labelSelector: {matchLabels: {a b: c}}", podTerm+".labelSelector.matchLabels: Invalid value"),
		pods("podAffinity", "topologyKey: z, namespaceSelector: {matchLabels: {a b: c}}", podTerm+".namespaceSelector.matchLabels: Invalid value"),
		pods("podAntiAffinity", "topologyKey: ''", "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value"),
		podField("affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, podAffinityTerm: {topologyKey: z}}]}}", "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0"),
	})
}
