// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
)

// wholeClass is a class with one of everything.
const wholeClass = `metadata: {namespace: ns, name: x}
spec:
  infrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: HostsTemplate, name: hosts}, naming: {template: '{{ .cluster.name }}-i'}}
  controlPlane:
    templateRef: {apiVersion: controlplane.t.io/v1, kind: PlaneTemplate, name: plane}
    machineInfrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: HostTemplate, name: host}}
    naming: {template: '{{ .cluster.name }}-{{ .random }}'}
    taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]
    healthCheck: {checks: {nodeStartupTimeoutSeconds: 600}, remediation: {triggerIf: {unhealthyLessThanOrEqualTo: 20%}}}
  workers:
    machineDeployments:
    - {class: small, naming: {template: '{{ .machineDeployment.topologyName }}'}, rollout: {strategy: {type: RollingUpdate}}, bootstrap: {templateRef: {apiVersion: bootstrap.t.io/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: HostTemplate, name: host}}}
    - {class: big-one, bootstrap: {templateRef: {apiVersion: bootstrap.t.io/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: BigTemplate, name: big}}}
    machinePools:
    - {class: pool, naming: {template: '{{ .machinePool.topologyName }}'}, bootstrap: {templateRef: {apiVersion: bootstrap.t.io/v1, kind: BootTemplate, name: boot}}, infrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: PoolTemplate, name: pool}}}
  variables:
  - {name: image, required: true, schema: {openAPIV3Schema: {type: object, properties: {name: {type: string}}}}}
  kubernetesVersions: [v1.33.2, v1.34.0, v1.34.1+a, v1.34.1+b, v1.35.0]
  patches:
  - name: p
    enabledIf: '{{ eq .image.name "x" }}'
    definitions:
    - selector: {apiVersion: infrastructure.t.io/v1, kind: HostTemplate, matchResources: {controlPlane: true, machineDeploymentClass: {names: [sm*]}}}
      jsonPatches:
      - {op: add, path: /spec/template/spec/image, valueFrom: {variable: image.name}}
      - {op: add, path: /spec/template/spec/args/-, valueFrom: {variable: 'builtin.cluster.network.pods[0]'}}
      - {op: replace, path: /spec/template/spec/size, value: 3}
      - {op: remove, path: /spec/template/spec/old}
      - {op: add, path: /spec/template/spec/name, valueFrom: {template: '{{ .builtin.cluster.name | upper }}'}}
  - {name: q, external: {discoverVariablesExtension: a.b}}
  - {name: r, external: {validateTopologyExtension: a.b}}
`

// validClass is a row of a table: the class above with some of it changed.
func validClass(want string, changes ...string) builder.Validated {
	v := builder.Validated{Obj: strings.NewReplacer(changes...).Replace(wholeClass)}
	if want != "" {
		v.Want = strings.Split(want, "\n")
	}
	return v
}

func TestValidateClass(t *testing.T) {
	t.Parallel()
	const md = "spec.workers.machineDeployments[small]"
	builder.CheckValidation(t, ValidateClass, map[string]builder.Validated{
		"complete": validClass(""),
		"no template": validClass(`spec.infrastructure.templateRef: Invalid value: "Hosts.infrastructure.t.io": is not a template, the kind of which ends in Template: refer to a template for the infrastructure of a Cluster`,
			"kind: HostsTemplate", "kind: Hosts"),
		"a template of Cluster API": validClass(`spec.controlPlane.templateRef: Invalid value: "PlaneTemplate.cluster.x-k8s.io": group cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be a control plane`,
			"controlplane.t.io/v1", "cluster.x-k8s.io/v1beta2"),
		"a template for something else": validClass(md+`.bootstrap.templateRef: Invalid value: "BootTemplate.infrastructure.cluster.x-k8s.io": group infrastructure.cluster.x-k8s.io is not for the bootstrap configuration of a Machine: refer to a kind that is`+"\n"+
			`spec.workers.machineDeployments[big-one].bootstrap.templateRef: Invalid value: "BootTemplate.infrastructure.cluster.x-k8s.io": group infrastructure.cluster.x-k8s.io is not for the bootstrap configuration of a Machine: refer to a kind that is`+"\n"+
			`spec.workers.machinePools[pool].bootstrap.templateRef: Invalid value: "BootTemplate.infrastructure.cluster.x-k8s.io": group infrastructure.cluster.x-k8s.io is not for the bootstrap configuration of a Machine: refer to a kind that is`, "bootstrap.t.io", "infrastructure.cluster.x-k8s.io"),
		"a class of workers twice": validClass(`spec.workers.machineDeployments[small].class: Duplicate value: "small"`, "big-one", "small"),
		"a health check of no machines": validClass("spec.controlPlane.healthCheck: Forbidden: needs machineInfrastructure: without it there are no Machines of the control plane to check",
			"    machineInfrastructure: {templateRef: {apiVersion: infrastructure.t.io/v1, kind: HostTemplate, name: host}}\n", "", "controlPlane: true, ", ""),
		"a hasty health check": validClass("spec.controlPlane.healthCheck.checks.nodeStartupTimeoutSeconds: Invalid value: 6: must be 30 or more, or 0 for no limit", "nodeStartupTimeoutSeconds: 600", "nodeStartupTimeoutSeconds: 6"),
		"an amount":            validClass(`spec.controlPlane.healthCheck.remediation.triggerIf.unhealthyLessThanOrEqualTo: Invalid value: "some": must be a number, or a percentage such as 20%`, "20%", "some"),
		"no Go template":       validClass("spec.infrastructure.naming.template: Invalid value: \"{{ .cluster.name-i\": is no Go template: template: name:1: bad character U+002D '-'", "'{{ .cluster.name }}-i'", "'{{ .cluster.name-i'"),
		"names of another kind": validClass(`spec.controlPlane.naming.template: Invalid value: "{{ .machineDeployment.topologyName }}": can use .cluster.name and .random: template: name:1:21: executing "name" at <.machineDeployment.topologyName>: map has no entry for key "machineDeployment"`,
			"'{{ .cluster.name }}-{{ .random }}'", "'{{ .machineDeployment.topologyName }}'"),
		"bad names": validClass(`spec.workers.machinePools[pool].naming.template: Invalid value: "A": makes names such as "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			"'{{ .machinePool.topologyName }}'", "A"),
		"taints of others": validClass(md+`.taints[0].key: Invalid value: "node-role.kubernetes.io/control-plane": is for control plane machines; choose another key`,
			"{class: small,", "{class: small, taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}],"),
		"taints of a pool": validClass("spec.workers.machinePools[pool].taints: Forbidden: the provider of a pool makes its machines and knows nothing of taints; set them in the bootstrap config", "{class: pool,", "{class: pool, taints: [{key: a, effect: NoSchedule}],"),
		"metadata": validClass(md+`.metadata.annotations: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
			"{class: small,", "{class: small, metadata: {annotations: {'a b': c}},"),
		"a rollout that never ends": validClass(md+`.rollout.strategy.rollingUpdate.maxUnavailable: Invalid value: "0": must not be 0 when maxSurge is 0: nothing could ever be replaced`,
			"type: RollingUpdate", "type: RollingUpdate, rollingUpdate: {maxSurge: 0, maxUnavailable: 0}"),
		"a variable":          validClass(`spec.variables[image].schema.openAPIV3Schema.type: Unsupported value: "file": supported values: "array", "boolean", "integer", "number", "object", "string"`, "{type: object, properties: {name: {type: string}}}", "{type: file}"),
		"versions downwards":  validClass(`spec.kubernetesVersions[4]: Invalid value: "v1.33.3": must be higher than v1.34.1+b, which is before it`, "v1.35.0", "v1.33.3"),
		"a version twice":     validClass(`spec.kubernetesVersions[3]: Invalid value: "v1.34.1+a": must be higher than v1.34.1+a, which is before it`, "+b", "+a"),
		"a minor left out":    validClass(`spec.kubernetesVersions[4]: Invalid value: "v1.36.0": leaves out a minor version after v1.34.1+b: an upgrade goes through each`, "v1.35.0", "v1.36.0"),
		"no version":          validClass(`spec.kubernetesVersions[4]: Invalid value: "1.35.0": must be a semantic version with a leading v, such as v1.34.1`, "v1.35.0", "1.35.0"),
		"versions and a plan": validClass("", "  patches:\n", "  upgrade: {external: {generateUpgradePlanExtension: a.b}}\n  patches:\n"),
	})
}

func TestAClassStaysWhatItsClustersWereMadeFrom(t *testing.T) {
	t.Parallel()
	change := func(want string, changes ...string) builder.Validated {
		v := validClass(want, changes...)
		v.Old = wholeClass
		return v
	}
	builder.CheckValidation(t, ValidateClass, map[string]builder.Validated{
		"as it was":         change(""),
		"other names":       change("", "name: hosts", "name: others"),
		"another version":   change("", "t.io/v1", "t.io/v2"),
		"another bootstrap": change("", "BootTemplate", "OtherTemplate"),
		"another kind":      change("spec: Forbidden: spec.infrastructure.templateRef is a OtherTemplate.infrastructure.t.io, and was a HostsTemplate.infrastructure.t.io; Clusters of the class could not follow: make another class", "HostsTemplate", "OtherTemplate"),
	})
	stored := strings.ReplaceAll(wholeClass, "kind: HostsTemplate", "kind: Hosts")
	builder.CheckValidation(t, ValidateClass, map[string]builder.Validated{
		"what was stored stays editable": {Obj: strings.ReplaceAll(stored, "v1.35.0", "v1.35.1"), Old: stored},
	})
}

func TestTemplateBombsAreRefused(t *testing.T) {
	t.Parallel()
	const workers, patch = "spec.workers.", "spec.patches[p]."
	for name, bomb := range builder.TemplateBombs() {
		class := builder.Parse[clusterv1.ClusterClass](t, wholeClass)
		spec := &class.Spec
		fields := map[string]*string{
			"spec.infrastructure.naming.template": &spec.Infrastructure.Naming.Template,
			"spec.controlPlane.naming.template":   &spec.ControlPlane.Naming.Template,
			workers + "machineDeployments[" + spec.Workers.MachineDeployments[0].Class + "].naming.template": &spec.Workers.MachineDeployments[0].Naming.Template,
			workers + "machinePools[" + spec.Workers.MachinePools[0].Class + "].naming.template":             &spec.Workers.MachinePools[0].Naming.Template,
			patch + "enabledIf": &spec.Patches[0].EnabledIf,
		}
		op := &spec.Patches[0].Definitions[0].JSONPatches[0]
		op.ValueFrom = &clusterv1.JSONPatchValue{Template: "x"}
		fields[patch+"definitions[0].jsonPatches[0].valueFrom.template"] = &op.ValueFrom.Template
		for at, text := range fields {
			if name == "recursion" && strings.HasPrefix(at, patch) {
				continue // a patch may define templates: where it is rendered it ends at a depth
			}
			before := *text
			*text = bomb
			if errs := ValidateClass(class, nil); len(errs) != 1 || errs[0].Field != at || errs[0].Type != field.ErrorTypeInvalid {
				t.Errorf("%s in %s: got %v, want it refused", name, at, errs)
			}
			*text = before
		}
	}
}

func TestValidatePatches(t *testing.T) {
	t.Parallel()
	const p, d = "spec.patches[p]", "spec.patches[p].definitions[0]"
	const match, names = d + ".selector.matchResources", "machineDeploymentClass: {names: [sm*]}"
	const unlike = "there is no HostTemplate of infrastructure.t.io/v1 there: correct apiVersion and kind, or what is matched"
	const first = "{op: add, path: /spec/template/spec/image, valueFrom: {variable: image.name}}"
	op := func(want, op string) builder.Validated {
		return validClass(strings.ReplaceAll(want, "HERE", d+".jsonPatches[0]"), first, op)
	}
	builder.CheckValidation(t, ValidateClass, map[string]builder.Validated{
		"a name twice":             validClass(`spec.patches[1].name: Duplicate value: "p"`, "name: q", "name: p"),
		"a name that means more":   validClass(`spec.patches[1].name: Invalid value: "inline": "inline" is what variables of the class itself are from; choose another name`, "name: q", "name: inline"),
		"no name":                  validClass("spec.patches[1].name: Required value: a patch needs a name", "name: q, ", ""),
		"no Go template":           validClass(p+`.enabledIf: Invalid value: "{{ eq .image.name": is no Go template: template: template:1: unclosed action`, `'{{ eq .image.name "x" }}'`, "'{{ eq .image.name'"),
		"a function there is not":  validClass(p+`.enabledIf: Invalid value: "{{ shout .image.name }}": is no Go template: template: template:1: function "shout" not defined`, `'{{ eq .image.name "x" }}'`, "'{{ shout .image.name }}'"),
		"neither":                  validClass("spec.patches[q]: Required value: set definitions, or external", ", external: {discoverVariablesExtension: a.b}", ""),
		"both":                     validClass(p+".external: Forbidden: excludes definitions: make two patches of them", "  - name: p\n", "  - name: p\n    external: {discoverVariablesExtension: a.b}\n"),
		"no handler":               validClass("spec.patches[q].external: Required value: set generatePatchesExtension, validateTopologyExtension or discoverVariablesExtension to the handler of an extension", "{discoverVariablesExtension: a.b}", "{settings: {a: b}}"),
		"nothing selected":         validClass(match+": Required value: pick something: controlPlane, infrastructureCluster, machineDeploymentClass or machinePoolClass", "{controlPlane: true, "+names+"}", "{controlPlane: false}"),
		"no such infrastructure":   validClass(match+".infrastructureCluster: Invalid value: true: "+unlike, "controlPlane: true", "infrastructureCluster: true"),
		"no such control plane":    validClass(match+`.controlPlane: Invalid value: true: there is no BigTemplate of infrastructure.t.io/v1 there: correct apiVersion and kind, or what is matched`+"\n"+match+`.machineDeploymentClass.names[0]: Invalid value: "sm*": there is no BigTemplate of infrastructure.t.io/v1 there: correct apiVersion and kind, or what is matched`, "selector: {apiVersion: infrastructure.t.io/v1, kind: HostTemplate", "selector: {apiVersion: infrastructure.t.io/v1, kind: BigTemplate"),
		"all classes":              validClass("", "[sm*]", "['*']"),
		"classes by their end":     validClass("", "[sm*]", "['*all']"),
		"no such class":            validClass(match+`.machineDeploymentClass.names[0]: Invalid value: "other": matches no class of the ClusterClass`, "[sm*]", "[other]"),
		"a class of other kinds":   validClass(match+`.machineDeploymentClass.names[0]: Invalid value: "big*": `+unlike, "[sm*]", "[big*]"),
		"stars":                    validClass(match+`.machineDeploymentClass.names[0]: Invalid value: "*a*": may have one *, at its beginning or at its end`+"\n"+match+`.machineDeploymentClass.names[1]: Invalid value: "s*l": may have one *, at its beginning or at its end`, "[sm*]", "['*a*', 's*l']"),
		"no names":                 validClass(match+".machineDeploymentClass.names: Required value: name the classes; * means all", "[sm*]", "[]"),
		"pools of other kinds":     validClass(match+`.machinePoolClass.names[0]: Invalid value: "pool": `+unlike, names, "machinePoolClass: {names: [pool]}"),
		"elsewhere":                op(`HERE.path: Invalid value: "/metadata/labels/a": must start with /spec: nothing else of a template is patched`, "{op: add, path: /metadata/labels/a, value: b}"),
		"almost in spec":           op(`HERE.path: Invalid value: "/special": must start with /spec: nothing else of a template is patched`, "{op: add, path: /special, value: b}"),
		"at the beginning":         op("", "{op: add, path: /spec/a/0, value: b}"),
		"in the middle":            op(`HERE.path: Invalid value: "/spec/a/1": can add to a list only at its beginning (0) or end (-)`, "{op: add, path: /spec/a/1, value: b}"),
		"an item replaced":         op(`HERE.path: Invalid value: "/spec/a/0/b": must not name an item of a list: only add can, at its beginning (0) or end (-)`, "{op: replace, path: /spec/a/0/b, value: b}"),
		"an item removed":          op(`HERE.path: Invalid value: "/spec/a/-": must not name an item of a list: only add can, at its beginning (0) or end (-)`, "{op: remove, path: /spec/a/-}"),
		"another operation":        op(`HERE.op: Unsupported value: "move": supported values: "add", "replace", "remove"`, "{op: move, path: /spec/a}"),
		"what is removed is":       op("HERE: Forbidden: what is removed has neither value nor valueFrom", "{op: remove, path: /spec/a, value: b}"),
		"no value":                 op(`HERE: Invalid value: "/spec/a": set either value or valueFrom`, "{op: add, path: /spec/a}"),
		"two values":               op(`HERE: Invalid value: "/spec/a": set either value or valueFrom`, "{op: add, path: /spec/a, value: b, valueFrom: {variable: image}}"),
		"two sources":              op(`HERE.valueFrom: Invalid value: "/spec/a": set either variable or template`, "{op: add, path: /spec/a, valueFrom: {variable: image, template: b}}"),
		"no source":                op(`HERE.valueFrom: Invalid value: "/spec/a": set either variable or template`, "{op: add, path: /spec/a, valueFrom: {}}"),
		"no Go template for value": op(`HERE.valueFrom.template: Invalid value: "{{": is no Go template: template: template:1: unclosed action`, "{op: add, path: /spec/a, valueFrom: {template: '{{'}}"),
		"an unknown variable":      op(`HERE.valueFrom.variable: Invalid value: "images.name": there is no such variable: define it in spec.variables, or use one that is built in`, "{op: add, path: /spec/a, valueFrom: {variable: images.name}}"),
	})
}

func TestWhichVariablesAreBuiltIn(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		"builtin": true, "builtin.cluster": true, "builtin.cluster.name": true, "builtin.cluster.topology.classRef.namespace": true,
		"builtin.cluster.metadata.labels": true, "builtin.cluster.metadata.labels.a": true, "builtin.cluster.network.services[1]": true,
		"builtin.controlPlane.machineTemplate.infrastructureRef.name": true, "builtin.machineDeployment.bootstrap.configRef.name": true,
		"builtin.machinePool.topologyName": true, "builtin.machineDeployment.replicas": true,
		"builtin.": false, "builtin[0]": false, "builtin.clusters": false, "builtin.cluster.name.first": false, "builtin.cluster.network.services.first": false,
		"builtin.cluster.network.services[a]": false, "builtin.cluster.network.services[1": false, "builtin.cluster.network.services[-1]": false, "builtins.cluster": false,
	} {
		if got := readable(path, nil); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
