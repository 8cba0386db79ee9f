// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/base64"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func TestObjectChecksConfigMaps(t *testing.T) {
	t.Parallel()
	large, half := strings.Repeat("x", 1<<20), strings.Repeat("x", 1<<19)
	compare(t, &corev1.ConfigMap{}, "data: {a: b}", []change{
		{"a: b", "a.b-c_D: x", ""},
		{"a: b", "a/b: x", "data[a/b]: Invalid value"},
		{"a: b", "..: x", "data[..]: Invalid value"},
		{"{a: b}", "{a: b}\nbinaryData: {a/b: eA==}", "binaryData[a/b]: Invalid value"},
		{"{a: b}", "{a: b}\nbinaryData: {a: eA==}", "data[a]: Invalid value"},
		{"a: b", "a: " + large, ""},
		{"a: b", "a: " + large + ", b: x", "Too long"},
		{"{a: b}", "{a: " + half + ", b: x}\nbinaryData: {c: " + encoded(half) + "}", "Too long"},
	})
}

func TestObjectChecksSecrets(t *testing.T) {
	t.Parallel()
	typed := func(kind, data, want string) change {
		return change{"data: {a: Yg==}", "type: " + kind + "\ndata: {" + data + "}", want}
	}
	compare(t, &corev1.Secret{}, "data: {a: Yg==}", []change{
		{"{a: ", "{a/b: ", "data[a/b]: Invalid value"},
		{"Yg==", encoded(strings.Repeat("x", 1<<20+1)), "data: Too long"},
		typed("example.com/any", "a: Yg==", ""),
		typed("kubernetes.io/tls", "tls.crt: '', tls.key: ''", ""),
		typed("kubernetes.io/tls", "tls.crt: ''", "data[tls.key]: Required value"),
		typed("kubernetes.io/ssh-auth", "ssh-privatekey: eA==", ""),
		typed("kubernetes.io/ssh-auth", "ssh-privatekey: ''", "data[ssh-privatekey]: Required value"),
		typed("kubernetes.io/basic-auth", "username: ''", ""),
		typed("kubernetes.io/basic-auth", "password: ''", ""),
		typed("kubernetes.io/basic-auth", "a: ''", "data[username]: Required value"),
		typed("kubernetes.io/dockerconfigjson", ".dockerconfigjson: "+encoded("{}"), ""),
		typed("kubernetes.io/dockerconfigjson", ".dockerconfigjson: "+encoded("x"), `data[.dockerconfigjson]: Invalid value: "<secret contents redacted>"`),
		typed("kubernetes.io/dockerconfigjson", "a: eA==", "data[.dockerconfigjson]: Required value"),
		typed("kubernetes.io/dockercfg", ".dockercfg: "+encoded("[]"), "data[.dockercfg]: Invalid value"),
		typed("kubernetes.io/service-account-token", "a: eA==", "metadata.annotations[kubernetes.io/service-account.name]: Required value"),
		{"data: {a: Yg==}", "type: kubernetes.io/service-account-token\nmetadata: {annotations: {kubernetes.io/service-account.name: a}}", ""},
	})
}

func TestObjectChecksNodesAndNamespaces(t *testing.T) {
	t.Parallel()
	taints := func(text, want string) change { return change{"spec: {}", "spec: {taints: [" + text + "]}", want} }
	spec := func(text, want string) change { return change{"spec: {}", "spec: {" + text + "}", want} }
	compare(t, &corev1.Node{}, "spec: {}", []change{
		taints("{key: a, effect: NoSchedule}, {key: a, effect: NoExecute}", ""),
		taints("{effect: NoSchedule}", "spec.taints[0].key: Invalid value"),
		taints("{key: a b, effect: NoSchedule}", "spec.taints[0].key: Invalid value"),
		taints("{key: a, value: b c, effect: NoSchedule}", "spec.taints[0].value: Invalid value"),
		taints("{key: a}", "spec.taints[0].effect: Unsupported value"),
		taints("{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule}", "spec.taints[1]: Duplicate value"),
		spec("podCIDR: 10.0.0.0/24, podCIDRs: [10.0.0.0/24, 'fd00::/64']", ""),
		spec("podCIDR: 10.0.0.0", "spec.podCIDR: Invalid value"),
		spec("podCIDR: 10.0.0.1/24", "spec.podCIDR: Invalid value"),
		spec("podCIDRs: [x]", "spec.podCIDRs[0]: Invalid value"),
		spec("podCIDRs: [10.0.0.0/24, 10.0.1.0/24]", "spec.podCIDRs: Invalid value"),
		spec("podCIDRs: [10.0.0.0/24, 'fd00::/64', 10.0.1.0/24]", "spec.podCIDRs: Invalid value"),
	})
	compare(t, &corev1.Namespace{}, "spec: {}", []change{
		spec("finalizers: [kubernetes, example.com/x]", ""),
		spec("finalizers: [other]", "spec.finalizers[0]: Invalid value"),
		spec("finalizers: [example.com/a b]", "spec.finalizers[0]: Invalid value"),
	})
}

func TestObjectChecksLeasesAndRevisions(t *testing.T) {
	t.Parallel()
	compare(t, &coordinationv1.Lease{}, "spec: {leaseDurationSeconds: 1, leaseTransitions: 0}", []change{
		{"leaseDurationSeconds: 1", "leaseDurationSeconds: 0", "spec.leaseDurationSeconds: Invalid value: 0"},
		{"leaseTransitions: 0", "leaseTransitions: -1", "spec.leaseTransitions: Invalid value: -1"},
		{"leaseDurationSeconds: 1, leaseTransitions: 0", "", ""},
	})
	compare(t, &appsv1.ControllerRevision{}, "{data: {a: b}, revision: 1}", []change{
		{"data: {a: b}, ", "", "data: Required value"},
		{"revision: 1", "revision: -1", "revision: Invalid value: -1"},
	})
	compare(t, &corev1.PodTemplate{}, "template: {spec: {containers: [{name: c, image: v1}]}}", []change{
		{"image: v1", "image: ''", "template.spec.containers[0].image: Required value"},
		{"template: {", "template: {metadata: {labels: {a: b c}}, ", "template.metadata.labels: Invalid value"},
	})
	compare(t, &rbacv1.ClusterRole{}, "aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}", []change{
		{"[{matchLabels: {a: b}}]", "[]", "aggregationRule.clusterRoleSelectors: Required value"},
		{"a: b", "a b: c", "aggregationRule.clusterRoleSelectors[0].matchLabels: Invalid value"},
	})
	compare(t, &corev1.ServiceAccount{}, "secrets: [{name: A_b}]", nil) // a kind whose content is not checked
}

func TestFinalizerHasADomainOrIsStandard(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"kubernetes": true, "orphan": true, "foregroundDeletion": true, "example.com/x": true, "other": false, "": false} {
		if errs := Finalizer(field.NewPath("f"), name); (len(errs) == 0) != want {
			t.Errorf("%q: %v, want accepted %v", name, errs, want)
		}
	}
}
