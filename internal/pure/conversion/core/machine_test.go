// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
)

func TestMachineIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, machine(), map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: "{}"},
		"a spec": {
			From: `
spec:
  clusterName: c
  bootstrap:
    configRef: {apiVersion: boot.io/v1beta2, kind: Config, name: b, namespace: ns}
    dataSecretName: ""
  infrastructureRef: {apiVersion: infra.io/v1beta2, kind: Host, name: h, namespace: ns}
  version: v1.36.0
  providerID: x://1
  failureDomain: a
  readinessGates: []
  nodeDrainTimeout: 0s
  nodeVolumeDetachTimeout: 596523h14m7s
  nodeDeletionTimeout: -596523h14m8s
  taints: [{key: k, value: v, effect: NoSchedule, propagation: Always}]`,
			Want: `
spec:
  clusterName: c
  bootstrap:
    configRef: {apiGroup: boot.io, kind: Config, name: b}
    dataSecretName: ""
  infrastructureRef: {apiGroup: infra.io, kind: Host, name: h}
  version: v1.36.0
  providerID: x://1
  failureDomain: a
  readinessGates: []
  deletion: {nodeDrainTimeoutSeconds: 0, nodeVolumeDetachTimeoutSeconds: 2147483647, nodeDeletionTimeoutSeconds: -2147483648}
  taints: [{key: k, value: v, effect: NoSchedule, propagation: Always}]`,
		},
		"a status": {
			From: `
status:
  nodeRef: {apiVersion: v1, kind: Node, name: o}
  nodeInfo: {kubeletVersion: v1.36.0}
  lastUpdated: "2026-01-02T03:04:05Z"
  certificatesExpiryDate: "2027-01-02T03:04:05Z"
  addresses: [{type: InternalIP, address: 10.0.0.1}, {type: Hostname, address: ""}]
  phase: Running
  bootstrapReady: true
  infrastructureReady: true
  observedGeneration: -1
  deletion: {nodeDrainStartTime: "2026-01-02T03:04:05Z", waitForPreTerminateHookStartTime: "2026-01-02T03:04:06Z"}
  failureMessage: m
  conditions: []
  v1beta2: {conditions: []}`,
			Want: `
status:
  nodeRef: {name: o}
  nodeInfo: {kubeletVersion: v1.36.0}
  lastUpdated: "2026-01-02T03:04:05Z"
  certificatesExpiryDate: "2027-01-02T03:04:05Z"
  addresses: [{type: InternalIP, address: 10.0.0.1}, {type: Hostname, address: ""}]
  phase: Running
  initialization: {bootstrapDataSecretCreated: true, infrastructureProvisioned: true}
  observedGeneration: -1
  deletion: {nodeDrainStartTime: "2026-01-02T03:04:05Z", waitForPreTerminateHookStartTime: "2026-01-02T03:04:06Z"}
  conditions: []
  deprecated: {v1beta1: {failureMessage: m, conditions: []}}`,
		},
		"a deletion of which nothing has started": {From: "status: {deletion: {}, addresses: []}", Want: "status: {deletion: {}, addresses: []}"},
	})
}

// TestMachineUpRestoresFromAnnotation: the phase and the failure domain of a status are
// not of v1beta1, so no client has changed them there.
func TestMachineUpRestoresFromAnnotation(t *testing.T) {
	t.Parallel()
	conversiontests.Up(t, machine(), map[string]conversiontests.Case{
		"a phase of v1beta1 alone": {From: "status: {phase: Provisioned}", Want: "status: {phase: Provisioned}"},
		"the phase of the hub":     {From: "status: {phase: Running}", Kept: "status: {phase: Updating, failureDomain: a}", Want: "status: {phase: Updating, failureDomain: a}"},
		"an annotation without":    {From: "status: {phase: Running}", Kept: "{}", Want: "{}"},
		"seconds of readiness":     {From: "{}", Kept: "spec: {minReadySeconds: 0}", Want: "spec: {minReadySeconds: 0}"},
		"a failure domain in spec": {From: "{}", Kept: "spec: {failureDomain: a}", Want: "{}"},
		"ready again":              {From: "status: {bootstrapReady: true}", Kept: "status: {initialization: {bootstrapDataSecretCreated: false, infrastructureProvisioned: false}}", Want: "status: {initialization: {bootstrapDataSecretCreated: true, infrastructureProvisioned: false}}"},
		"a Node of any kind":       {From: "status: {nodeRef: {kind: Other, name: o, namespace: x, uid: u}}", Want: "status: {nodeRef: {name: o}}"},
		"zero times":               {From: "status: {lastUpdated: null, deletion: {nodeDrainStartTime: null}}", Want: "status: {deletion: {}}"},
		"texts without content":    {From: `spec: {version: "", providerID: "", failureDomain: ""}`, Want: "{}"},
	})
	conversiontests.Down(t, machine(), map[string]conversiontests.Case{
		"a phase that v1beta1 lacks": {From: "status: {phase: Updating}", Want: "status: {phase: Running}"},
		"fields that it lacks":       {From: "spec: {minReadySeconds: 7}\nstatus: {failureDomain: a}", Want: "{}"},
		"a reference without a name": {From: "spec: {infrastructureRef: {kind: Host}}", Want: "spec: {infrastructureRef: {apiVersion: v1beta2, kind: Host, namespace: ns}}"},
	})
}

func TestMachineHealthCheckIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, machineHealthCheck(), map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: "{}"},
		"all of it": {
			From: `
spec:
  clusterName: c
  selector: {matchLabels: {a: b}, matchExpressions: []}
  nodeStartupTimeout: 10m0s
  maxUnhealthy: 100%
  unhealthyRange: "[3-5]"
  unhealthyConditions: [{type: Ready, status: "False", timeout: 5m0s}, {type: Ready, status: Unknown, timeout: 0s}]
  unhealthyMachineConditions: [{type: X, status: "True", timeout: 1s}]
  remediationTemplate: {apiVersion: r.io/v1alpha1, kind: Repair, name: r, namespace: ns}
status:
  expectedMachines: 3
  currentHealthy: -1
  remediationsAllowed: 2147483647
  observedGeneration: 1
  targets: [a, a]
  conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]
  v1beta2: {conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]}`,
			Want: `
spec:
  clusterName: c
  selector: {matchLabels: {a: b}, matchExpressions: []}
  checks:
    nodeStartupTimeoutSeconds: 600
    unhealthyNodeConditions: [{type: Ready, status: "False", timeoutSeconds: 300}, {type: Ready, status: Unknown, timeoutSeconds: 0}]
    unhealthyMachineConditions: [{type: X, status: "True", timeoutSeconds: 1}]
  remediation:
    triggerIf: {unhealthyLessThanOrEqualTo: 100%, unhealthyInRange: "[3-5]"}
    templateRef: {apiVersion: r.io/v1alpha1, kind: Repair, name: r}
status:
  expectedMachines: 3
  currentHealthy: -1
  remediationsAllowed: 2147483647
  observedGeneration: 1
  targets: [a, a]
  conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]
  deprecated: {v1beta1: {conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]}}`,
		},
	})
	conversiontests.Up(t, machineHealthCheck(), map[string]conversiontests.Case{
		"counters of zero":         {From: "status: {expectedMachines: 0, currentHealthy: 0, remediationsAllowed: 0}", Want: "{}"},
		"counters that were zero":  {From: "status: {expectedMachines: 0, currentHealthy: 1}", Kept: "status: {expectedMachines: 0, currentHealthy: 0, remediationsAllowed: 0}", Want: "status: {expectedMachines: 0, currentHealthy: 1, remediationsAllowed: 0}"},
		"counters that were more":  {From: "status: {expectedMachines: 0}", Kept: "status: {expectedMachines: 2}", Want: "{}"},
		"a limit of the text":      {From: `spec: {maxUnhealthy: "", unhealthyRange: ""}`, Want: `spec: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: ""}}}`},
		"lists that are rebuilt":   {From: "spec: {unhealthyConditions: [], unhealthyMachineConditions: []}", Want: "{}"},
		"a template without parts": {From: "spec: {remediationTemplate: {}}", Want: "{}"},
		"part of a second":         {From: "spec: {unhealthyConditions: [{timeout: 900ms}]}", Want: "spec: {checks: {unhealthyNodeConditions: [{timeoutSeconds: 0}]}}"},
	})
	conversiontests.Down(t, machineHealthCheck(), map[string]conversiontests.Case{
		"lists that are rebuilt":     {From: "spec: {checks: {unhealthyNodeConditions: [], unhealthyMachineConditions: []}}", Want: "{}"},
		"a condition of no duration": {From: "spec: {checks: {unhealthyNodeConditions: [{type: Ready}]}}", Want: "spec: {unhealthyConditions: [{type: Ready, timeout: 0s}]}"},
	})
}

func TestDrainRuleIsTheSameInBothVersions(t *testing.T) {
	t.Parallel()
	const rule = `
spec:
  drain: {behavior: Drain, order: 0}
  machines: [{selector: {}, clusterSelector: {matchLabels: {a: b}}}]
  pods: [{namespaceSelector: {matchExpressions: [{key: a, operator: Exists}]}}, {}]`
	conversiontests.Both(t, machineDrainRule(), map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: "{}"}, "all of it": {From: rule, Want: rule}, "empty lists": {From: "spec: {machines: [], pods: []}", Want: "spec: {machines: [], pods: []}"},
	})
}
