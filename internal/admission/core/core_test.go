// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// parse reads an object; "" is none.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	if text == "" {
		return nil
	}
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

type defaultCase struct{ obj, old, want string }

func testDefaults[T any](t *testing.T, set func(obj, old *T), tests map[string]defaultCase) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse[T](t, tc.obj)
			set(got, parse[T](t, tc.old))
			if diff := cmp.Diff(parse[T](t, tc.want), got); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}

type validateCase struct {
	obj, old string
	want     []string
}

func testValidation[T any](t *testing.T, check func(obj, old *T) field.ErrorList, tests map[string]validateCase) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, err := range check(parse[T](t, tc.obj), parse[T](t, tc.old)) {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateCluster(t *testing.T) {
	t.Parallel()
	const ref = "{apiGroup: g, kind: K, name: n}"
	testValidation(t, ValidateCluster, map[string]validateCase{
		"both references": {obj: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + ", infrastructureRef: " + ref + ", clusterNetwork: {pods: {cidrBlocks: [10.0.0.0/8, 'fd00::/56']}}}"},
		"one reference":   {obj: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + "}"},
		"no reference":    {obj: "metadata: {name: c}", want: []string{"spec.infrastructureRef: Required value: set infrastructureRef, controlPlaneRef or both"}},
		"a topology": {obj: "metadata: {name: c}\nspec: {topology: {classRef: {name: x}, version: v1.34.0}}", want: []string{
			"spec.topology: Forbidden: managed topologies are not available in this version; set controlPlaneRef and infrastructureRef instead"}},
		"a name too long for a label": {obj: "metadata: {name: abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijk}\nspec: {controlPlaneRef: " + ref + "}", want: []string{
			`metadata.name: Invalid value: "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijk": is used as the value of a label: must be no more than 63 bytes`}},
		"rubbish for ranges": {obj: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + ", clusterNetwork: {services: {cidrBlocks: [10.0.0.0/8, 10.0.0.1]}, pods: {cidrBlocks: [x]}}}", want: []string{
			`spec.clusterNetwork.services.cidrBlocks[1]: Invalid value: "10.0.0.1": must be an address range such as 192.168.0.0/16 or fd00:10::/56`,
			`spec.clusterNetwork.pods.cidrBlocks[0]: Invalid value: "x": must be an address range such as 192.168.0.0/16 or fd00:10::/56`}},
		"a reference taken away": {
			obj:  "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + "}",
			old:  "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + ", infrastructureRef: " + ref + "}",
			want: []string{"spec.infrastructureRef: Forbidden: cannot be removed; delete the Cluster to be rid of what it refers to"}},
		"a reference changed": {
			obj: "metadata: {name: c}\nspec: {controlPlaneRef: {apiGroup: g, kind: K, name: other}}",
			old: "metadata: {name: c}\nspec: {controlPlaneRef: " + ref + "}"},
	})
}

func TestDefaultMachine(t *testing.T) {
	t.Parallel()
	testDefaults(t, DefaultMachine, map[string]defaultCase{
		"all that is missing": {
			obj:  "spec: {clusterName: c, version: 1.34.1}",
			want: "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, version: v1.34.1, deletion: {nodeDeletionTimeoutSeconds: 10}}}"},
		"nothing that is there": {
			obj:  "{metadata: {labels: {a: b}}, spec: {clusterName: c, deletion: {nodeDeletionTimeoutSeconds: 0}}}",
			want: "{metadata: {labels: {a: b, cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, deletion: {nodeDeletionTimeoutSeconds: 0}}}"},
	})
}

func TestValidateMachine(t *testing.T) {
	t.Parallel()
	testValidation(t, ValidateMachine, map[string]validateCase{
		"with a config":             {obj: "spec: {clusterName: c, version: v1.34.1, bootstrap: {configRef: {apiGroup: g, kind: K, name: n}}}"},
		"with a Secret":             {obj: "spec: {clusterName: c, bootstrap: {dataSecretName: ''}}"},
		"of a pool, without either": {obj: "{metadata: {labels: {cluster.x-k8s.io/pool-name: p}}, spec: {clusterName: c}}"},
		"without either": {obj: "spec: {clusterName: c}", want: []string{
			"spec.bootstrap: Required value: set configRef to a bootstrap config, such as a KubeadmConfig, or dataSecretName to a Secret with bootstrap data"}},
		"no version": {obj: "spec: {bootstrap: {dataSecretName: x}, version: v1.34}", want: []string{
			`spec.version: Invalid value: "v1.34": must be a semantic version with a leading v, such as v1.34.1`}},
		"of another cluster": {obj: "spec: {clusterName: d, bootstrap: {dataSecretName: x}}", old: "spec: {clusterName: c}", want: []string{
			`spec.clusterName: Invalid value: "d": cannot change: it was "c"; create another object instead`}},
		"taints of others": {obj: "spec: {bootstrap: {dataSecretName: x}, taints: [{key: node.kubernetes.io/out-of-service}, {key: node.kubernetes.io/unreachable}, {key: node-role.kubernetes.io/control-plane}, {key: mine}]}", want: []string{
			`spec.taints[1].key: Invalid value: "node.kubernetes.io/unreachable": is set and removed by Kubernetes or Cluster API; choose another key`,
			`spec.taints[2].key: Invalid value: "node-role.kubernetes.io/control-plane": is for control plane machines; choose another key`}},
		"a control plane's taint": {obj: "{metadata: {labels: {cluster.x-k8s.io/control-plane: ''}}, spec: {bootstrap: {dataSecretName: x}, taints: [{key: node-role.kubernetes.io/control-plane}]}}"},
	})
}

func TestDefaultMachineSet(t *testing.T) {
	t.Parallel()
	const bounds = "annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: '3', cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '5'}"
	const rest = "selector: {matchLabels: {a: b}}"
	labelled := "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}, " + bounds + "}, spec: {clusterName: c, " + rest + ", replicas: "
	testDefaults(t, DefaultMachineSet, map[string]defaultCase{
		"all that is missing": {
			obj:  "{metadata: {name: s}, spec: {clusterName: c, template: {spec: {version: 1.34.1}}}}",
			want: "{metadata: {name: s, labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, replicas: 1, selector: {matchLabels: {cluster.x-k8s.io/set-name: s}}, template: {metadata: {labels: {cluster.x-k8s.io/set-name: s}}, spec: {version: v1.34.1}}}}"},
		"a name too long for a label": {
			obj:  "{metadata: {name: abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijk}, spec: {clusterName: c, replicas: 2}}",
			want: "{metadata: {name: abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijk, labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, replicas: 2, selector: {matchLabels: {cluster.x-k8s.io/set-name: hash_RrOn-w_z}}, template: {metadata: {labels: {cluster.x-k8s.io/set-name: hash_RrOn-w_z}}}}}"},
		"the autoscaler's minimum when new": {obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, " + rest + "}}", want: labelled + "3}}"},
		"no more than its maximum":          {obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, " + rest + "}}", old: "spec: {replicas: 9}", want: labelled + "5}}"},
		"no less than its minimum":          {obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, " + rest + "}}", old: "spec: {replicas: 1}", want: labelled + "3}}"},
		"the number before within bounds":   {obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, " + rest + "}}", old: "spec: {replicas: 4}", want: labelled + "4}}"},
		"what is said, bounds or not":       {obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, replicas: 0, " + rest + "}}", want: labelled + "0}}"},
	})
}

const group = "spec: {clusterName: c, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c, bootstrap: {dataSecretName: x}}}"

func TestValidateMachineSet(t *testing.T) {
	t.Parallel()
	testValidation(t, ValidateMachineSet, map[string]validateCase{
		"complete": {obj: group + ", machineNaming: {template: '{{ .machineSet.name }}-x-{{ .random }}'}}"},
		"templates of names": {obj: group + ", machineNaming: {template: '{{ .machineSet.name }}'}}", want: []string{
			`spec.machineNaming.template: Invalid value: "{{ .machineSet.name }}": must contain {{ .random }}, so that no two machines have one name`}},
		"a template of bad names": {obj: group + ", machineNaming: {template: 'A{{ .random }}'}}", want: []string{
			`spec.machineNaming.template: Invalid value: "A{{ .random }}": makes names such as "Aabcde": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		"labels that its selector does not select": {
			obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, template: {spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}",
			want: []string{
				`spec.template.metadata.labels: Invalid value: null: must match spec.selector, a=b`}},
		"another cluster in the template": {
			obj:  "spec: {clusterName: d, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}",
			want: []string{`spec.template.spec.clusterName: Invalid value: "c": must be the same as spec.clusterName, "d"`}},
		"an unknown preflight check": {
			obj: "metadata: {annotations: {machineset.cluster.x-k8s.io/skip-preflight-checks: 'ControlPlaneIsStable, Luck'}}\n" + group + "}",
			want: []string{
				`metadata.annotations[machineset.cluster.x-k8s.io/skip-preflight-checks]: Unsupported value: "Luck": supported values: "All", "KubeadmVersionSkew", "KubernetesVersionSkew", "ControlPlaneIsStable", "ControlPlaneVersionSkew"`}},
		"bounds that are no numbers": {
			obj:  "metadata: {annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: few}}\n" + group + "}",
			want: []string{`metadata.annotations[cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size]: Invalid value: "few": must be a number`}},
		"another cluster": {obj: group + "}", old: "spec: {clusterName: d}", want: []string{
			`spec.clusterName: Invalid value: "c": cannot change: it was "d"; create another object instead`}},
	})
}

func TestDefaultMachineDeployment(t *testing.T) {
	t.Parallel()
	testDefaults(t, DefaultMachineDeployment, map[string]defaultCase{
		"all that is missing": {
			obj: "{metadata: {name: d}, spec: {clusterName: c}}",
			want: `{metadata: {name: d, labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, replicas: 1,
 rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}},
 selector: {matchLabels: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/deployment-name: d}},
 template: {metadata: {labels: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/deployment-name: d}}}}}`},
		"the user's own selector, and the cluster": {
			obj: "{metadata: {name: d}, spec: {clusterName: c, replicas: 2, rollout: {strategy: {type: OnDelete}}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}}",
			want: `{metadata: {name: d, labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, replicas: 2, rollout: {strategy: {type: OnDelete}},
 selector: {matchLabels: {a: b, cluster.x-k8s.io/cluster-name: c}}, template: {metadata: {labels: {a: b, cluster.x-k8s.io/cluster-name: c}}}}}`},
	})
}

func TestValidateMachineDeployment(t *testing.T) {
	t.Parallel()
	const name = "metadata: {name: d}\n"
	testValidation(t, ValidateMachineDeployment, map[string]validateCase{
		"complete":            {obj: name + group + ", rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 20%, maxUnavailable: 0}}}, remediation: {maxInFlight: 1}}"},
		"on delete":           {obj: name + group + ", rollout: {strategy: {type: OnDelete}}}"},
		"nothing may change":  {obj: name + group + ", rollout: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}}}", want: []string{`spec.rollout.strategy.rollingUpdate.maxUnavailable: Invalid value: "0": must not be 0 when maxSurge is 0: nothing could ever be replaced`}},
		"amounts of nothing":  {obj: name + group + ", rollout: {strategy: {rollingUpdate: {maxSurge: some, maxUnavailable: -1}}}, remediation: {maxInFlight: 5}}", want: []string{`spec.rollout.strategy.rollingUpdate.maxSurge: Invalid value: "some": must be a number, or a percentage such as 20%`, `spec.rollout.strategy.rollingUpdate.maxUnavailable: Invalid value: "-1": must not be negative`}},
		"no bootstrap":        {obj: name + "spec: {clusterName: c, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c}}}", want: []string{"spec.template.spec.bootstrap: Required value: set configRef to a bootstrap config, such as a KubeadmConfig, or dataSecretName to a Secret with bootstrap data"}},
		"labels of bad form":  {obj: name + "spec: {clusterName: c, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b, c: '-'}}, spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}", want: []string{`spec.template.metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		"a selector of rules": {obj: name + "spec: {clusterName: c, selector: {matchExpressions: [{key: a, operator: Like}]}, template: {spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}", want: []string{`spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Like"}]}: "Like" is not a valid label selector operator`}},
	})
}

func TestDefaultMachineHealthCheck(t *testing.T) {
	t.Parallel()
	testDefaults(t, DefaultMachineHealthCheck, map[string]defaultCase{
		"all that is missing": {obj: "spec: {clusterName: c}", want: "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, checks: {nodeStartupTimeoutSeconds: 600}}}"},
		"not what is off":     {obj: "spec: {clusterName: c, checks: {nodeStartupTimeoutSeconds: 0}}", want: "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, checks: {nodeStartupTimeoutSeconds: 0}}}"},
	})
}

func TestValidateMachineHealthCheck(t *testing.T) {
	t.Parallel()
	testValidation(t, ValidateMachineHealthCheck, map[string]validateCase{
		"complete":           {obj: "spec: {clusterName: c, selector: {matchLabels: {a: b, cluster.x-k8s.io/cluster-name: c}}, checks: {nodeStartupTimeoutSeconds: 30}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}}"},
		"selects everything": {obj: "spec: {clusterName: c}", want: []string{"spec.selector: Required value: must not be empty: it would select every Machine of the Cluster"}},
		"too hasty":          {obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, checks: {nodeStartupTimeoutSeconds: 29}}", want: []string{"spec.checks.nodeStartupTimeoutSeconds: Invalid value: 29: must be 30 or more, or 0 for no limit"}},
		"of two clusters":    {obj: "spec: {clusterName: c, selector: {matchLabels: {cluster.x-k8s.io/cluster-name: d}}}", want: []string{`spec.selector.matchLabels[cluster.x-k8s.io/cluster-name]: Invalid value: "d": must be the same as spec.clusterName`}},
		"how much of what":   {obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: most}}}", want: []string{`spec.remediation.triggerIf.unhealthyLessThanOrEqualTo: Invalid value: "most": must be a number, or a percentage such as 20%`}},
		"another cluster":    {obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}}", old: "spec: {clusterName: d}", want: []string{`spec.clusterName: Invalid value: "c": cannot change: it was "d"; create another object instead`}},
	})
}

func TestValidateMachineDrainRule(t *testing.T) {
	t.Parallel()
	testValidation(t, ValidateMachineDrainRule, map[string]validateCase{
		"in order":        {obj: "spec: {drain: {behavior: Drain, order: 1}, machines: [{selector: {matchLabels: {a: b}}}], pods: [{}]}"},
		"order for skips": {obj: "spec: {drain: {behavior: Skip, order: 1}}", want: []string{"spec.drain.order: Invalid value: 1: is only for behavior Drain; leave it out"}},
		"bad selectors": {obj: "spec: {drain: {behavior: Skip}, machines: [{clusterSelector: {matchExpressions: [{key: a, operator: In}]}}], pods: [{namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}", want: []string{
			"spec.machines[0].clusterSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			"spec.pods[0].namespaceSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"}},
	})
}
