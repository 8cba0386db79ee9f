// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestObjectChecksContainers(t *testing.T) {
	t.Parallel()
	env := func(text, want string) change { return part("env: [{name: A, valueFrom: {"+text+"}}]", want) }
	const at = "spec.containers[0]."
	compare(t, &corev1.Pod{}, onePod, []change{
		{"name: c, ", "", at + "name: Required value"},
		part("imagePullPolicy: Sometimes", at+"imagePullPolicy: Unsupported value"),
		part("terminationMessagePolicy: None", at+"terminationMessagePolicy: Unsupported value"),

		part("ports: [{containerPort: 80, name: http}, {containerPort: 81}]", ""),
		part("ports: [{containerPort: 0}]", at+"ports[0].containerPort: Invalid value: 0"),
		part("ports: [{containerPort: 80, hostPort: 70000}]", at+"ports[0].hostPort: Invalid value: 70000"),
		part("ports: [{containerPort: 80, protocol: ICMP}]", at+"ports[0].protocol: Unsupported value"),
		part("ports: [{containerPort: 80, name: A_b}]", at+"ports[0].name: Invalid value"),
		part("ports: [{containerPort: 80, name: a}, {containerPort: 81, name: a}]", at+"ports[1].name: Duplicate value"),
		part("ports: [{containerPort: 80, hostPort: 1}, {containerPort: 81, hostPort: 1, protocol: UDP}]", ""),
		part("ports: [{containerPort: 80, hostPort: 1}, {containerPort: 81, hostPort: 1}]", "Duplicate value"),

		part("env: [{name: A-b.c, value: x}]", ""),
		part("env: [{value: x}]", at+"env[0].name: Required value"),
		part("env: [{name: a=b}]", at+"env[0].name: Invalid value"),
		env("", at+"env[0].valueFrom: Required value"),
		part("env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]", at+"env[0].valueFrom: Invalid value"),
		env("fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: a, key: b}", at+"env[0].valueFrom: Forbidden"),
		env("fieldRef: {fieldPath: status.podIP}", ""),
		env("fieldRef: {fieldPath: \"metadata.labels['example.com/a']\"}", ""),
		env("fieldRef: {fieldPath: ''}", at+"env[0].valueFrom.fieldRef.fieldPath: Required value"),
		env("fieldRef: {fieldPath: status.phase}", at+"env[0].valueFrom.fieldRef.fieldPath: Unsupported value"),
		env("fieldRef: {fieldPath: metadata.labels}", at+"env[0].valueFrom.fieldRef.fieldPath: Unsupported value"),
		env("fieldRef: {fieldPath: \"metadata.labels['a b']\"}", at+"env[0].valueFrom.fieldRef.fieldPath: Invalid value"),
		env("fieldRef: {fieldPath: \"metadata.name['a']\"}", at+"env[0].valueFrom.fieldRef.fieldPath: Invalid value"),
		env("fieldRef: {fieldPath: \"metadata.labels['a'\"}", at+"env[0].valueFrom.fieldRef.fieldPath: Invalid value"),
		env("resourceFieldRef: {resource: limits.cpu}", ""),
		env("resourceFieldRef: {resource: requests.hugepages-2Mi}", ""),
		env("resourceFieldRef: {resource: cpu}", at+"env[0].valueFrom.resourceFieldRef.resource: Unsupported value"),
		env("resourceFieldRef: {resource: limits.pods}", at+"env[0].valueFrom.resourceFieldRef.resource: Unsupported value"),
		env("resourceFieldRef: {resource: limits.requests.cpu}", at+"env[0].valueFrom.resourceFieldRef.resource: Unsupported value"),
		env("configMapKeyRef: {name: a, key: b.c}", ""),
		env("configMapKeyRef: {key: b}", at+"env[0].valueFrom.configMapKeyRef.name: Required value"),
		env("secretKeyRef: {name: a}", at+"env[0].valueFrom.secretKeyRef.key: Required value"),
		env("secretKeyRef: {name: A_b, key: c}", at+"env[0].valueFrom.secretKeyRef.name: Invalid value"),
		env("secretKeyRef: {name: a, key: b/c}", at+"env[0].valueFrom.secretKeyRef.key: Invalid value"),
		part("envFrom: [{prefix: A_, configMapRef: {name: a}}]", ""),
		part("envFrom: [{}]", at+"envFrom[0]: Required value"),
		part("envFrom: [{prefix: '=', secretRef: {name: a}}]", at+"envFrom[0].prefix: Invalid value"),
		part("envFrom: [{configMapRef: {}}]", at+"envFrom[0].configMapRef.name: Required value"),
		part("envFrom: [{secretRef: {name: A_b}}]", at+"envFrom[0].secretRef.name: Invalid value"),
		part("envFrom: [{secretRef: {name: a}, configMapRef: {name: a}}]", at+"envFrom[0]: Forbidden"),

		part("securityContext: {allowPrivilegeEscalation: false}", ""),
		part("securityContext: {allowPrivilegeEscalation: false, privileged: true}", at+"securityContext: Invalid value"),
		part("securityContext: {allowPrivilegeEscalation: false, capabilities: {add: [CAP_SYS_ADMIN]}}", at+"securityContext: Invalid value"),
		part("securityContext: {runAsUser: -1}", at+"securityContext.runAsUser: Invalid value: -1"),
		part("securityContext: {procMount: Other}", at+"securityContext.procMount: Unsupported value"),
		part("securityContext: {seccompProfile: {type: Localhost}}", at+"securityContext.seccompProfile.localhostProfile"),
	})
}

func TestObjectChecksProbesAndHooks(t *testing.T) {
	t.Parallel()
	probe := func(kind, text, want string) change { return part(kind+": {"+text+"}", want) }
	hook := func(text, want string) change { return part("lifecycle: {preStop: {"+text+"}}", want) }
	const at = "spec.containers[0]."
	compare(t, &corev1.Pod{}, onePod, []change{
		probe("livenessProbe", "exec: {command: [a]}, initialDelaySeconds: 0, terminationGracePeriodSeconds: 1", ""),
		probe("livenessProbe", "periodSeconds: 1", at+"livenessProbe: Required value"),
		probe("livenessProbe", "exec: {command: [a]}, tcpSocket: {port: 1}", at+"livenessProbe: Forbidden"),
		probe("livenessProbe", "exec: {}", at+"livenessProbe.exec.command: Required value"),
		probe("livenessProbe", "exec: {command: [a]}, successThreshold: 2", at+"livenessProbe.successThreshold: Invalid value: 2"),
		probe("livenessProbe", "exec: {command: [a]}, terminationGracePeriodSeconds: 0", at+"livenessProbe.terminationGracePeriodSeconds: Invalid value: 0"),
		probe("startupProbe", "exec: {command: [a]}, successThreshold: 2", at+"startupProbe.successThreshold: Invalid value: 2"),
		probe("readinessProbe", "exec: {command: [a]}, successThreshold: 2", ""),
		probe("readinessProbe", "exec: {command: [a]}, terminationGracePeriodSeconds: 1", at+"readinessProbe.terminationGracePeriodSeconds: Invalid value: 1"),
		probe("readinessProbe", "exec: {command: [a]}, initialDelaySeconds: -1", at+"readinessProbe.initialDelaySeconds: Invalid value: -1"),
		probe("readinessProbe", "exec: {command: [a]}, timeoutSeconds: -1", at+"readinessProbe.timeoutSeconds: Invalid value: -1"),
		probe("readinessProbe", "exec: {command: [a]}, periodSeconds: -1", at+"readinessProbe.periodSeconds: Invalid value: -1"),
		probe("readinessProbe", "exec: {command: [a]}, failureThreshold: -1", at+"readinessProbe.failureThreshold: Invalid value: -1"),
		probe("readinessProbe", "grpc: {port: 0}", at+"readinessProbe.grpc.port: Invalid value: 0"),
		probe("readinessProbe", "tcpSocket: {port: 0}", at+"readinessProbe.tcpSocket.port: Invalid value"),
		probe("readinessProbe", "tcpSocket: {port: http}", ""),
		probe("readinessProbe", "tcpSocket: {port: A_b}", at+"readinessProbe.tcpSocket.port: Invalid value"),
		probe("readinessProbe", "httpGet: {port: 80, scheme: HTTPS, httpHeaders: [{name: X-A, value: b}]}", ""),
		probe("readinessProbe", "httpGet: {port: 70000}", at+"readinessProbe.httpGet.port: Invalid value"),
		probe("readinessProbe", "httpGet: {port: 80, scheme: FTP}", at+"readinessProbe.httpGet.scheme: Unsupported value"),
		probe("readinessProbe", "httpGet: {port: 80, httpHeaders: [{name: 'X A', value: b}]}", at+"readinessProbe.httpGet.httpHeaders[0].name: Invalid value"),
		hook("exec: {command: [a]}", ""),
		hook("", at+"lifecycle.preStop: Required value"),
		hook("exec: {}", at+"lifecycle.preStop.exec.command: Required value"),
		hook("exec: {command: [a]}, httpGet: {port: 1}", at+"lifecycle.preStop: Forbidden"),
		part("lifecycle: {postStart: {httpGet: {port: 0}}}", at+"lifecycle.postStart.httpGet.port: Invalid value"),
	})
}

func TestObjectChecksResources(t *testing.T) {
	t.Parallel()
	resources := func(text, want string) change { return part("resources: {"+text+"}", want) }
	const at = "spec.containers[0].resources."
	compare(t, &corev1.Pod{}, onePod, []change{
		resources("limits: {cpu: 500m, memory: 1Gi, ephemeral-storage: 1Gi, hugepages-2Mi: 2Mi, example.com/gpu: 1}", ""),
		resources("limits: {disk: 1}", at+"limits[disk]: Invalid value"),
		resources("limits: {a b: 1}", at+"limits[a b]: Invalid value"),
		resources("limits: {requests.example.com/gpu: 1}", at+"limits[requests.example.com/gpu]: Invalid value"),
		resources("limits: {cpu: -1}", at+"limits[cpu]: Invalid value"),
		resources("limits: {example.com/gpu: 500m}", at+"limits[example.com/gpu]: Invalid value"),
		resources("limits: {cpu: 1}, requests: {cpu: 2}", at+"requests[cpu]: Invalid value"),
		resources("requests: {cpu: 2}", ""),
		resources("requests: {example.com/gpu: 1}", at+"requests[example.com/gpu]: Invalid value"),
		resources("limits: {example.com/gpu: 2}, requests: {example.com/gpu: 1}", at+"requests[example.com/gpu]: Invalid value"),
		resources("limits: {hugepages-2Mi: 4Mi}, requests: {hugepages-2Mi: 2Mi}", at+"requests[hugepages-2Mi]: Invalid value"),
	})
}
