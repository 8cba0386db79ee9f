// SPDX-License-Identifier: Apache-2.0

package extension_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
)

// patch is a patch as it is sent.
func patch(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// patches returns the answer of GeneratePatches, with the uid of the control
// plane's template in place of UID.
func patches(items ...string) func(c *call) {
	return func(c *call) {
		uid := ""
		for _, item := range c.request["items"].([]any) {
			if u, _ := item.(map[string]any)["uid"].(string); strings.HasPrefix(u, "conformance-control-plane") && !strings.Contains(u, "machine") {
				uid = u
			}
		}
		list := []any{}
		for _, text := range items {
			kind, body, _ := strings.Cut(text, " ")
			uidOfItem, kind, found := strings.Cut(kind, ":")
			if !found {
				uidOfItem, kind = uid, uidOfItem
			}
			list = append(list, map[string]any{"uid": uidOfItem, "patchType": kind, "patch": patch(body)})
		}
		c.answer["items"] = list
	}
}

func mispatches() map[string]misbehaviour {
	const deterministic = "GeneratePatches answers a request with the same patches each time."
	const apply = "GeneratePatches patches templates of the request, with patches that apply."
	const kept = "GeneratePatches patches nothing that is thrown away."
	const idempotent = "GeneratePatches leaves alone what it has patched."
	const accepted = "ValidateTopology accepts what GeneratePatches of the same extension makes."
	const hook = "GeneratePatches"
	var turn atomic.Int32
	says := func(items ...string) middleware { return answers(hook, patches(items...)) }
	return map[string]misbehaviour{
		"patches come in another order each time": {hook, answers(hook, func(c *call) {
			a, b := `{"op":"add","path":"/metadata/labels","value":{"a":"a"}}`, `{"op":"add","path":"/metadata/annotations","value":{"b":"b"}}`
			if turn.Add(1)%2 == 0 {
				a, b = b, a
			}
			patches("JSONPatch [" + a + "," + b + "]")(c)
		}), deterministic, "other patches for conformance-control-plane"},
		"a patch has no item":                {hook, says(`missing:JSONMergePatch {"metadata":{"labels":{"a":"b"}}}`), apply, `no item with uid "missing"`},
		"a patch is of no known type":        {hook, says(`StrategicMergePatch {"metadata":{"labels":{"a":"b"}}}`), apply, "StrategicMergePatch"},
		"a patch has no type":                {hook, says(` {"metadata":{"labels":{"a":"b"}}}`), apply, `its type is ""`},
		"a JSON patch is no JSON":            {hook, says(`JSONPatch [{"op":`), apply, "no JSON patch"},
		"a JSON patch is of the other type":  {hook, says(`JSONPatch {"spec":{}}`), apply, "no JSON patch"},
		"a merge patch is a list":            {hook, says(`JSONMergePatch [1]`), apply, "no object"},
		"a patch leaves nothing":             {hook, says(`JSONMergePatch null`), apply, "no object"},
		"a patch replaces what is not there": {hook, says(`JSONPatch [{"op":"replace","path":"/spec/template/spec/nothing","value":1}]`), apply, "does not apply"},
		"a test of a patch fails":            {hook, says(`JSONPatch [{"op":"test","path":"/kind","value":"Pod"}]`), apply, "does not apply"},
		"a template is renamed":              {hook, says(`JSONMergePatch {"metadata":{"name":"other"}}`), kept, "metadata.name"},
		"a status is patched":                {hook, says(`JSONMergePatch {"status":{"ready":true}}`), kept, "of KubeadmControlPlaneTemplate capstan-conformance, status is patched"},
		"arguments pile up": {hook, says(`JSONPatch [{"op":"add","path":"/spec/template/spec/kubeadmConfigSpec/clusterConfiguration/apiServer/extraArgs/-","value":{"name":"v","value":"4"}}]`),
			idempotent, "clusterConfiguration.apiServer.extraArgs is changed again"},
		"patched templates cannot be patched again": {hook, answers(hook, func(c *call) {
			if text, _ := json.Marshal(c.request); strings.Contains(string(text), "imageRepository\":\"registry.example.com\"") {
				c.answer["status"], c.answer["message"] = "Failure", "there is a registry"
			}
		}), idempotent, "there is a registry"},
		"what is patched is not valid": {"ValidateTopology", answers(hook, patches(`JSONMergePatch {"metadata":{"labels":{"a":"b"}}}`)), accepted, "the registry is missing"},
	}
}

func misdefinitions() map[string]misbehaviour {
	const names = "DiscoverVariables gives each variable a name of its own."
	const schemas = "DiscoverVariables gives each variable a structural schema."
	const hook = "DiscoverVariables"
	first := func(change func(v map[string]any)) middleware {
		return answers(hook, func(c *call) { change(c.answer["variables"].([]any)[0].(map[string]any)) })
	}
	schema := func(text string) middleware {
		return first(func(v map[string]any) { v["schema"] = map[string]any{"openAPIV3Schema": json.RawMessage(text)} })
	}
	return map[string]misbehaviour{
		"a variable is there twice":       {hook, first(func(v map[string]any) { v["name"] = "other" }), names, `Duplicate value: "other"`},
		"a variable has no name":          {hook, first(func(v map[string]any) { v["name"] = "" }), names, "needs a name"},
		"a variable has a reserved name":  {hook, first(func(v map[string]any) { v["name"] = "builtin" }), names, "that every Cluster has"},
		"a variable has a dot":            {hook, first(func(v map[string]any) { v["name"] = "a.b" }), names, "dot"},
		"a variable has a very long name": {hook, first(func(v map[string]any) { v["name"] = strings.Repeat("a", 257) }), names, "256 bytes"},
		"a variable has no schema":        {hook, schema(`{}`), schemas, "type"},
		"a field of a variable has no type": {hook, schema(`{"type":"object","properties":{"a":{"description":"any"}}}`),
			schemas, "a"},
		"a list has no items":        {hook, schema(`{"type":"array"}`), schemas, "items"},
		"a rule is no CEL":           {hook, schema(`{"type":"string","x-kubernetes-validations":[{"rule":"self =="}]}`), schemas, "Syntax error"},
		"a variable may be required": {hook, first(func(v map[string]any) { delete(v, "required") }), schemas, "whether a Cluster must set"},
	}
}

func misupdates() map[string]misbehaviour {
	const apply = "CanUpdateMachine and CanUpdateMachineSet patch the spec of current objects, with patches that apply."
	const towards = "CanUpdateMachine and CanUpdateMachineSet patch towards what is desired."
	const nothing = "CanUpdateMachine and CanUpdateMachineSet patch nothing when nothing differs."
	const machine, set_ = "CanUpdateMachine", "CanUpdateMachineSet"
	says := func(hook, field, kind, text string) middleware {
		return answers(hook, func(c *call) {
			if fmt.Sprint(c.request["current"]) != fmt.Sprint(c.request["desired"]) {
				c.answer[field] = map[string]any{"patchType": kind, "patch": patch(text)}
			}
		})
	}
	return map[string]misbehaviour{
		"a machine is renamed in place":                   {machine, says(machine, "machinePatch", "JSONMergePatch", `{"metadata":{"labels":{"a":"b"}}}`), apply, "machinePatch changes metadata.labels.a"},
		"a machine set gets other replicas":               {set_, says(set_, "machineSetPatch", "JSONMergePatch", `{"spec":{"replicas":2,"minReadySeconds":9}}`), apply, "not in spec.template.spec"},
		"an in-place patch does not apply":                {machine, says(machine, "machinePatch", "JSONPatch", `[{"op":"remove","path":"/spec/nothing"}]`), apply, "does not apply"},
		"an in-place patch has no type":                   {machine, says(machine, "infrastructureMachinePatch", "", `{}`), apply, "its type"},
		"another version than the desired one is reached": {machine, says(machine, "machinePatch", "JSONMergePatch", `{"spec":{"version":"v1.99.0"}}`), towards, "machinePatch makes of spec.version"},
		"an undesired field is added": {set_, says(set_, "bootstrapConfigTemplatePatch", "JSONMergePatch", `{"spec":{"template":{"spec":{"format":"ignition"}}}}`),
			towards, "spec.template.spec.format"},
		"a machine is updated that is as it should be": {machine, set(machine, "machinePatch", map[string]any{"patchType": "JSONMergePatch", "patch": patch(`{"spec":{"version":"v1.36.0"}}`)}), nothing, "machinePatch changes spec.version"},
		"nothing to do is a Failure": {machine, answers(machine, func(c *call) {
			if fmt.Sprint(c.request["current"]) == fmt.Sprint(c.request["desired"]) {
				c.answer["status"], c.answer["message"] = "Failure", "there is nothing to do"
			}
		}), nothing, "there is nothing to do"},
	}
}

func misplans() map[string]misbehaviour {
	const there = "GenerateUpgradePlan leads the control plane to the version that is wanted, one minor version at a time."
	const workers = "GenerateUpgradePlan leads workers only to versions that the control plane goes to."
	const hook = "GenerateUpgradePlan"
	plan := func(field string, versions ...string) middleware {
		return answers(hook, func(c *call) {
			steps := []any{}
			for _, v := range versions {
				steps = append(steps, map[string]any{"version": v})
			}
			c.answer[field] = steps
			if field == "controlPlaneUpgrades" {
				delete(c.answer, "workersUpgrades") // left to the caller
			}
		})
	}
	return map[string]misbehaviour{
		"a plan leaves out a minor version":                    {hook, plan("controlPlaneUpgrades", "v1.36.0"), there, "expecting a version with minor 34 or 35"},
		"a plan goes back":                                     {hook, plan("controlPlaneUpgrades", "v1.35.2", "v1.35.1", "v1.36.0"), there, "must be greater than"},
		"a plan stays where it is":                             {hook, plan("controlPlaneUpgrades", "v1.34.3", "v1.35.0", "v1.36.0"), there, "must be greater than"},
		"a plan ends too early":                                {hook, plan("controlPlaneUpgrades", "v1.35.2"), there, "must end with version v1.36.0"},
		"a plan goes too far":                                  {hook, plan("controlPlaneUpgrades", "v1.35.2", "v1.36.1"), there, "must end with version v1.36.0"},
		"a plan is empty":                                      {hook, plan("controlPlaneUpgrades"), there, "must end with version v1.36.0"},
		"a plan has a version without a v":                     {hook, plan("controlPlaneUpgrades", "1.35.2", "v1.36.0"), there, `"1.35.2"`},
		"workers upgrade to a version without a control plane": {hook, plan("workersUpgrades", "v1.35.0", "v1.36.0"), workers, "match any versions in the control plane upgrade plan"},
		"workers end too early":                                {hook, plan("workersUpgrades", "v1.35.2"), workers, "must end with version v1.36.0"},
		"workers go back":                                      {hook, plan("workersUpgrades", "v1.36.0", "v1.35.2"), workers, "must be greater than"},
		"a plan of workers is not of versions":                 {hook, plan("workersUpgrades", "latest"), workers, `"latest"`},
	}
}
