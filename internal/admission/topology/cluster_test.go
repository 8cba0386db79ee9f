// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestValidateCluster(t *testing.T) {
	t.Parallel()
	const ref = "{apiGroup: g, kind: K, name: n}"
	const endpointChanged = "spec.controlPlaneEndpoint: Forbidden: cannot change once it is set: it is a:1, which kubeconfigs and machines of the Cluster have; create another Cluster instead"
	builder.CheckValidation(t, ValidateCluster, map[string]builder.Validated{
		"another Cluster, and an ExtensionConfig": {Obj: "metadata: {name: c}\nspec: {controlPlaneRef: {apiGroup: cluster.x-k8s.io, kind: Cluster, name: n}, infrastructureRef: {apiGroup: runtime.cluster.x-k8s.io, kind: ExtensionConfig, name: n}}", Want: []string{
			`spec.infrastructureRef: Invalid value: "ExtensionConfig.runtime.cluster.x-k8s.io": group runtime.cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be the infrastructure of a Cluster`,
			`spec.controlPlaneRef: Invalid value: "Cluster.cluster.x-k8s.io": group cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be a control plane`}},
		"the same, stored already": {
			Obj: "metadata: {name: c}\nspec: {paused: true, infrastructureRef: {apiGroup: cluster.x-k8s.io, kind: Cluster, name: n}}",
			Old: "metadata: {name: c}\nspec: {infrastructureRef: {apiGroup: cluster.x-k8s.io, kind: Cluster, name: n}}"},
		"both references": {Obj: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + ", infrastructureRef: " + ref + ", clusterNetwork: {pods: {cidrBlocks: [10.0.0.0/8, 'fd00::/56']}}}"},
		"one reference":   {Obj: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + "}"},
		"no reference":    {Obj: "metadata: {name: c}", Want: []string{"spec.infrastructureRef: Required value: set infrastructureRef, controlPlaneRef or both"}},
		"a topology":      {Obj: "metadata: {name: c}\nspec: {topology: {classRef: {name: x}, version: v1.34.0}}"},
		"a name too long for a label": {Obj: "metadata: {name: abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijk}\nspec: {controlPlaneRef: " + ref + "}", Want: []string{
			`metadata.name: Invalid value: "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijk": is used as the value of a label: must be no more than 63 bytes`}},
		"rubbish for ranges": {Obj: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + ", clusterNetwork: {services: {cidrBlocks: [10.0.0.0/8, 10.0.0.1]}, pods: {cidrBlocks: [x]}}}", Want: []string{
			`spec.clusterNetwork.services.cidrBlocks[1]: Invalid value: "10.0.0.1": must be an address range such as 192.168.0.0/16 or fd00:10::/56`,
			`spec.clusterNetwork.pods.cidrBlocks[0]: Invalid value: "x": must be an address range such as 192.168.0.0/16 or fd00:10::/56`}},
		"a reference taken away": {
			Obj:  "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + "}",
			Old:  "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + ", infrastructureRef: " + ref + "}",
			Want: []string{"spec.infrastructureRef: Forbidden: cannot be removed; delete the Cluster to be rid of what it refers to"}},
		"a reference changed": {
			Obj: "metadata: {name: c}\nspec: {controlPlaneRef: {apiGroup: g, kind: K, name: other}}",
			Old: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + "}"},
		"an endpoint from the start":      {Obj: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: a, port: 1}, controlPlaneRef: " + ref + "}"},
		"an endpoint set":                 {Obj: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: a, port: 1}, controlPlaneRef: " + ref + "}", Old: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + "}"},
		"half an endpoint made whole":     {Obj: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: a, port: 2}, controlPlaneRef: " + ref + "}", Old: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {port: 1}, controlPlaneRef: " + ref + "}"},
		"an endpoint kept":                {Obj: "metadata: {name: c}\nspec: {paused: true, controlPlaneEndpoint: {host: a, port: 1}, controlPlaneRef: " + ref + "}", Old: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: a, port: 1}, controlPlaneRef: " + ref + "}"},
		"the host of an endpoint changed": {Obj: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: b, port: 1}, controlPlaneRef: " + ref + "}", Old: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: a, port: 1}, controlPlaneRef: " + ref + "}", Want: []string{endpointChanged}},
		"the port of an endpoint changed": {Obj: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: a, port: 2}, controlPlaneRef: " + ref + "}", Old: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: a, port: 1}, controlPlaneRef: " + ref + "}", Want: []string{endpointChanged}},
		"an endpoint taken away":          {Obj: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + "}", Old: "metadata: {name: c}\nspec: {controlPlaneEndpoint: {host: a, port: 1}, controlPlaneRef: " + ref + "}", Want: []string{endpointChanged}},
	})
}

func TestValidateTopology(t *testing.T) {
	t.Parallel()
	const meta = "metadata: {name: c}\n"
	cluster := func(rest string) string {
		return meta + "spec: {topology: {classRef: {name: x}, version: v1.34.0" + rest + "}}"
	}
	const plain = meta + "spec: {infrastructureRef: {apiGroup: g, kind: K, name: n}}"
	annotated := func(value, rest string) string {
		return "metadata: {name: c, annotations: {topology.cluster.x-k8s.io/upgrade-concurrency: '" + value + "'}}\nspec: {" + rest + "topology: {classRef: {name: x}, version: v1.34.0}}"
	}
	const concurrent = "metadata.annotations[topology.cluster.x-k8s.io/upgrade-concurrency]: Invalid value: "
	builder.CheckValidation(t, ValidateCluster, map[string]builder.Validated{
		"complete": {Obj: cluster(", controlPlane: {replicas: 3, metadata: {labels: {a: b}}, healthCheck: {checks: {nodeStartupTimeoutSeconds: 30}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 20%}}}}, workers: {machineDeployments: [{class: a, name: one}, {class: a, name: two}], machinePools: [{class: a, name: one}]}")},
		"no version": {Obj: meta + "spec: {topology: {classRef: {name: x}, version: v1.34}}", Want: []string{
			`spec.topology.version: Invalid value: "v1.34": must be a semantic version with a leading v, such as v1.34.1`}},
		"bad labels": {Obj: cluster(", controlPlane: {metadata: {labels: {a: 'b c'}}}"), Want: []string{
			`spec.topology.controlPlane.metadata.labels: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		"taints": {Obj: cluster(", controlPlane: {taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}, {key: node.kubernetes.io/x, effect: NoSchedule}]}, workers: {machineDeployments: [{class: a, name: one, taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]}], machinePools: [{class: a, name: one, taints: [{key: a, effect: NoSchedule}]}]}"), Want: []string{
			`spec.topology.controlPlane.taints[1].key: Invalid value: "node.kubernetes.io/x": is set and removed by Kubernetes or Cluster API; choose another key`,
			`spec.topology.workers.machineDeployments[one].taints[0].key: Invalid value: "node-role.kubernetes.io/control-plane": is for control plane machines; choose another key`,
			"spec.topology.workers.machinePools[one].taints: Forbidden: the provider of a pool makes its machines and knows nothing of taints; set them in the bootstrap config"}},
		"names": {Obj: cluster(", workers: {machineDeployments: [{class: a, name: one}, {class: b, name: one}, {class: a}], machinePools: [{class: a, name: 'a b'}]}"), Want: []string{
			`spec.topology.workers.machineDeployments[1].name: Duplicate value: "one"`,
			"spec.topology.workers.machineDeployments[2].name: Required value: name the group: what is made for it is called after it",
			`spec.topology.workers.machinePools[0].name: Invalid value: "a b": is used as the value of a label: a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		"a rollout that never ends": {Obj: cluster(", workers: {machineDeployments: [{class: a, name: one, rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}}}]}"), Want: []string{
			`spec.topology.workers.machineDeployments[one].rollout.strategy.rollingUpdate.maxUnavailable: Invalid value: "0": must not be 0 when maxSurge is 0: nothing could ever be replaced`}},
		"health checks": {Obj: cluster(", controlPlane: {healthCheck: {checks: {nodeStartupTimeoutSeconds: 3}, remediation: {templateRef: {apiVersion: cluster.x-k8s.io/v1beta2, kind: MachineTemplate, name: x}}}}, workers: {machineDeployments: [{class: a, name: one, healthCheck: {remediation: {maxInFlight: x}}}]}"), Want: []string{
			"spec.topology.controlPlane.healthCheck.checks.nodeStartupTimeoutSeconds: Invalid value: 3: must be 30 or more, or 0 for no limit",
			`spec.topology.controlPlane.healthCheck.remediation.templateRef: Invalid value: "MachineTemplate.cluster.x-k8s.io": group cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be a request to remediate a Machine`,
			`spec.topology.workers.machineDeployments[one].healthCheck.remediation.maxInFlight: Invalid value: "x": must be a number, or a percentage such as 20%`}},
		"what was stored stays editable": {
			Obj: meta + "spec: {paused: true, topology: {classRef: {name: x}, version: v1.34}}", Old: meta + "spec: {topology: {classRef: {name: x}, version: v1.34}}"},
		"concurrency":         {Obj: annotated("2", "")},
		"concurrency of none": {Obj: annotated("0", ""), Want: []string{concurrent + `"0": value cannot be less than 1`}},
		"concurrency of many": {Obj: annotated("many", ""), Old: annotated("2", ""), Want: []string{concurrent + `"many": must be a number: how many groups of workers are upgraded at once`}},
		"concurrency, stored": {Obj: annotated("many", "paused: true, "), Old: annotated("many", "")},
		"a topology removed": {Obj: plain, Old: meta + "spec: {infrastructureRef: {apiGroup: g, kind: K, name: n}, topology: {classRef: {name: x}, version: v1.34.0}}", Want: []string{
			"spec.topology: Forbidden: cannot be removed: the objects of the class would have no controller; delete the Cluster to remove them"}},
		"a topology added": {Obj: meta + "spec: {infrastructureRef: {apiGroup: g, kind: K, name: n}, topology: {classRef: {name: x}, version: v1.34.0}}", Old: plain, Want: []string{
			"spec.topology.classRef: Forbidden: cannot be set on a Cluster that is there already, unless annotation unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check says that its objects fit the class"}},
		"a topology added by who knows": {Obj: "metadata: {name: c, annotations: {unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check: ''}}\nspec: {infrastructureRef: {apiGroup: g, kind: K, name: n}, topology: {classRef: {name: x}, version: v1.34.0}}", Old: plain},
	})
}
