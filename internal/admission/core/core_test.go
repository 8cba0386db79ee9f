// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

func TestDefaultMachine(t *testing.T) {
	t.Parallel()
	builder.CheckDefaults(t, DefaultMachine, map[string]builder.Defaulted{
		"all that is missing": {
			Obj:  "spec: {clusterName: c, version: 1.34.1}",
			Want: "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, version: v1.34.1, deletion: {nodeDeletionTimeoutSeconds: 10}}}"},
		"nothing that is there": {
			Obj:  "{metadata: {labels: {a: b}}, spec: {clusterName: c, deletion: {nodeDeletionTimeoutSeconds: 0}}}",
			Want: "{metadata: {labels: {a: b, cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, deletion: {nodeDeletionTimeoutSeconds: 0}}}"},
	})
}

func TestValidateMachine(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateMachine, map[string]builder.Validated{
		"a template, and bootstrap as infrastructure": {Obj: "spec: {clusterName: c, infrastructureRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: n}, bootstrap: {configRef: {apiGroup: g, kind: KTemplate, name: n}}}", Want: []string{
			`spec.bootstrap.configRef: Invalid value: "KTemplate.g": is a template, and cannot itself be the bootstrap configuration of a Machine: refer to an object made from it`,
			`spec.infrastructureRef: Invalid value: "KubeadmConfig.bootstrap.cluster.x-k8s.io": group bootstrap.cluster.x-k8s.io is not for the infrastructure of a Machine: refer to a kind that is`}},
		"with a config":             {Obj: "spec: {clusterName: c, version: v1.34.1, bootstrap: {configRef: {apiGroup: g, kind: K, name: n}}}"},
		"with a Secret":             {Obj: "spec: {clusterName: c, bootstrap: {dataSecretName: ''}}"},
		"of a pool, without either": {Obj: "{metadata: {labels: {cluster.x-k8s.io/pool-name: p}}, spec: {clusterName: c}}"},
		"without either": {Obj: "spec: {clusterName: c}", Want: []string{
			"spec.bootstrap: Required value: set configRef to a bootstrap config, such as a KubeadmConfig, or dataSecretName to a Secret with bootstrap data"}},
		"no version": {Obj: "spec: {bootstrap: {dataSecretName: x}, version: v1.34}", Want: []string{
			`spec.version: Invalid value: "v1.34": must be a semantic version with a leading v, such as v1.34.1`}},
		"of another cluster": {Obj: "spec: {clusterName: d, bootstrap: {dataSecretName: x}}", Old: "spec: {clusterName: c}", Want: []string{
			`spec.clusterName: Invalid value: "d": cannot change: it was "c"; create another object instead`}},
		"taints of others": {Obj: "spec: {bootstrap: {dataSecretName: x}, taints: [{key: node.kubernetes.io/out-of-service}, {key: node.kubernetes.io/unreachable}, {key: node-role.kubernetes.io/control-plane}, {key: mine}]}", Want: []string{
			`spec.taints[1].key: Invalid value: "node.kubernetes.io/unreachable": is set and removed by Kubernetes or Cluster API; choose another key`,
			`spec.taints[2].key: Invalid value: "node-role.kubernetes.io/control-plane": is for control plane machines; choose another key`}},
		"a control plane's taint": {Obj: "{metadata: {labels: {cluster.x-k8s.io/control-plane: ''}}, spec: {bootstrap: {dataSecretName: x}, taints: [{key: node-role.kubernetes.io/control-plane}]}}"},
	})
}

func TestDefaultMachineSet(t *testing.T) {
	t.Parallel()
	const bounds = "annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: '3', cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '5'}"
	const rest = "selector: {matchLabels: {a: b}}"
	labelled := "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}, " + bounds + "}, spec: {clusterName: c, " + rest + ", replicas: "
	builder.CheckDefaults(t, DefaultMachineSet, map[string]builder.Defaulted{
		"all that is missing": {
			Obj:  "{metadata: {name: s}, spec: {clusterName: c, template: {spec: {version: 1.34.1}}}}",
			Want: "{metadata: {name: s, labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, replicas: 1, selector: {matchLabels: {cluster.x-k8s.io/set-name: s}}, template: {metadata: {labels: {cluster.x-k8s.io/set-name: s}}, spec: {version: v1.34.1}}}}"},
		"a name too long for a label": {
			Obj:  "{metadata: {name: abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijk}, spec: {clusterName: c, replicas: 2}}",
			Want: "{metadata: {name: abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefghijk, labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, replicas: 2, selector: {matchLabels: {cluster.x-k8s.io/set-name: hash_RrOn-w_z}}, template: {metadata: {labels: {cluster.x-k8s.io/set-name: hash_RrOn-w_z}}}}}"},
		"the autoscaler's minimum when new": {Obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, " + rest + "}}", Want: labelled + "3}}"},
		"no more than its maximum":          {Obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, " + rest + "}}", Old: "spec: {replicas: 9}", Want: labelled + "5}}"},
		"no less than its minimum":          {Obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, " + rest + "}}", Old: "spec: {replicas: 1}", Want: labelled + "3}}"},
		"the number before within bounds":   {Obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, " + rest + "}}", Old: "spec: {replicas: 4}", Want: labelled + "4}}"},
		"what is said, bounds or not":       {Obj: "{metadata: {" + bounds + "}, spec: {clusterName: c, replicas: 0, " + rest + "}}", Want: labelled + "0}}"},
	})
}

const group = "spec: {clusterName: c, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c, bootstrap: {dataSecretName: x}}}"

func TestTemplateBombsAreRefused(t *testing.T) {
	t.Parallel()
	set, deployment := builder.Parse[clusterv1.MachineSet](t, group+"}"), builder.Parse[clusterv1.MachineDeployment](t, group+"}")
	for name, bomb := range builder.TemplateBombs() {
		set.Spec.MachineNaming.Template = bomb + "{{ .random }}"
		deployment.Spec.MachineNaming.Template = bomb + "{{ .random }}"
		for _, errs := range []field.ErrorList{ValidateMachineSet(set, nil), ValidateMachineDeployment(deployment, nil)} {
			if len(errs) != 1 || errs[0].Field != "spec.machineNaming.template" || errs[0].Type != field.ErrorTypeInvalid {
				t.Errorf("%s: got %v, want it refused", name, errs)
			}
		}
	}
}

func TestValidateMachineSet(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateMachineSet, map[string]builder.Validated{
		"complete": {Obj: group + ", machineNaming: {template: '{{ .machineSet.name }}-x-{{ .random }}'}}"},
		"templates of names": {Obj: group + ", machineNaming: {template: '{{ .machineSet.name }}'}}", Want: []string{
			`spec.machineNaming.template: Invalid value: "{{ .machineSet.name }}": must contain {{ .random }}, so that no two machines have one name`}},
		"a template of bad names": {Obj: group + ", machineNaming: {template: 'A{{ .random }}'}}", Want: []string{
			`spec.machineNaming.template: Invalid value: "A{{ .random }}": makes names such as "Aabcde": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`}},
		"labels that its selector does not select": {
			Obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, template: {spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}",
			Want: []string{
				`spec.template.metadata.labels: Invalid value: null: must match spec.selector, a=b`}},
		"another cluster in the template": {
			Obj:  "spec: {clusterName: d, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}",
			Want: []string{`spec.template.spec.clusterName: Invalid value: "c": must be the same as spec.clusterName, "d"`}},
		"an unknown preflight check": {
			Obj: "metadata: {annotations: {machineset.cluster.x-k8s.io/skip-preflight-checks: 'ControlPlaneIsStable, Luck'}}\n" + group + "}",
			Want: []string{
				`metadata.annotations[machineset.cluster.x-k8s.io/skip-preflight-checks]: Unsupported value: "Luck": supported values: "All", "KubeadmVersionSkew", "KubernetesVersionSkew", "ControlPlaneIsStable", "ControlPlaneVersionSkew"`}},
		"bounds that are no numbers": {
			Obj:  "metadata: {annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: few}}\n" + group + "}",
			Want: []string{`metadata.annotations[cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size]: Invalid value: "few": must be a number`}},
		"another cluster": {Obj: group + "}", Old: "spec: {clusterName: d}", Want: []string{
			`spec.clusterName: Invalid value: "c": cannot change: it was "d"; create another object instead`}},
	})
}

func TestDefaultMachineDeployment(t *testing.T) {
	t.Parallel()
	builder.CheckDefaults(t, DefaultMachineDeployment, map[string]builder.Defaulted{
		"all that is missing": {
			Obj: "{metadata: {name: d}, spec: {clusterName: c}}",
			Want: `{metadata: {name: d, labels: {cluster.x-k8s.io/cluster-name: c}, annotations: {machinedeployment.clusters.x-k8s.io/revision: "1"}, finalizers: [cluster.x-k8s.io/machinedeployment]}, spec: {clusterName: c, replicas: 1,
 rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}},
 selector: {matchLabels: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/deployment-name: d}},
 template: {metadata: {labels: {cluster.x-k8s.io/cluster-name: c, cluster.x-k8s.io/deployment-name: d}}}}}`},
		"the user's own selector, and the cluster": {
			Obj: "{metadata: {name: d, annotations: {machinedeployment.clusters.x-k8s.io/revision: '7'}}, spec: {clusterName: c, replicas: 2, rollout: {strategy: {type: OnDelete}}, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}}}}",
			Want: `{metadata: {name: d, labels: {cluster.x-k8s.io/cluster-name: c}, annotations: {machinedeployment.clusters.x-k8s.io/revision: "7"}, finalizers: [cluster.x-k8s.io/machinedeployment]}, spec: {clusterName: c, replicas: 2, rollout: {strategy: {type: OnDelete}},
 selector: {matchLabels: {a: b, cluster.x-k8s.io/cluster-name: c}}, template: {metadata: {labels: {a: b, cluster.x-k8s.io/cluster-name: c}}}}}`},
	})
}

func TestValidateMachineDeployment(t *testing.T) {
	t.Parallel()
	const name = "metadata: {name: d}\n"
	builder.CheckValidation(t, ValidateMachineDeployment, map[string]builder.Validated{
		"complete":            {Obj: name + group + ", rollout: {strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 20%, maxUnavailable: 0}}}, remediation: {maxInFlight: 1}}"},
		"on delete":           {Obj: name + group + ", rollout: {strategy: {type: OnDelete}}}"},
		"nothing may change":  {Obj: name + group + ", rollout: {strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}}}", Want: []string{`spec.rollout.strategy.rollingUpdate.maxUnavailable: Invalid value: "0": must not be 0 when maxSurge is 0: nothing could ever be replaced`}},
		"amounts of nothing":  {Obj: name + group + ", rollout: {strategy: {rollingUpdate: {maxSurge: some, maxUnavailable: -1}}}, remediation: {maxInFlight: 5}}", Want: []string{`spec.rollout.strategy.rollingUpdate.maxSurge: Invalid value: "some": must be a number, or a percentage such as 20%`, `spec.rollout.strategy.rollingUpdate.maxUnavailable: Invalid value: "-1": must not be negative`}},
		"no bootstrap":        {Obj: name + "spec: {clusterName: c, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {clusterName: c}}}", Want: []string{"spec.template.spec.bootstrap: Required value: set configRef to a bootstrap config, such as a KubeadmConfig, or dataSecretName to a Secret with bootstrap data"}},
		"labels of bad form":  {Obj: name + "spec: {clusterName: c, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b, c: '-'}}, spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}", Want: []string{`spec.template.metadata.labels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`}},
		"a selector of rules": {Obj: name + "spec: {clusterName: c, selector: {matchExpressions: [{key: a, operator: Like}]}, template: {spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}", Want: []string{`spec.selector: Invalid value: {"matchExpressions":[{"key":"a","operator":"Like"}]}: "Like" is not a valid label selector operator`}},
	})
}

func TestDefaultMachinePool(t *testing.T) {
	t.Parallel()
	const bounds = "annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size: '3', cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: '5'}"
	builder.CheckDefaults(t, DefaultMachinePool, map[string]builder.Defaulted{
		"all that is missing": {
			Obj:  "{metadata: {name: p}, spec: {clusterName: c, template: {spec: {version: 1.34.1}}}}",
			Want: "{metadata: {name: p, labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, replicas: 1, template: {spec: {version: v1.34.1, deletion: {nodeDeletionTimeoutSeconds: 10}}}}}"},
		"nothing that is there": {
			Obj:  "{spec: {clusterName: c, replicas: 0, template: {spec: {deletion: {nodeDeletionTimeoutSeconds: 0}}}}}",
			Want: "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, replicas: 0, template: {spec: {deletion: {nodeDeletionTimeoutSeconds: 0}}}}}"},
		"the autoscaler's minimum when new": {
			Obj:  "{metadata: {" + bounds + "}, spec: {clusterName: c}}",
			Want: "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}, " + bounds + "}, spec: {clusterName: c, replicas: 3, template: {spec: {deletion: {nodeDeletionTimeoutSeconds: 10}}}}}"},
	})
}

func TestValidateMachinePool(t *testing.T) {
	t.Parallel()
	pool := func(more string) string {
		return "spec: {clusterName: c, template: {spec: {clusterName: c, bootstrap: {dataSecretName: x}" + more + "}}}"
	}
	builder.CheckValidation(t, ValidateMachinePool, map[string]builder.Validated{
		"complete": {Obj: pool(", version: v1.34.1, infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: AWSMachinePool, name: n}")},
		"a template as its infrastructure": {Obj: pool(", infrastructureRef: {apiGroup: g, kind: KTemplate, name: n}"), Want: []string{
			`spec.template.spec.infrastructureRef: Invalid value: "KTemplate.g": is a template, and cannot itself be the infrastructure of a Machine: refer to an object made from it`}},
		"taints": {Obj: pool(", taints: [{key: mine}]"), Want: []string{
			"spec.template.spec.taints: Forbidden: the provider of a pool makes its machines and knows nothing of taints; set them in the bootstrap config"}},
		"taints, stored already": {Obj: pool(", version: v1.34.2, taints: [{key: mine}]"), Old: pool(", version: v1.34.1, taints: [{key: mine}]")},
		"no bootstrap": {Obj: "spec: {clusterName: c, template: {spec: {clusterName: c}}}", Want: []string{
			"spec.template.spec.bootstrap: Required value: set configRef to a bootstrap config, such as a KubeadmConfig, or dataSecretName to a Secret with bootstrap data"}},
		"no version": {Obj: pool(", version: v1.34"), Want: []string{
			`spec.template.spec.version: Invalid value: "v1.34": must be a semantic version with a leading v, such as v1.34.1`}},
		"another cluster in the template": {Obj: "spec: {clusterName: d, template: {spec: {clusterName: c, bootstrap: {dataSecretName: x}}}}", Want: []string{
			`spec.template.spec.clusterName: Invalid value: "c": must be the same as spec.clusterName, "d"`}},
		"bounds that are no numbers": {
			Obj:  "metadata: {annotations: {cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: many}}\n" + pool(""),
			Want: []string{`metadata.annotations[cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size]: Invalid value: "many": must be a number`}},
		"another cluster": {Obj: pool(""), Old: "spec: {clusterName: d}", Want: []string{
			`spec.clusterName: Invalid value: "c": cannot change: it was "d"; create another object instead`}},
	})
}

func TestDefaultMachineHealthCheck(t *testing.T) {
	t.Parallel()
	builder.CheckDefaults(t, DefaultMachineHealthCheck, map[string]builder.Defaulted{
		"all that is missing": {Obj: "spec: {clusterName: c}", Want: "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, checks: {nodeStartupTimeoutSeconds: 600}}}"},
		"not what is off":     {Obj: "spec: {clusterName: c, checks: {nodeStartupTimeoutSeconds: 0}}", Want: "{metadata: {labels: {cluster.x-k8s.io/cluster-name: c}}, spec: {clusterName: c, checks: {nodeStartupTimeoutSeconds: 0}}}"},
	})
}

func TestValidateMachineHealthCheck(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateMachineHealthCheck, map[string]builder.Validated{
		"complete":           {Obj: "spec: {clusterName: c, selector: {matchLabels: {a: b, cluster.x-k8s.io/cluster-name: c}}, checks: {nodeStartupTimeoutSeconds: 30}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 40%}}}"},
		"selects everything": {Obj: "spec: {clusterName: c}", Want: []string{"spec.selector: Required value: must not be empty: it would select every Machine of the Cluster"}},
		"too hasty":          {Obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, checks: {nodeStartupTimeoutSeconds: 29}}", Want: []string{"spec.checks.nodeStartupTimeoutSeconds: Invalid value: 29: must be 30 or more, or 0 for no limit"}},
		"of two clusters":    {Obj: "spec: {clusterName: c, selector: {matchLabels: {cluster.x-k8s.io/cluster-name: d}}}", Want: []string{`spec.selector.matchLabels[cluster.x-k8s.io/cluster-name]: Invalid value: "d": must be the same as spec.clusterName`}},
		"how much of what":   {Obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: most}}}", Want: []string{`spec.remediation.triggerIf.unhealthyLessThanOrEqualTo: Invalid value: "most": must be a number, or a percentage such as 20%`}},
		"a template":         {Obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, remediation: {templateRef: {apiVersion: x.io/v1, kind: FixTemplate, name: fix}}}"},
		"no template":        {Obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, remediation: {templateRef: {apiVersion: x.io/v1, kind: Fix, name: fix}}}", Want: []string{`spec.remediation.templateRef: Invalid value: "Fix.x.io/v1": is not a template, the kind of which ends in Template: refer to a template for a request to remediate a Machine`}},
		"one that was there": {Obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}, remediation: {templateRef: {apiVersion: x.io/v1, kind: Fix, name: fix}}}", Old: "spec: {clusterName: c, remediation: {templateRef: {apiVersion: x.io/v1, kind: Fix, name: fix}}}"},
		"another cluster":    {Obj: "spec: {clusterName: c, selector: {matchLabels: {a: b}}}", Old: "spec: {clusterName: d}", Want: []string{`spec.clusterName: Invalid value: "c": cannot change: it was "d"; create another object instead`}},
	})
}

func TestValidateMachineDrainRule(t *testing.T) {
	t.Parallel()
	builder.CheckValidation(t, ValidateMachineDrainRule, map[string]builder.Validated{
		"in order":        {Obj: "spec: {drain: {behavior: Drain, order: 1}, machines: [{selector: {matchLabels: {a: b}}}], pods: [{}]}"},
		"order for skips": {Obj: "spec: {drain: {behavior: Skip, order: 1}}", Want: []string{"spec.drain.order: Invalid value: 1: is only for behavior Drain; leave it out"}},
		"bad selectors": {Obj: "spec: {drain: {behavior: Skip}, machines: [{clusterSelector: {matchExpressions: [{key: a, operator: In}]}}], pods: [{namespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}}]}", Want: []string{
			"spec.machines[0].clusterSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
			"spec.pods[0].namespaceSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"}},
	})
}
