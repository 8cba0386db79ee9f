// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
)

func TestClusterIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, cluster(), map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: "{}"},
		"a paused one without networks": {
			From: "spec: {paused: true, controlPlaneEndpoint: {host: fd00::1, port: 6443}}",
			Want: "spec: {paused: true, controlPlaneEndpoint: {host: fd00::1, port: 6443}}",
		},
		"networks": {
			From: "spec: {clusterNetwork: {apiServerPort: 8443, serviceDomain: x, services: {cidrBlocks: [10.96.0.0/16, fd00::/108]}, pods: {cidrBlocks: [10.244.0.0/16]}}}",
			Want: "spec: {clusterNetwork: {apiServerPort: 8443, serviceDomain: x, services: {cidrBlocks: [10.96.0.0/16, fd00::/108]}, pods: {cidrBlocks: [10.244.0.0/16]}}}",
		},
		"an empty list of networks is not none": {
			From: "spec: {clusterNetwork: {pods: {cidrBlocks: []}}}",
			Want: "spec: {clusterNetwork: {pods: {cidrBlocks: []}}}",
		},
		"references": {
			From: `
spec:
  controlPlaneRef: {apiVersion: cp.io/v1beta2, kind: Brain, name: b, namespace: ns}
  infrastructureRef: {apiVersion: infra.io/v1beta2, kind: Net, name: o, namespace: ns}`,
			Want: `
spec:
  controlPlaneRef: {apiGroup: cp.io, kind: Brain, name: b}
  infrastructureRef: {apiGroup: infra.io, kind: Net, name: o}`,
		},
		"gates": {
			From: "spec: {availabilityGates: [{conditionType: a}, {conditionType: b, polarity: Negative}]}",
			Want: "spec: {availabilityGates: [{conditionType: a}, {conditionType: b, polarity: Negative}]}",
		},
		"no gates, explicitly": {From: "spec: {availabilityGates: []}", Want: "spec: {availabilityGates: []}"},
		"failure domains in the order of their names": {
			From: "status: {failureDomains: {b: {controlPlane: true}, a: {attributes: {k: v}}, c: {attributes: {}}}}",
			Want: "status: {failureDomains: [{name: a, controlPlane: false, attributes: {k: v}}, {name: b, controlPlane: true}, {name: c, controlPlane: false, attributes: {}}]}",
		},
		"no failure domains, explicitly": {From: "status: {failureDomains: {}}", Want: "status: {failureDomains: []}"},
		"what is initialized": {
			From: "status: {infrastructureReady: true, controlPlaneReady: true, phase: Provisioned, observedGeneration: 9007199254740993}",
			Want: "status: {initialization: {infrastructureProvisioned: true, controlPlaneInitialized: true}, phase: Provisioned, observedGeneration: 9007199254740993}",
		},
		"conditions of both versions": {
			From: `
status:
  failureReason: R
  failureMessage: m
  conditions: [{type: Ready, status: "False", severity: Warning, reason: A, message: a, lastTransitionTime: "2026-01-02T03:04:05Z"}]
  v1beta2:
    conditions: [{type: Available, status: "True", reason: B, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]`,
			Want: `
status:
  conditions: [{type: Available, status: "True", reason: B, message: "", lastTransitionTime: "2026-01-02T03:04:05Z"}]
  deprecated:
    v1beta1:
      failureReason: R
      failureMessage: m
      conditions: [{type: Ready, status: "False", severity: Warning, reason: A, message: a, lastTransitionTime: "2026-01-02T03:04:05Z"}]`,
		},
		"counters": {
			From: "status: {v1beta2: {controlPlane: {desiredReplicas: 3, readyReplicas: 0, upgradePlan: [{version: v1.36.0}]}, workers: {replicas: 2, versions: [{version: v1.36.0, replicas: 2}]}}}",
			Want: "status: {controlPlane: {desiredReplicas: 3, readyReplicas: 0, upgradePlan: [{version: v1.36.0}]}, workers: {replicas: 2, versions: [{version: v1.36.0, replicas: 2}]}}",
		},
		"an empty reason of a failure": {
			From: `status: {failureReason: ""}`,
			Want: `status: {deprecated: {v1beta1: {failureReason: ""}}}`,
		},
	})
}

func TestClusterUpDropsWhatHubLacks(t *testing.T) {
	t.Parallel()
	conversiontests.Up(t, cluster(), map[string]conversiontests.Case{
		"a false that was unset":         {From: "spec: {paused: false}", Want: "{}"},
		"a false that was false":         {From: "spec: {paused: false}", Kept: "spec: {paused: false}", Want: "spec: {paused: false}"},
		"a false that was true":          {From: "spec: {paused: false}", Kept: "spec: {paused: true}", Want: "{}"},
		"a true that was false":          {From: "spec: {paused: true}", Kept: "spec: {paused: false}", Want: "spec: {paused: true}"},
		"what only the annotation has":   {From: "{}", Kept: "spec: {controlPlaneEndpoint: {host: old}, topology: {version: v1}}\nstatus: {phase: Old}", Want: "{}"},
		"an annotation of a later field": {From: "spec: {paused: false}", Kept: "spec: {paused: false, later: [1]}", Want: "spec: {paused: false}"},
		"an annotation in other case":    {From: "spec: {paused: false}", Kept: "spec: {PAUSED: false}", Want: "{}"},
		"not ready, and it was false": {
			From: "status: {infrastructureReady: false, controlPlaneReady: false}", Kept: "status: {initialization: {infrastructureProvisioned: false, controlPlaneInitialized: true}}",
			Want: "status: {initialization: {infrastructureProvisioned: false}}",
		},
		"a port of zero": {From: "spec: {clusterNetwork: {apiServerPort: 0, services: {cidrBlocks: null}}}", Want: "{}"},
		"a reference by another version and namespace": {
			From: "spec: {infrastructureRef: {apiVersion: infra.io/v1alpha1, kind: Net, name: o, namespace: elsewhere, uid: u, resourceVersion: '1', fieldPath: x}}",
			Want: "spec: {infrastructureRef: {apiGroup: infra.io, kind: Net, name: o}}",
		},
		"a reference without a version": {From: "spec: {controlPlaneRef: {kind: Brain, name: b}}", Want: "spec: {controlPlaneRef: {kind: Brain, name: b}}"},
		"a reference of the core group": {From: "spec: {controlPlaneRef: {apiVersion: v1, kind: Pod, name: b}}", Want: "spec: {controlPlaneRef: {kind: Pod, name: b}}"},
		"an empty reference":            {From: "spec: {controlPlaneRef: {}}", Want: "{}"},
		"empty parts of a status":       {From: "status: {v1beta2: {}}", Want: "{}"},
		"sources of variables": {
			From: "spec: {topology: {class: c, version: v1, rolloutAfter: \"2026-01-02T03:04:05Z\", variables: [{name: a, value: 1, definitionFrom: p}]}}",
			Want: "spec: {topology: {classRef: {name: c}, version: v1, variables: [{name: a, value: 1}]}}",
		},
	})
	conversiontests.Down(t, cluster(), map[string]conversiontests.Case{
		"the last of two domains": {
			From: "status: {failureDomains: [{name: a, controlPlane: true}, {name: a, controlPlane: false, attributes: {x: z}}]}",
			Want: "status: {failureDomains: {a: {attributes: {x: z}}}}",
		},
		"a domain of no kind":       {From: "status: {failureDomains: [{name: a}]}", Want: "status: {failureDomains: {a: {}}}"},
		"false values":              {From: "spec: {paused: false}\nstatus: {initialization: {infrastructureProvisioned: false}}", Want: "{}"},
		"an empty deprecated part":  {From: "status: {deprecated: {v1beta1: {}}}", Want: "{}"},
		"a deprecated part of none": {From: "status: {deprecated: {}}", Want: "{}"},
	})
}

func TestTopologyIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, cluster(), map[string]conversiontests.Case{
		"a class of another namespace": {
			From: "spec: {topology: {class: c, classNamespace: classes, version: v1.36.0}}",
			Want: "spec: {topology: {classRef: {name: c, namespace: classes}, version: v1.36.0}}",
		},
		"a control plane": {
			From: `
spec:
  topology:
    class: c
    version: v1
    controlPlane:
      metadata: {labels: {a: b}, annotations: {}}
      replicas: 0
      rollout: {after: "2026-01-02T03:04:05Z"}
      nodeDrainTimeout: 10m0s
      nodeVolumeDetachTimeout: 0s
      nodeDeletionTimeout: -1s
      taints: [{key: k, effect: NoSchedule, propagation: Always}]
      readinessGates: [{conditionType: g}]
      variables: {overrides: [{name: v, value: {a: [1, null]}}]}
      machineHealthCheck:
        enable: false
        nodeStartupTimeout: 1h0m0s
        maxUnhealthy: 40%
        unhealthyRange: "[1-2]"
        unhealthyConditions: [{type: Ready, status: Unknown, timeout: 5m0s}]
        unhealthyMachineConditions: [{type: X, status: "False", timeout: 0s}]
        remediationTemplate: {apiVersion: r.io/v1, kind: Repair, name: r, namespace: ns}`,
			Want: `
spec:
  topology:
    classRef: {name: c}
    version: v1
    controlPlane:
      metadata: {labels: {a: b}, annotations: {}}
      replicas: 0
      rollout: {after: "2026-01-02T03:04:05Z"}
      deletion: {nodeDrainTimeoutSeconds: 600, nodeVolumeDetachTimeoutSeconds: 0, nodeDeletionTimeoutSeconds: -1}
      taints: [{key: k, effect: NoSchedule, propagation: Always}]
      readinessGates: [{conditionType: g}]
      variables: {overrides: [{name: v, value: {a: [1, null]}}]}
      healthCheck:
        enabled: false
        checks:
          nodeStartupTimeoutSeconds: 3600
          unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 300}]
          unhealthyMachineConditions: [{type: X, status: "False", timeoutSeconds: 0}]
        remediation:
          triggerIf: {unhealthyLessThanOrEqualTo: 40%, unhealthyInRange: "[1-2]"}
          templateRef: {apiVersion: r.io/v1, kind: Repair, name: r}`,
		},
		"groups of workers": {
			From: `
spec:
  topology:
    class: c
    version: v1
    workers:
      machineDeployments:
      - class: w
        name: md
        failureDomain: a
        replicas: 3
        minReadySeconds: 0
        nodeDrainTimeout: 1s
        rollout: {after: "2026-01-02T03:04:05Z"}
        strategy:
          type: RollingUpdate
          rollingUpdate: {maxSurge: 1, maxUnavailable: 20%, deletePolicy: Oldest}
          remediation: {maxInFlight: 1}
        machineHealthCheck: {enable: true, maxUnhealthy: 1}
        variables: {overrides: []}
      - {class: w, name: plain}
      machinePools:
      - {class: p, name: mp, failureDomains: [a, b], replicas: 0, minReadySeconds: 5, nodeDeletionTimeout: 2s, taints: [{key: k, effect: NoExecute, propagation: OnInitialization}]}`,
			Want: `
spec:
  topology:
    classRef: {name: c}
    version: v1
    workers:
      machineDeployments:
      - class: w
        name: md
        failureDomain: a
        replicas: 3
        minReadySeconds: 0
        deletion: {order: Oldest, nodeDrainTimeoutSeconds: 1}
        rollout:
          after: "2026-01-02T03:04:05Z"
          strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 20%}}
        healthCheck:
          enabled: true
          remediation: {maxInFlight: 1, triggerIf: {unhealthyLessThanOrEqualTo: 1}}
        variables: {overrides: []}
      - {class: w, name: plain}
      machinePools:
      - {class: p, name: mp, failureDomains: [a, b], replicas: 0, minReadySeconds: 5, deletion: {nodeDeletionTimeoutSeconds: 2}, taints: [{key: k, effect: NoExecute, propagation: OnInitialization}]}`,
		},
		"no groups, explicitly": {
			From: "spec: {topology: {class: c, version: v1, workers: {machineDeployments: [], machinePools: []}, variables: []}}",
			Want: "spec: {topology: {classRef: {name: c}, version: v1, workers: {machineDeployments: [], machinePools: []}, variables: []}}",
		},
	})
	conversiontests.Up(t, cluster(), map[string]conversiontests.Case{
		"fractions of seconds": {
			From: "spec: {topology: {class: c, version: v1, controlPlane: {nodeDrainTimeout: 1.999s, nodeDeletionTimeout: -0.5s, nodeVolumeDetachTimeout: 1000000h}}}",
			Want: "spec: {topology: {classRef: {name: c}, version: v1, controlPlane: {deletion: {nodeDrainTimeoutSeconds: 1, nodeDeletionTimeoutSeconds: 0, nodeVolumeDetachTimeoutSeconds: 2147483647}}}}",
		},
		"empty parts": {
			From: "spec: {topology: {class: c, version: v1, workers: {}, controlPlane: {variables: {}, machineHealthCheck: {}}}}",
			Want: "spec: {topology: {classRef: {name: c}, version: v1}}",
		},
	})
	conversiontests.Down(t, cluster(), map[string]conversiontests.Case{
		"a limit of replacements needs no health check": {
			From: "spec: {topology: {version: v1, workers: {machineDeployments: [{name: md, healthCheck: {remediation: {maxInFlight: 0}}}]}}}",
			Want: "spec: {topology: {version: v1, workers: {machineDeployments: [{name: md, strategy: {remediation: {maxInFlight: 0}}}]}}}",
		},
		"an order of deletion needs a strategy": {
			From: "spec: {topology: {version: v1, workers: {machineDeployments: [{name: md, deletion: {order: Random}}]}}}",
			Want: "spec: {topology: {version: v1, workers: {machineDeployments: [{name: md, strategy: {rollingUpdate: {deletePolicy: Random}}}]}}}",
		},
	})
}
