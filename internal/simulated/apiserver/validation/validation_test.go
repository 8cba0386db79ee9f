// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/defaulting"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// TestObjectRefusesWhatControllersCannotHandle has for each kind a good object, and changes
// of it that an API server refuses.
func TestObjectRefusesWhatControllersCannotHandle(t *testing.T) {
	t.Parallel()
	const (
		pod  = "containers: [{name: c, image: v1}]"
		of   = "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {" + pod + "}}"
		job  = "template: {spec: {restartPolicy: Never, " + pod + "}}"
		cron = "schedule: '* * * * *', jobTemplate: {spec: {" + job + "}}"
	)
	type change struct{ from, to, want string }
	for name, tc := range map[string]struct {
		obj     runtime.Object
		spec    string
		changes []change
	}{
		"Pod": {&corev1.Pod{}, pod, []change{
			{"image: v1", "image: ''", "spec.containers[0].image: Required value"},
			{"image: v1", "image: ' '", "spec.containers[0].image: Invalid value"},
			{"name: c", "name: C", `spec.containers[0].name: Invalid value: "C"`},
			{"image: v1", "image: v1, resources: {requests: {cpu: -1}}", "spec.containers[0].resources.requests[cpu]: Invalid value"},
			{"image: v1}", "image: v1}, {name: c, image: v1}", `spec.containers[1].name: Duplicate value: "c"`},
		}},
		"Service": {&corev1.Service{}, "ports: [{port: 80}]", []change{{"80", "70000", "spec.ports[0].port: Invalid value: 70000"}}},
		"Deployment": {&appsv1.Deployment{}, "replicas: 1, " + of, []change{
			{"replicas: 1", "replicas: -1", "spec.replicas: Invalid value: -1"},
			{"replicas: 1", "replicas: 1, revisionHistoryLimit: -1", "spec.revisionHistoryLimit: Invalid value: -1"},
			{"labels: {a: b}", "labels: {a: c}", "`selector` does not match template `labels`"},
			{"matchLabels: {a: b}", "matchLabels: {}", "spec.selector: Invalid value"},
			{"replicas: 1", "replicas: 1, strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0%}}", "spec.strategy.rollingUpdate.maxUnavailable: Invalid value"},
			{"containers:", "restartPolicy: Never, containers:", `spec.template.spec.restartPolicy: Unsupported value: "Never"`},
		}},
		"ReplicaSet":  {&appsv1.ReplicaSet{}, "replicas: 1, " + of, []change{{"replicas: 1", "replicas: -1", "spec.replicas: Invalid value: -1"}}},
		"StatefulSet": {&appsv1.StatefulSet{}, "replicas: 1, " + of, []change{{"replicas: 1", "replicas: -1", "spec.replicas: Invalid value: -1"}}},
		"DaemonSet":   {&appsv1.DaemonSet{}, of, []change{{"image: v1", "image: ''", "spec.template.spec.containers[0].image: Required value"}}},
		"Job": {&batchv1.Job{}, job, []change{
			{"Never", "Always", `spec.template.spec.restartPolicy: Unsupported value: "Always"`},
			{"template:", "parallelism: -1, template:", "spec.parallelism: Invalid value: -1"},
		}},
		"CronJob": {&batchv1.CronJob{}, cron, []change{
			{"'* * * * *'", "'TZ=0'", `spec.schedule: Invalid value: "TZ=0"`},
			{"'* * * * *'", "'TZ=UTC * * * * *'", `spec.schedule: Invalid value: "TZ=UTC * * * * *"`},
			{"schedule:", "timeZone: Nowhere, schedule:", `spec.timeZone: Invalid value: "Nowhere"`},
			{"schedule:", "failedJobsHistoryLimit: -1, schedule:", "spec.failedJobsHistoryLimit: Invalid value: -1"},
		}},
		"PodDisruptionBudget": {&policyv1.PodDisruptionBudget{}, "minAvailable: 1", []change{{"1", "1, maxUnavailable: 1", "cannot be both set"}, {"1", "-1", "must be greater than or equal to 0"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range append(tc.changes, change{}) {
				err := Object(filled(t, tc.obj, "spec: {"+strings.Replace(tc.spec, c.from, c.to, 1)+"}")).ToAggregate()
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%s: got %v, want %q", c.to, err, c.want)
				}
			}
		})
	}
}

// filled returns an object with the defaults of its kind.
func filled(t *testing.T, of runtime.Object, text string) runtime.Object {
	t.Helper()
	obj := of.DeepCopyObject()
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	defaulting.Fill(kinds.ByType(obj).GroupResource(), content)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}
