// SPDX-License-Identifier: Apache-2.0

package blueprint_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
)

func of(t *testing.T, class, topology string) blueprint.Blueprint {
	t.Helper()
	c, s := &clusterv1.ClusterClass{}, &clusterv1.Topology{}
	c.Namespace, c.Name = "ns", "k"
	if err := yaml.UnmarshalStrict([]byte(class), &c.Spec); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(topology), s); err != nil {
		t.Fatal(err)
	}
	return blueprint.Of(c, s)
}

func equal(t *testing.T, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const group = "class: big, bootstrap: {templateRef: {kind: B, name: b}}, infrastructure: {templateRef: {kind: H, name: h}}"

func deployments(fields string) string {
	return "workers: {machineDeployments: [{" + group + fields + "}]}"
}

func groups(fields string) string {
	return "workers: {machineDeployments: [{class: big, name: md" + fields + "}]}"
}

func TestTheTopologyTakesPrecedence(t *testing.T) {
	t.Parallel()
	const (
		said = ", metadata: {labels: {a: '1', b: '1'}, annotations: {c: '1'}}, deletion: {order: Oldest, nodeDrainTimeoutSeconds: 1, nodeDeletionTimeoutSeconds: 1}, taints: [{key: a, effect: NoSchedule}], readinessGates: [{conditionType: a}], minReadySeconds: 1, failureDomain: one"
		over = ", metadata: {labels: {b: '2'}, annotations: {d: '2'}}, deletion: {order: Newest, nodeDrainTimeoutSeconds: 0, nodeVolumeDetachTimeoutSeconds: 2}, taints: [{key: b, effect: NoSchedule}], readinessGates: [{conditionType: b}], minReadySeconds: 0, failureDomain: two, replicas: 3, variables: {overrides: [{name: v, value: 1}]}"
	)
	summary := func(b blueprint.Blueprint) any {
		d := b.MachineDeployments[0]
		return []any{d.Metadata, d.Replicas, d.Deletion, d.DeletionOrder, d.Taints, d.ReadinessGates, d.MinReadySeconds, d.FailureDomain, d.Overrides, d.Bootstrap.Name, d.Hosts.Name}
	}
	for name, tc := range map[string]struct{ class, topology, want string }{
		"nothing is said": {"", "", `[{},null,{},"",null,null,null,"",null,"b","h"]`},
		"by the class":    {said, "", `[{"labels":{"a":"1","b":"1"},"annotations":{"c":"1"}},null,{"nodeDrainTimeoutSeconds":1,"nodeDeletionTimeoutSeconds":1},"Oldest",[{"key":"a","effect":"NoSchedule"}],[{"conditionType":"a"}],1,"one",null,"b","h"]`},
		"by the topology": {"", over, `[{"labels":{"b":"2"},"annotations":{"d":"2"}},3,{"nodeDrainTimeoutSeconds":0,"nodeVolumeDetachTimeoutSeconds":2},"Newest",[{"key":"b","effect":"NoSchedule"}],[{"conditionType":"b"}],0,"two",[{"name":"v","value":1}],"b","h"]`},
		"by both":         {said, over, `[{"labels":{"a":"1","b":"2"},"annotations":{"c":"1","d":"2"}},3,{"nodeDrainTimeoutSeconds":0,"nodeVolumeDetachTimeoutSeconds":2,"nodeDeletionTimeoutSeconds":1},"Newest",[{"key":"b","effect":"NoSchedule"}],[{"conditionType":"b"}],0,"two",[{"name":"v","value":1}],"b","h"]`},
	} {
		t.Run(name, func(t *testing.T) { equal(t, summary(of(t, deployments(tc.class), groups(tc.topology))), tc.want) })
	}
}

func TestTheControlPlane(t *testing.T) {
	t.Parallel()
	b := of(t, "infrastructure: {templateRef: {kind: I, name: i}, naming: {template: n1}}\ncontrolPlane: {templateRef: {kind: P, name: p}, machineInfrastructure: {templateRef: {kind: H, name: h}}, naming: {template: n2}, metadata: {labels: {a: '1'}}, deletion: {nodeDrainTimeoutSeconds: 1}, readinessGates: [{conditionType: a}]}",
		"controlPlane: {replicas: 3, rollout: {after: '2030-01-01T00:00:00Z'}, metadata: {labels: {b: '1'}}, taints: [{key: b, effect: NoSchedule}], variables: {overrides: [{name: v, value: 1}]}}")
	cp := b.ControlPlane
	equal(t, []any{b.Infrastructure.Name, b.InfrastructureName, cp.Template.Name, cp.Hosts.Name, cp.NameTemplate, cp.Metadata, cp.Replicas, cp.RolloutAfter, cp.Deletion, cp.Taints, cp.ReadinessGates, cp.Overrides, cp.HealthCheck},
		`["i","n1","p","h","n2",{"labels":{"a":"1","b":"1"}},3,"2030-01-01T00:00:00Z",{"nodeDrainTimeoutSeconds":1},[{"key":"b","effect":"NoSchedule"}],[{"conditionType":"a"}],[{"name":"v","value":1}],null]`)
}

func TestARolloutIsPutTogetherFieldByField(t *testing.T) {
	t.Parallel()
	const rolling = ", rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}}"
	for name, tc := range map[string]struct{ class, topology, want string }{
		"nothing":                  {"", "", `{}`},
		"the class's":              {rolling, "", `{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0,"maxSurge":1}}}`},
		"a time alone":             {rolling, ", rollout: {after: '2030-01-01T00:00:00Z'}", `{"after":"2030-01-01T00:00:00Z","strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0,"maxSurge":1}}}`},
		"a surge alone":            {rolling, ", rollout: {strategy: {rollingUpdate: {maxSurge: 0}}}", `{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":0,"maxSurge":0}}}`},
		"another strategy":         {rolling, ", rollout: {strategy: {type: OnDelete}}", `{"strategy":{"type":"OnDelete"}}`},
		"the class's, of no kind":  {", rollout: {strategy: {type: OnDelete}}", ", rollout: {after: '2030-01-01T00:00:00Z'}", `{"after":"2030-01-01T00:00:00Z","strategy":{"type":"OnDelete"}}`},
		"rolling, instead of none": {", rollout: {strategy: {type: OnDelete}}", ", rollout: {strategy: {type: RollingUpdate}}", `{"strategy":{"type":"RollingUpdate"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, of(t, deployments(tc.class), groups(tc.topology)).MachineDeployments[0].Rollout, tc.want)
		})
	}
}

func TestHealthChecks(t *testing.T) {
	t.Parallel()
	const (
		classes = ", healthCheck: {checks: {nodeStartupTimeoutSeconds: 0}, remediation: {triggerIf: {unhealthyInRange: '[1-2]'}}}"
		ours    = ", healthCheck: {checks: {unhealthyNodeConditions: [{type: Ready, status: Unknown, timeoutSeconds: 1}]}}"
		theirs  = `{"Checks":{"nodeStartupTimeoutSeconds":0},"Remediation":{"triggerIf":{"unhealthyInRange":"[1-2]"}}}`
		own     = `{"Checks":{"nodeStartupTimeoutSeconds":600,"unhealthyNodeConditions":[{"type":"Ready","status":"Unknown","timeoutSeconds":1}]},"Remediation":{}}`
	)
	for name, tc := range map[string]struct{ class, topology, want string }{
		"none":                       {"", "", "null"},
		"none, though it is enabled": {"", ", healthCheck: {enabled: true}", "null"},
		"the class's":                {classes, "", theirs},
		"the class's, enabled":       {classes, ", healthCheck: {enabled: true}", theirs},
		"the class's, disabled":      {classes, ", healthCheck: {enabled: false}", "null"},
		"the topology's, whole":      {classes, ours, own},
		"the topology's alone":       {"", ours, own},
		"of remediation alone":       {"", ", healthCheck: {remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 1}}}", `{"Checks":{"nodeStartupTimeoutSeconds":600},"Remediation":{"triggerIf":{"unhealthyLessThanOrEqualTo":1}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, of(t, deployments(tc.class), groups(tc.topology)).MachineDeployments[0].HealthCheck, tc.want)
			const hosts = "machineInfrastructure: {templateRef: {kind: H, name: h}}"
			topology := "{}"
			if tc.topology != "" {
				topology = "controlPlane: {" + strings.TrimPrefix(tc.topology, ", ") + "}"
			}
			equal(t, of(t, "controlPlane: {"+hosts+tc.class+"}", topology).ControlPlane.HealthCheck, tc.want)
			without := strings.TrimPrefix(tc.class, ", ")
			equal(t, of(t, "controlPlane: {"+without+"}", topology).ControlPlane.HealthCheck, "null")
		})
	}
}

func TestHowManyAreRemediatedAtATime(t *testing.T) {
	t.Parallel()
	const classes = ", healthCheck: {checks: {nodeStartupTimeoutSeconds: 1}, remediation: {maxInFlight: 1}}"
	for name, tc := range map[string]struct{ topology, want string }{
		"by the class":                     {"", "1"},
		"by the topology":                  {", healthCheck: {remediation: {maxInFlight: 20%}}", `"20%"`},
		"by the class, with another check": {", healthCheck: {checks: {nodeStartupTimeoutSeconds: 2}}", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			equal(t, of(t, deployments(classes), groups(tc.topology)).MachineDeployments[0].MaxInFlight, tc.want)
		})
	}
}

func TestAnnotationsOfUpgradesAndOfTheAutoscaler(t *testing.T) {
	t.Parallel()
	const prefix = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-"
	b := of(t, deployments(", metadata: {annotations: {"+prefix+"min-size: '1'}}"), groups(", replicas: 3, metadata: {annotations: {"+prefix+"max-size: '3', topology.cluster.x-k8s.io/defer-upgrade: ''}}"))
	d := b.MachineDeployments[0]
	equal(t, []any{d.Replicas, d.Deferred, d.Held, len(d.Metadata.Annotations)}, "[null,true,false,2]")
	b = of(t, "workers: {machinePools: [{"+group+", failureDomains: [a], minReadySeconds: 1}]}", "workers: {machinePools: [{class: big, name: mp, replicas: 3, failureDomains: [b], deletion: {nodeDrainTimeoutSeconds: 0}, metadata: {annotations: {"+prefix+"max-size: '3', topology.cluster.x-k8s.io/hold-upgrade-sequence: ''}}}]}")
	p := b.MachinePools[0]
	equal(t, []any{p.Replicas, p.Deferred, p.Held, len(p.Metadata.Annotations), p.FailureDomains, p.MinReadySeconds, p.Deletion}, `[3,false,true,1,["b"],1,{"nodeDrainTimeoutSeconds":0}]`)
}

func TestAGroupOfAnUnknownClassIsKept(t *testing.T) {
	t.Parallel()
	b := of(t, deployments(""), "workers: {machineDeployments: [{class: small, name: a}, {class: big, name: b}], machinePools: [{class: small, name: c}]}")
	for want, got := range map[string]error{
		`MachineDeployment a of the topology: ClusterClass ns/k has no class "small" in spec.workers.machineDeployments: correct its class, or add it there`: b.MachineDeployments[0].Problem,
		`MachinePool c of the topology: ClusterClass ns/k has no class "small" in spec.workers.machinePools: correct its class, or add it there`:             b.MachinePools[0].Problem,
	} {
		if got == nil || got.Error() != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	if d := b.MachineDeployments[1]; d.Name != "b" || d.Problem != nil {
		t.Errorf("the next is %s, %v", d.Name, d.Problem)
	}
}
