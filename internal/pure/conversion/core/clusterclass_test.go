// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
)

// bare are the parts of a class that v1beta1 always has: references to templates.
const bare = `
spec:
  infrastructure: {ref: {namespace: ns}}
  controlPlane: {ref: {namespace: ns}}
`

func TestClusterClassIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, clusterClass(), map[string]conversiontests.Case{
		"nothing": {From: bare, Want: "{}"},
		"templates by their versions": {
			From: `
spec:
  infrastructure: {ref: {apiVersion: infra.io/v1alpha7, kind: NetTemplate, name: o, namespace: ns}}
  infrastructureNamingStrategy: {template: "{{ .cluster.name }}"}
  controlPlane:
    ref: {apiVersion: cp.io/v1beta1, kind: BrainTemplate, name: b, namespace: ns}
    machineInfrastructure: {ref: {apiVersion: infra.io/v1, kind: HostTemplate, name: h, namespace: ns}}
    namingStrategy: {template: x}
    metadata: {labels: {}, annotations: {a: b}}
    nodeDrainTimeout: 1m0s
    readinessGates: [{conditionType: g, polarity: Positive}]
    taints: []
    machineHealthCheck: {nodeStartupTimeout: 0s, maxUnhealthy: 0}`,
			Want: `
spec:
  infrastructure:
    templateRef: {apiVersion: infra.io/v1alpha7, kind: NetTemplate, name: o}
    naming: {template: "{{ .cluster.name }}"}
  controlPlane:
    templateRef: {apiVersion: cp.io/v1beta1, kind: BrainTemplate, name: b}
    machineInfrastructure: {templateRef: {apiVersion: infra.io/v1, kind: HostTemplate, name: h}}
    naming: {template: x}
    metadata: {labels: {}, annotations: {a: b}}
    deletion: {nodeDrainTimeoutSeconds: 60}
    readinessGates: [{conditionType: g, polarity: Positive}]
    taints: []
    healthCheck: {checks: {nodeStartupTimeoutSeconds: 0}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 0}}}`,
		},
		"classes of workers": {
			From: bare + `
  kubernetesVersions: [v1.35.0, v1.36.0]
  availabilityGates: [{conditionType: g}]
  upgrade: {external: {generateUpgradePlanExtension: e}}
  workers:
    machineDeployments:
    - class: md
      template:
        metadata: {labels: {a: b}}
        bootstrap: {ref: {apiVersion: boot.io/v1, kind: ConfigTemplate, name: c, namespace: ns}}
        infrastructure: {ref: {apiVersion: infra.io/v1, kind: HostTemplate, name: h, namespace: ns}}
      failureDomain: z
      namingStrategy: {template: t}
      minReadySeconds: 0
      strategy: {type: OnDelete, rollingUpdate: {deletePolicy: Newest}, remediation: {maxInFlight: 50%}}
      machineHealthCheck: {unhealthyRange: "[0-1]"}
    machinePools:
    - class: mp
      template:
        bootstrap: {ref: {apiVersion: boot.io/v1, kind: ConfigTemplate, name: c, namespace: ns}}
        infrastructure: {ref: {apiVersion: infra.io/v1, kind: PoolTemplate, name: p, namespace: ns}}
      failureDomains: []
      nodeVolumeDetachTimeout: 3s`,
			Want: `
spec:
  kubernetesVersions: [v1.35.0, v1.36.0]
  availabilityGates: [{conditionType: g}]
  upgrade: {external: {generateUpgradePlanExtension: e}}
  workers:
    machineDeployments:
    - class: md
      metadata: {labels: {a: b}}
      bootstrap: {templateRef: {apiVersion: boot.io/v1, kind: ConfigTemplate, name: c}}
      infrastructure: {templateRef: {apiVersion: infra.io/v1, kind: HostTemplate, name: h}}
      failureDomain: z
      naming: {template: t}
      minReadySeconds: 0
      rollout: {strategy: {type: OnDelete}}
      deletion: {order: Newest}
      healthCheck: {remediation: {maxInFlight: 50%, triggerIf: {unhealthyInRange: "[0-1]"}}}
    machinePools:
    - class: mp
      bootstrap: {templateRef: {apiVersion: boot.io/v1, kind: ConfigTemplate, name: c}}
      infrastructure: {templateRef: {apiVersion: infra.io/v1, kind: PoolTemplate, name: p}}
      failureDomains: []
      deletion: {nodeVolumeDetachTimeoutSeconds: 3}`,
		},
		"patches": {
			From: bare + `
  patches:
  - name: inline
    description: d
    enabledIf: "{{ .on }}"
    definitions:
    - selector:
        apiVersion: infra.io/v1
        kind: HostTemplate
        matchResources: {controlPlane: true, infrastructureCluster: true, machineDeploymentClass: {names: [a]}, machinePoolClass: {names: []}}
      jsonPatches:
      - {op: add, path: /a, value: {x: null}}
      - {op: add, path: /b, valueFrom: {variable: v}}
      - {op: remove, path: /c, valueFrom: {template: t}}
  - name: external
    external: {generateExtension: g, validateExtension: v, discoverVariablesExtension: d, settings: {}}`,
			Want: `
spec:
  patches:
  - name: inline
    description: d
    enabledIf: "{{ .on }}"
    definitions:
    - selector:
        apiVersion: infra.io/v1
        kind: HostTemplate
        matchResources: {controlPlane: true, infrastructureCluster: true, machineDeploymentClass: {names: [a]}, machinePoolClass: {names: []}}
      jsonPatches:
      - {op: add, path: /a, value: {x: null}}
      - {op: add, path: /b, valueFrom: {variable: v}}
      - {op: remove, path: /c, valueFrom: {template: t}}
  - name: external
    external: {generatePatchesExtension: g, validateTopologyExtension: v, discoverVariablesExtension: d, settings: {}}`,
		},
	})
}

func TestVariablesOfClusterClassAreConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, clusterClass(), map[string]conversiontests.Case{
		"variables": {
			From: bare + `
  variables:
  - name: a
    required: true
    metadata: {labels: {x: z}}
    schema:
      openAPIV3Schema:
        type: object
        x-metadata: {annotations: {k: m}}
        required: [b]
        properties:
          b: {type: array, uniqueItems: true, minItems: 0, items: {type: integer, minimum: -1, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: true}}
          c: {x-kubernetes-int-or-string: true, default: 0, example: 10%, enum: [0, 10%]}
          d: {type: object, additionalProperties: {type: string, maxLength: 0, pattern: "^$", format: ""}}
          e: {type: object, x-kubernetes-preserve-unknown-fields: true, maxProperties: 0}
        allOf: [{not: {anyOf: [{type: string}]}}]
        oneOf: []
        x-kubernetes-validations: [{rule: r, message: m, messageExpression: e, reason: FieldValueInvalid, fieldPath: .b}]`,
			Want: `
spec:
  variables:
  - name: a
    required: true
    deprecatedV1Beta1Metadata: {labels: {x: z}}
    schema:
      openAPIV3Schema:
        type: object
        x-metadata: {annotations: {k: m}}
        required: [b]
        properties:
          b: {type: array, uniqueItems: true, minItems: 0, items: {type: integer, minimum: -1, exclusiveMinimum: true, maximum: 9, exclusiveMaximum: true}}
          c: {x-kubernetes-int-or-string: true, default: 0, example: 10%, enum: [0, 10%]}
          d: {type: object, additionalProperties: {type: string, maxLength: 0, pattern: "^$", format: ""}}
          e: {type: object, x-kubernetes-preserve-unknown-fields: true, maxProperties: 0}
        allOf: [{not: {anyOf: [{type: string}]}}]
        oneOf: []
        x-kubernetes-validations: [{rule: r, message: m, messageExpression: e, reason: FieldValueInvalid, fieldPath: .b}]`,
		},
		"a status": {
			From: bare + `
status:
  observedGeneration: 2
  conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]
  v1beta2: {conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]}
  variables:
  - name: a
    definitionsConflict: true
    definitions:
    - {from: inline, required: false, schema: {openAPIV3Schema: {type: string}}}
    - {from: patch, required: true, schema: {openAPIV3Schema: {type: integer}}}`,
			Want: `
status:
  observedGeneration: 2
  conditions: [{type: B, status: "True", reason: R, message: m, lastTransitionTime: "2026-01-02T03:04:05Z"}]
  deprecated: {v1beta1: {conditions: [{type: A, status: "True", lastTransitionTime: "2026-01-02T03:04:05Z"}]}}
  variables:
  - name: a
    definitionsConflict: true
    definitions:
    - {from: inline, required: false, schema: {openAPIV3Schema: {type: string}}}
    - {from: patch, required: true, schema: {openAPIV3Schema: {type: integer}}}`,
		},
	})
}

// TestClusterClassUpRestoresFalse: only where the partner of a part had false. Parts are
// matched by names and, without names, by their number.
func TestClusterClassUpRestoresFalse(t *testing.T) {
	t.Parallel()
	conversiontests.Up(t, clusterClass(), map[string]conversiontests.Case{
		"nothing was kept": {
			From: "spec: {variables: [{name: a, schema: {openAPIV3Schema: {uniqueItems: false}}}], patches: [{name: p, definitions: [{selector: {matchResources: {controlPlane: false}}}]}]}",
			Want: "spec: {variables: [{name: a, required: false, schema: {openAPIV3Schema: {}}}], patches: [{name: p, definitions: [{}]}]}",
		},
		"variables by name": {
			From: "spec: {variables: [{name: b, schema: {openAPIV3Schema: {}}}, {name: a, schema: {openAPIV3Schema: {}}}]}",
			Kept: "spec: {variables: [{name: a, schema: {openAPIV3Schema: {uniqueItems: false}}}, {name: b, schema: {openAPIV3Schema: {exclusiveMaximum: false}}}]}",
			Want: "spec: {variables: [{name: b, required: false, schema: {openAPIV3Schema: {exclusiveMaximum: false}}}, {name: a, required: false, schema: {openAPIV3Schema: {uniqueItems: false}}}]}",
		},
		"schemas in schemas": {
			From: "spec: {variables: [{name: a, schema: {openAPIV3Schema: {properties: {p: {items: {}}, q: {}}, additionalProperties: {}, not: {}, allOf: [{}, {}], anyOf: [{}], oneOf: [{}]}}}]}",
			Kept: `
spec:
  variables:
  - name: a
    schema:
      openAPIV3Schema:
        properties: {p: {x-kubernetes-int-or-string: false, items: {exclusiveMinimum: false}}, z: {uniqueItems: false}}
        additionalProperties: {x-kubernetes-preserve-unknown-fields: false}
        not: {uniqueItems: false}
        allOf: [{uniqueItems: false}]
        anyOf: [{uniqueItems: true}]
        oneOf: [{uniqueItems: false}, {uniqueItems: false}]`,
			Want: `
spec:
  variables:
  - name: a
    required: false
    schema:
      openAPIV3Schema:
        properties: {p: {x-kubernetes-int-or-string: false, items: {exclusiveMinimum: false}}, q: {}}
        additionalProperties: {x-kubernetes-preserve-unknown-fields: false}
        not: {uniqueItems: false}
        allOf: [{uniqueItems: false}, {}]
        anyOf: [{}]
        oneOf: [{uniqueItems: false}]`,
		},
		"definitions of a patch by number": {
			From: "spec: {patches: [{name: p, definitions: [{}, {selector: {matchResources: {controlPlane: true}}}]}]}",
			Kept: "spec: {patches: [{name: other, definitions: [{}]}, {name: p, definitions: [{selector: {matchResources: {controlPlane: false}}}, {selector: {matchResources: {controlPlane: false, infrastructureCluster: false}}}]}]}",
			Want: "spec: {patches: [{name: p, definitions: [{selector: {matchResources: {controlPlane: false}}}, {selector: {matchResources: {controlPlane: true, infrastructureCluster: false}}}]}]}",
		},
		"but not if there were more": {
			From: "spec: {patches: [{name: p, definitions: [{}]}]}",
			Kept: "spec: {patches: [{name: p, definitions: [{selector: {matchResources: {controlPlane: false}}}, {}]}]}",
			Want: "spec: {patches: [{name: p, definitions: [{}]}]}",
		},
		"definitions in a status by their source": {
			From: "status: {variables: [{name: a, definitions: [{from: z, schema: {openAPIV3Schema: {}}}, {from: x, schema: {openAPIV3Schema: {}}}]}]}",
			Kept: "status: {variables: [{name: a, definitionsConflict: false, definitions: [{from: x, schema: {openAPIV3Schema: {uniqueItems: false}}}, {from: z, schema: {openAPIV3Schema: {}}}]}]}",
			Want: "status: {variables: [{name: a, definitionsConflict: false, definitions: [{from: z, required: false, schema: {openAPIV3Schema: {}}}, {from: x, required: false, schema: {openAPIV3Schema: {uniqueItems: false}}}]}]}",
		},
		"empty texts of v1beta1": {
			From: `spec: {infrastructureNamingStrategy: {template: ""}, controlPlane: {machineInfrastructure: {ref: null}, namingStrategy: {}}, patches: [{name: p, enabledIf: "", external: {generateExtension: ""}}]}`,
			Want: "spec: {patches: [{name: p, external: {}}]}",
		},
	})
}
