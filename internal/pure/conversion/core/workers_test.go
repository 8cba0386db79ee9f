// SPDX-License-Identifier: Apache-2.0

package core

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder/conversiontests"
	"github.com/capstan-dev/capstan/internal/pure/conversion/rules"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
)

// counted is the part of a status that the hub always has after a conversion.
const counted = "status: {replicas: 0, deprecated: {v1beta1: {}}}\n"

func TestMachineSetIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, machineSet(), map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: counted},
		"all of it": {
			From: `
spec:
  clusterName: c
  replicas: 0
  minReadySeconds: -1
  deletePolicy: Oldest
  selector: {matchLabels: {a: b}}
  machineNamingStrategy: {template: "{{ .random }}"}
  template:
    metadata: {labels: {a: b}, annotations: {c: d}}
    spec:
      clusterName: c
      bootstrap: {configRef: {apiVersion: boot.io/v1beta2, kind: Config, name: b, namespace: ns}}
      infrastructureRef: {apiVersion: infra.io/v1beta2, kind: Host, name: h, namespace: ns}
      nodeDeletionTimeout: 1s
status:
  selector: a=b
  replicas: 3
  fullyLabeledReplicas: 2
  readyReplicas: 1
  availableReplicas: -1
  observedGeneration: 5
  versions: [{version: v1, replicas: 3}]
  failureReason: R
  failureMessage: m
  v1beta2: {readyReplicas: 0, availableReplicas: 1, upToDateReplicas: 2}`,
			Want: `
spec:
  clusterName: c
  replicas: 0
  deletion: {order: Oldest}
  selector: {matchLabels: {a: b}}
  machineNaming: {template: "{{ .random }}"}
  template:
    metadata: {labels: {a: b}, annotations: {c: d}}
    spec:
      clusterName: c
      bootstrap: {configRef: {apiGroup: boot.io, kind: Config, name: b}}
      infrastructureRef: {apiGroup: infra.io, kind: Host, name: h}
      minReadySeconds: -1
      deletion: {nodeDeletionTimeoutSeconds: 1}
status:
  selector: a=b
  replicas: 3
  readyReplicas: 0
  availableReplicas: 1
  upToDateReplicas: 2
  observedGeneration: 5
  versions: [{version: v1, replicas: 3}]
  deprecated: {v1beta1: {fullyLabeledReplicas: 2, readyReplicas: 1, availableReplicas: -1, failureReason: R, failureMessage: m}}`,
		},
	})
	conversiontests.Up(t, machineSet(), map[string]conversiontests.Case{
		"no seconds, and no annotation": {From: "spec: {minReadySeconds: 0}", Kept: "spec: {template: {spec: {minReadySeconds: 0}}}", Want: counted},
		"a strategy without a template": {From: "spec: {machineNamingStrategy: {}}", Want: counted},
	})
	conversiontests.Down(t, machineSet(), map[string]conversiontests.Case{
		"nothing":                           {From: "{}", Want: "{}"},
		"zero seconds":                      {From: "spec: {template: {spec: {minReadySeconds: 0}}}", Want: "{}"},
		"counters do not mix":               {From: "status: {readyReplicas: 3}", Want: "status: {v1beta2: {readyReplicas: 3}}"},
		"counters of v1beta1":               {From: "status: {deprecated: {v1beta1: {readyReplicas: 3}}}", Want: "status: {readyReplicas: 3}"},
		"a version of a Machine's template": {From: "spec: {template: {spec: {version: v1}}}", Want: "spec: {template: {spec: {version: v1}}}"},
	})
}

func TestMachineDeploymentIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, machineDeployment(), map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: counted},
		"all of it": {
			From: `
spec:
  clusterName: c
  replicas: 2
  paused: true
  rolloutAfter: "2026-01-02T03:04:05Z"
  selector: {matchLabels: {a: b}}
  machineNamingStrategy: {template: t}
  minReadySeconds: 0
  strategy:
    type: RollingUpdate
    rollingUpdate: {maxSurge: 0, maxUnavailable: 100%, deletePolicy: Random}
    remediation: {maxInFlight: 0}
  template: {spec: {version: v1}}
status:
  replicas: 4
  updatedReplicas: 3
  readyReplicas: 2
  availableReplicas: 1
  unavailableReplicas: 5
  phase: Running
  selector: a=b
  v1beta2: {upToDateReplicas: 0}`,
			Want: `
spec:
  clusterName: c
  replicas: 2
  paused: true
  rollout:
    after: "2026-01-02T03:04:05Z"
    strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 100%}}
  deletion: {order: Random}
  remediation: {maxInFlight: 0}
  selector: {matchLabels: {a: b}}
  machineNaming: {template: t}
  template: {spec: {version: v1, minReadySeconds: 0}}
status:
  replicas: 4
  upToDateReplicas: 0
  phase: Running
  selector: a=b
  deprecated: {v1beta1: {updatedReplicas: 3, readyReplicas: 2, availableReplicas: 1, unavailableReplicas: 5}}`,
		},
		"an order of deletion alone": {From: "spec: {strategy: {rollingUpdate: {deletePolicy: Newest}}}", Want: counted + "spec: {deletion: {order: Newest}}"},
		"a limit alone":              {From: "spec: {strategy: {remediation: {maxInFlight: 10%}}}", Want: counted + "spec: {remediation: {maxInFlight: 10%}}"},
		"a type alone":               {From: "spec: {strategy: {type: OnDelete}}", Want: counted + "spec: {rollout: {strategy: {type: OnDelete}}}"},
	})
	conversiontests.Up(t, machineDeployment(), map[string]conversiontests.Case{
		"fields that the hub lacks":   {From: "spec: {revisionHistoryLimit: 1, progressDeadlineSeconds: 600}", Want: counted},
		"not paused, and it was set":  {From: "spec: {paused: false}", Kept: "spec: {paused: false}", Want: counted + "spec: {paused: false}"},
		"not paused, and it was not":  {From: "spec: {paused: false}", Kept: "spec: {paused: true}", Want: counted},
		"empty parts of the strategy": {From: `spec: {strategy: {rollingUpdate: {deletePolicy: ""}, remediation: {}}}`, Want: counted},
	})
}

func TestMachinePoolIsConvertedBothWays(t *testing.T) {
	t.Parallel()
	conversiontests.Both(t, machinePool(), map[string]conversiontests.Case{
		"nothing": {From: "{}", Want: counted},
		"all of it": {
			From: `
spec:
  clusterName: c
  replicas: 0
  minReadySeconds: 0
  providerIDList: ["x://1", "x://1"]
  failureDomains: []
  template: {spec: {bootstrap: {dataSecretName: d}}}
status:
  nodeRefs: [{apiVersion: v1, kind: Node, name: o, uid: u}]
  replicas: 1
  readyReplicas: 2
  availableReplicas: 3
  unavailableReplicas: 4
  bootstrapReady: true
  infrastructureReady: true
  phase: Running
  failureMessage: m
  v1beta2: {availableReplicas: 0, conditions: []}`,
			Want: `
spec:
  clusterName: c
  replicas: 0
  providerIDList: ["x://1", "x://1"]
  failureDomains: []
  template: {spec: {minReadySeconds: 0, bootstrap: {dataSecretName: d}}}
status:
  nodeRefs: [{apiVersion: v1, kind: Node, name: o, uid: u}]
  replicas: 1
  availableReplicas: 0
  conditions: []
  initialization: {bootstrapDataSecretCreated: true, infrastructureProvisioned: true}
  phase: Running
  deprecated: {v1beta1: {readyReplicas: 2, availableReplicas: 3, unavailableReplicas: 4, failureMessage: m}}`,
		},
	})
	conversiontests.Up(t, machinePool(), map[string]conversiontests.Case{
		"what was not ready": {
			From: "{}", Kept: "status: {initialization: {bootstrapDataSecretCreated: false}}",
			Want: "status: {replicas: 0, initialization: {bootstrapDataSecretCreated: false}, deprecated: {v1beta1: {}}}",
		},
	})
}

// TestWriteOfOldVersionRollsNothingOut writes MachineDeployments and their MachineSets at
// v1beta1, which changes the form of the stored objects: machines stay up to date. A
// client without the annotation applies a stored manifest.
func TestWriteOfOldVersionRollsNothingOut(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		maker := conversiontests.NewMaker(seed)
		md := encoded(t, maker.Object(reflect.TypeFor[clusterv1.MachineDeployment](), machineDeployment().Hub), &clusterv1.MachineDeployment{})
		set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}}
		set.Spec.Template = *md.Spec.Template.DeepCopy()
		for write := range 4 {
			if why := rollout.Differences(set.Spec.Template, md.Spec.Template); len(why) > 0 {
				t.Fatalf("seed %d: after %d writes: %v", seed, write, why)
			}
			if annotated := random.IntN(2) == 0; random.IntN(2) == 0 {
				md = through(t, machineDeployment(), md, annotated)
			} else {
				set = through(t, machineSet(), set, annotated)
			}
		}
	}
}

// through returns what is stored after a client has written an object as it read it at an
// old version.
func through[T runtime.Object](t *testing.T, k rules.Kind, hub T, annotated bool) T {
	t.Helper()
	old, err := k.Down(hub, conversiontests.Lookup)
	if err != nil {
		t.Fatal(err)
	}
	if !annotated {
		delete(old.(metav1.Object).GetAnnotations(), rules.DataAnnotation)
	}
	stored, err := k.Up(encoded(t, old, k.NewOld()))
	if err != nil {
		t.Fatal(err)
	}
	return encoded(t, stored, k.NewHub()).(T)
}

// encoded returns an object as it is decoded from JSON.
func encoded[T any](t *testing.T, from any, into T) T {
	t.Helper()
	data, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}
