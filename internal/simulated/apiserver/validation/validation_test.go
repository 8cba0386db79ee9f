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
			{"replicas: 1", "strategy: {rollingUpdate: {maxUnavailable: 1, maxSurge: 200%}}", ""},
			{"replicas: 1", "strategy: {rollingUpdate: {maxUnavailable: 101%}}", "spec.strategy.rollingUpdate.maxUnavailable: Invalid value"},
			{"replicas: 1", "strategy: {rollingUpdate: {maxUnavailable: many}}", "spec.strategy.rollingUpdate.maxUnavailable: Invalid value"},
			{"replicas: 1", "strategy: {rollingUpdate: {maxSurge: -1}}", "spec.strategy.rollingUpdate.maxSurge: Invalid value: -1"},
			{"replicas: 1", "strategy: {type: Recreate}", ""},
			{"replicas: 1", "strategy: {type: Recreate, rollingUpdate: {}}", "spec.strategy.rollingUpdate: Forbidden"},
			{"replicas: 1", "strategy: {type: Never}", `spec.strategy.type: Unsupported value: "Never"`},
			{"replicas: 1", "progressDeadlineSeconds: 5, minReadySeconds: 5", "spec.progressDeadlineSeconds: Invalid value: 5"},
			{"selector: {matchLabels: {a: b}}, ", "", "spec.selector: Required value"},
			{"matchLabels: {a: b}", "matchLabels: {a b: c}", "spec.selector.matchLabels: Invalid value"},
			{"matchLabels: {a: b}", "matchExpressions: [{key: a, operator: In}]", "spec.selector.matchExpressions[0].values: Required value"},
			{"containers:", "activeDeadlineSeconds: 5, containers:", "spec.template.spec.activeDeadlineSeconds: Forbidden"},
			{"labels: {a: b}", "labels: {a: b, c: d/e}", "spec.template.metadata.labels: Invalid value"},
			{"labels: {a: b}", "labels: {a: b}, annotations: {a b: c}", "spec.template.metadata.annotations: Invalid value"},
			{"containers:", "restartPolicy: Never, containers:", `spec.template.spec.restartPolicy: Unsupported value: "Never"`},
		}},
		"ReplicaSet": {&appsv1.ReplicaSet{}, "replicas: 1, " + of, []change{{"replicas: 1", "replicas: -1", "spec.replicas: Invalid value: -1"}}},
		"StatefulSet": {&appsv1.StatefulSet{}, "replicas: 1, " + of, []change{
			{"replicas: 1", "replicas: -1", "spec.replicas: Invalid value: -1"},
			{"replicas: 1", "podManagementPolicy: Random", "spec.podManagementPolicy: Unsupported value"},
			{"replicas: 1", "updateStrategy: {type: Recreate}", "spec.updateStrategy.type: Unsupported value"},
			{"replicas: 1", "updateStrategy: {type: OnDelete}", ""},
			{"replicas: 1", "updateStrategy: {type: OnDelete, rollingUpdate: {partition: 1}}", "spec.updateStrategy.rollingUpdate: Invalid value"},
			{"replicas: 1", "updateStrategy: {rollingUpdate: {partition: -1}}", "spec.updateStrategy.rollingUpdate.partition: Invalid value"},
			{"replicas: 1", "updateStrategy: {rollingUpdate: {maxUnavailable: 50%}}", ""},
			{"replicas: 1", "updateStrategy: {rollingUpdate: {maxUnavailable: 0}}", "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value"},
			{"replicas: 1", "updateStrategy: {rollingUpdate: {maxUnavailable: 101%}}", "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value"},
			{"replicas: 1", "serviceName: A_b", "spec.serviceName: Invalid value"},
			{"replicas: 1", "ordinals: {start: -1}", "spec.ordinals.start: Invalid value"},
			{"replicas: 1", "persistentVolumeClaimRetentionPolicy: {whenDeleted: Keep}", "spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value"},
			{"replicas: 1", "persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}", "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value"},
		}},
		"DaemonSet": {&appsv1.DaemonSet{}, of, []change{
			{"image: v1", "image: ''", "spec.template.spec.containers[0].image: Required value"},
			{"selector:", "updateStrategy: {type: OnDelete}, selector:", ""},
			{"selector:", "updateStrategy: {type: Recreate}, selector:", "spec.updateStrategy.type: Unsupported value"},
			{"selector:", "updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}, selector:", ""},
			{"selector:", "updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 0}}, selector:", "spec.updateStrategy.rollingUpdate.maxUnavailable"},
			{"selector:", "updateStrategy: {rollingUpdate: {maxSurge: 1}}, selector:", "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value"},
			{"selector:", "updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 200%}}, selector:", "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value"},
			{"selector:", "minReadySeconds: -1, selector:", "spec.minReadySeconds: Invalid value: -1"},
		}},
		"Job": {&batchv1.Job{}, job, []change{
			{"Never", "Always", `spec.template.spec.restartPolicy: Unsupported value: "Always"`},
			{"template:", "parallelism: -1, template:", "spec.parallelism: Invalid value: -1"},
			{"template:", "completions: -1, template:", "spec.completions: Invalid value: -1"},
			{"template:", "backoffLimit: -1, template:", "spec.backoffLimit: Invalid value: -1"},
			{"template:", "ttlSecondsAfterFinished: -1, template:", "spec.ttlSecondsAfterFinished: Invalid value: -1"},
			{"template:", "activeDeadlineSeconds: -1, template:", "spec.activeDeadlineSeconds: Invalid value: -1"},
			{"template:", "completionMode: Some, template:", "spec.completionMode: Unsupported value"},
			{"template:", "completionMode: Indexed, completions: 2, template:", ""},
			{"template:", "completionMode: Indexed, parallelism: 2, template:", "spec.completions: Required value"},
			{"template:", "selector: {matchExpressions: [{key: a, operator: Is}]}, template:", "spec.selector.matchExpressions[0].operator: Invalid value"},
		}},
		"CronJob": {&batchv1.CronJob{}, cron, []change{
			{"'* * * * *'", "'TZ=0'", `spec.schedule: Invalid value: "TZ=0"`},
			{"'* * * * *'", "'TZ=UTC * * * * *'", `spec.schedule: Invalid value: "TZ=UTC * * * * *"`},
			{"schedule:", "timeZone: Nowhere, schedule:", `spec.timeZone: Invalid value: "Nowhere"`},
			{"schedule:", "failedJobsHistoryLimit: -1, schedule:", "spec.failedJobsHistoryLimit: Invalid value: -1"},
			{"schedule:", "successfulJobsHistoryLimit: -1, schedule:", "spec.successfulJobsHistoryLimit: Invalid value: -1"},
			{"schedule:", "startingDeadlineSeconds: -1, schedule:", "spec.startingDeadlineSeconds: Invalid value: -1"},
			{"schedule:", "concurrencyPolicy: Some, schedule:", "spec.concurrencyPolicy: Unsupported value"},
			{"Never", "Always", "spec.jobTemplate.spec.template.spec.restartPolicy: Unsupported value"},
		}},
		"PodDisruptionBudget": {&policyv1.PodDisruptionBudget{}, "minAvailable: 1", []change{
			{"1", "1, maxUnavailable: 1", "cannot be both set"},
			{"1", "-1", "spec.minAvailable: Invalid value: -1"},
			{"1", "101%", "spec.minAvailable: Invalid value"},
			{"minAvailable: 1", "maxUnavailable: -1", "spec.maxUnavailable: Invalid value: -1"},
			{"minAvailable: 1", "maxUnavailable: 100%", ""},
			{"minAvailable: 1", "maxUnavailable: 5.5%", "spec.maxUnavailable: Invalid value"},
			{"1", "1, unhealthyPodEvictionPolicy: Never", "spec.unhealthyPodEvictionPolicy: Unsupported value"},
			{"1", "1, selector: {matchLabels: {a b: c}}", "spec.selector.matchLabels: Invalid value"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			compare(t, tc.obj, "spec: {"+tc.spec+"}", tc.changes)
		})
	}
}

// change replaces a part of an object's text, and wants a part of the errors; without it the
// object is accepted.
type change struct{ from, to, want string }

// compare checks an object, which is good, and each change of it.
func compare(t *testing.T, obj runtime.Object, text string, changes []change) {
	t.Helper()
	for _, c := range append(changes, change{}) {
		if !strings.Contains(text, c.from) {
			t.Errorf("%s: nothing to replace", c.from)
		}
		err := Object(filled(t, obj, strings.Replace(text, c.from, c.to, 1))).ToAggregate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.to, err, c.want)
		}
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
