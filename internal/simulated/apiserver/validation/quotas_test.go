// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestObjectChecksQuotas(t *testing.T) {
	t.Parallel()
	hard := func(text, want string) change { return change{"hard: {pods: 1}", "hard: {" + text + "}", want} }
	added := func(text, want string) change { return change{"hard: {pods: 1}", "hard: {pods: 1}, " + text, want} }
	expression := func(text, want string) change {
		return added("scopeSelector: {matchExpressions: [{"+text+"}]}", want)
	}
	const at = "spec.scopeSelector.matchExpressions"
	compare(t, &corev1.ResourceQuota{}, "spec: {hard: {pods: 1}}", []change{
		hard("cpu: 500m, requests.memory: 1Gi, requests.storage: 1Gi, limits.ephemeral-storage: 1Gi, services.nodeports: 0, count/widgets.example.com: 1, requests.hugepages-2Mi: 2Mi, requests.example.com/gpu: 1", ""),
		hard("widgets: 1", "spec.hard[widgets]: Invalid value"),
		hard("hugepages-2Mi: 2Mi", "spec.hard[hugepages-2Mi]: Invalid value"),
		hard("a b: 1", "spec.hard[a b]: Invalid value"),
		hard("pods: -1", "spec.hard[pods]: Invalid value"),
		hard("pods: 500m", "spec.hard[pods]: Invalid value"),
		hard("secrets: 1.5", "spec.hard[secrets]: Invalid value"),
		hard("count/widgets.example.com: 500m", "spec.hard[count/widgets.example.com]: Invalid value"),

		added("scopes: [BestEffort]", ""),
		added("scopes: [Terminating, NotBestEffort]", ""),
		added("scopes: [Other]", "spec.scopes: Unsupported value"),
		added("scopes: [BestEffort, NotBestEffort]", "conflicting scopes"),
		added("scopes: [Terminating, NotTerminating]", "conflicting scopes"),
		{"pods: 1}", "cpu: 1}, scopes: [BestEffort]", "spec.scopes: Invalid value"},
		{"pods: 1}", "cpu: 1}, scopes: [NotBestEffort]", ""},
		{"pods: 1}", "services: 1}, scopes: [Terminating]", "spec.scopes: Invalid value"},
		{"pods: 1}", "example.com/gpu: 1}, scopes: [BestEffort]", ""},
		{"pods: 1}", "persistentvolumeclaims: 1}, scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [a]}]}", ""},
		{"pods: 1}", "cpu: 1}, scopeSelector: {matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [a]}]}", at + ": Invalid value"},

		expression("scopeName: PriorityClass, operator: In, values: [high]", ""),
		expression("scopeName: PriorityClass, operator: Exists", ""),
		expression("scopeName: PriorityClass, operator: DoesNotExist", ""),
		expression("scopeName: PriorityClass, operator: NotIn", at+"[0].values: Invalid value"),
		expression("scopeName: PriorityClass, operator: Exists, values: [high]", at+"[0].values: Invalid value"),
		expression("scopeName: PriorityClass, operator: Is, values: [high]", at+"[0].operator: Unsupported value"),
		expression("scopeName: BestEffort, operator: Exists", ""),
		expression("scopeName: BestEffort, operator: In, values: [a]", at+"[0].operator: Invalid value"),
		expression("scopeName: Other, operator: Exists", at+": Unsupported value"),
	})
}

func TestObjectChecksLimitRanges(t *testing.T) {
	t.Parallel()
	item := func(text, want string) change { return change{"type: Container", text, want} }
	const at = "spec.limits[0]."
	compare(t, &corev1.LimitRange{}, "spec: {limits: [{type: Container}]}", []change{
		item("type: Container, max: {cpu: 4}, min: {cpu: 1}, default: {cpu: 3}, defaultRequest: {cpu: 2}, maxLimitRequestRatio: {cpu: 2}", ""),
		item("type: Pod, max: {cpu: 4}", ""),
		item("type: example.com/x, max: {cpu: 4}", ""),
		item("type: Other", at+"type: Unsupported value"),
		item("type: a b", at+"type: Invalid value"),
		item("type: Container}, {type: Container", "spec.limits[1].type: Duplicate value"),
		item("type: Pod, default: {cpu: 1}", at+"default: Forbidden"),
		item("type: PersistentVolumeClaim", at+"limits: Required value"),
		item("type: PersistentVolumeClaim, min: {storage: 1Gi}", ""),
		item("type: Container, max: {disk: 1}", at+"max[disk]: Invalid value"),
		item("type: Container, min: {cpu: 2}, max: {cpu: 1}", at+"min[cpu]: Invalid value"),
		item("type: Container, min: {cpu: 2}, defaultRequest: {cpu: 1}", at+"defaultRequest[cpu]: Invalid value"),
		item("type: Container, defaultRequest: {cpu: 2}, max: {cpu: 1}", at+"defaultRequest[cpu]: Invalid value"),
		item("type: Container, defaultRequest: {cpu: 2}, default: {cpu: 1}", at+"defaultRequest[cpu]: Invalid value"),
		item("type: Container, min: {cpu: 2}, default: {cpu: 1}", at+"default[cpu]: Invalid value"),
		item("type: Container, default: {cpu: 2}, max: {cpu: 1}", at+"default[cpu]: Invalid value"),
		item("type: Container, default: {example.com/gpu: 2}, defaultRequest: {example.com/gpu: 1}", at+"defaultRequest[example.com/gpu]: Invalid value"),
		item("type: Container, maxLimitRequestRatio: {cpu: 500m}", at+"maxLimitRequestRatio[cpu]: Invalid value"),
		item("type: Container, min: {cpu: 1}, max: {cpu: 2}, maxLimitRequestRatio: {cpu: 3}", at+"maxLimitRequestRatio[cpu]: Invalid value"),
		item("type: Container, min: {cpu: 0}, max: {cpu: 2}, maxLimitRequestRatio: {cpu: 3}", ""),
	})
}
