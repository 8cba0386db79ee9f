// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/defaulting"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// checked has one object of each kind whose content is checked.
var checked = []runtime.Object{
	&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.Namespace{}, &corev1.Node{}, &corev1.Pod{}, &corev1.PodTemplate{}, &corev1.Service{}, &corev1.ResourceQuota{}, &corev1.LimitRange{},
	&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.ControllerRevision{}, &batchv1.Job{}, &batchv1.CronJob{},
	&policyv1.PodDisruptionBudget{}, &coordinationv1.Lease{}, &rbacv1.Role{}, &rbacv1.ClusterRole{}, &rbacv1.RoleBinding{}, &rbacv1.ClusterRoleBinding{},
}

// FuzzObject: nothing that is decoded as an object panics, with the defaults of its kind or
// without them, and the defaults leave it an object of its kind.
func FuzzObject(f *testing.F) {
	for _, text := range []string{
		"", "{}", "spec: {}", "spec: {template: {}}", "spec: {containers: [{}], volumes: [{}], tolerations: [{}]}", "spec: {ports: [{}], clusterIPs: ['']}", "spec: {limits: [{}], hard: {'': 0}}",
		"spec: {affinity: {nodeAffinity: {}, podAffinity: {}, podAntiAffinity: {}}, dnsConfig: {}, securityContext: {}}", "spec: {selector: {}, strategy: {rollingUpdate: {}}, updateStrategy: {rollingUpdate: {}}}",
		"spec: {schedule: '', jobTemplate: {}, timeZone: ''}", "spec: {minAvailable: '%', maxUnavailable: '99999999999999999999%'}", "spec: {limits: [{type: Container, min: {cpu: 0}, max: {cpu: 1}, maxLimitRequestRatio: {cpu: 1e30}}]}",
		"spec: {containers: [{livenessProbe: {}, lifecycle: {preStop: {}}, env: [{valueFrom: {}}], resources: {limits: {/: 1}}}]}", "rules: [{}]\naggregationRule: {}\nroleRef: {}\nsubjects: [{}]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, of := range checked {
			obj := of.DeepCopyObject()
			if yaml.Unmarshal([]byte(text), obj) != nil {
				continue
			}
			Object(obj)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
			if err != nil {
				t.Fatal(err)
			}
			defaulting.Fill(kinds.ByType(obj).GroupResource(), content)
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj); err != nil {
				t.Fatalf("%T with defaults: %v", obj, err)
			}
			Object(obj)
		}
	})
}
