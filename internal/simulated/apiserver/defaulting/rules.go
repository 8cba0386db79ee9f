// SPDX-License-Identifier: Apache-2.0

package defaulting

import "sync"

// rule fills one field. In its path, "[]" means each element of a list, and "+"
// after a name creates what is missing; else nothing below it is filled.
type rule struct {
	path  string
	value any
}

// rules are those of the built-in kinds, by resource and group.
var rules = sync.OnceValue(func() map[string][]rule {
	return map[string][]rule{
		"pods": join([]rule{
			{"spec.enableServiceLinks", true}, {"status+.phase", "Pending"}, {"status+.qosClass", "BestEffort"},
		}, podSpec("spec")),
		"podtemplates":           podSpec("template.spec"),
		"replicationcontrollers": join([]rule{{"spec.replicas", int64(1)}}, podSpec("spec.template.spec")),
		"secrets":                {{"type", "Opaque"}},
		"services":               {{"spec.sessionAffinity", "None"}, {"spec.type", "ClusterIP"}, {"spec.ports[].protocol", "TCP"}},
		"endpoints":              {{"subsets[].ports[].protocol", "TCP"}},
		"namespaces":             {{"status+.phase", "Active"}},
		"persistentvolumes": {
			{"status+.phase", "Pending"}, {"spec.persistentVolumeReclaimPolicy", "Retain"}, {"spec.volumeMode", "Filesystem"}, {"spec.hostPath.type", ""},
		},
		"persistentvolumeclaims": {{"status+.phase", "Pending"}, {"spec.volumeMode", "Filesystem"}},

		"deployments.apps": join([]rule{
			{"spec.replicas", int64(1)}, {"spec.progressDeadlineSeconds", int64(600)}, {"spec.revisionHistoryLimit", int64(10)},
			{"spec.strategy+.type", "RollingUpdate"}, {"spec.strategy.rollingUpdate.maxUnavailable", "25%"}, {"spec.strategy.rollingUpdate.maxSurge", "25%"},
		}, podSpec("spec.template.spec")),
		"replicasets.apps": join([]rule{{"spec.replicas", int64(1)}}, podSpec("spec.template.spec")),
		"daemonsets.apps": join([]rule{
			{"spec.revisionHistoryLimit", int64(10)}, {"spec.updateStrategy+.type", "RollingUpdate"},
			{"spec.updateStrategy.rollingUpdate.maxUnavailable", int64(1)}, {"spec.updateStrategy.rollingUpdate.maxSurge", int64(0)},
		}, podSpec("spec.template.spec")),
		"statefulsets.apps": join([]rule{
			{"spec.replicas", int64(1)}, {"spec.podManagementPolicy", "OrderedReady"}, {"spec.revisionHistoryLimit", int64(10)},
			{"spec.updateStrategy+.type", "RollingUpdate"}, {"spec.updateStrategy.rollingUpdate.partition", int64(0)},
			{"spec.persistentVolumeClaimRetentionPolicy+.whenDeleted", "Retain"}, {"spec.persistentVolumeClaimRetentionPolicy+.whenScaled", "Retain"},
			{"spec.volumeClaimTemplates[].apiVersion", "v1"}, {"spec.volumeClaimTemplates[].kind", "PersistentVolumeClaim"},
			{"spec.volumeClaimTemplates[].spec.volumeMode", "Filesystem"}, {"spec.volumeClaimTemplates[].status+.phase", "Pending"},
		}, podSpec("spec.template.spec")),
		"jobs.batch": join([]rule{
			{"spec.parallelism", int64(1)}, {"spec.backoffLimit", int64(6)}, {"spec.completionMode", "NonIndexed"}, {"spec.suspend", false},
			{"spec.podReplacementPolicy", "TerminatingOrFailed"}, {"spec.manualSelector", false}, {"spec.podFailurePolicy.rules[].onPodConditions[].status", "True"},
		}, podSpec("spec.template.spec")),
		"cronjobs.batch": join([]rule{
			{"spec.concurrencyPolicy", "Allow"}, {"spec.suspend", false},
			{"spec.successfulJobsHistoryLimit", int64(3)}, {"spec.failedJobsHistoryLimit", int64(1)},
		}, podSpec("spec.jobTemplate.spec.template.spec")),

		"networkpolicies.networking.k8s.io": {{"spec.ingress[].ports[].protocol", "TCP"}, {"spec.egress[].ports[].protocol", "TCP"}},
		"ingressclasses.networking.k8s.io":  {{"spec.parameters.scope", "Cluster"}},
		"storageclasses.storage.k8s.io":     {{"reclaimPolicy", "Delete"}, {"volumeBindingMode", "Immediate"}},
		"csidrivers.storage.k8s.io": {
			{"spec.attachRequired", true}, {"spec.podInfoOnMount", false}, {"spec.storageCapacity", false}, {"spec.requiresRepublish", false}, {"spec.seLinuxMount", false},
			{"spec.fsGroupPolicy", "ReadWriteOnceWithFSType"},
		},
		"endpointslices.discovery.k8s.io":                                {{"ports[].name", ""}, {"ports[].protocol", "TCP"}},
		"priorityclasses.scheduling.k8s.io":                              {{"preemptionPolicy", "PreemptLowerPriority"}},
		"horizontalpodautoscalers.autoscaling":                           {{"spec.minReplicas", int64(1)}},
		"apiservices.apiregistration.k8s.io":                             {{"spec.service.port", int64(443)}},
		"rolebindings.rbac.authorization.k8s.io":                         {{"roleRef.apiGroup", "rbac.authorization.k8s.io"}},
		"clusterrolebindings.rbac.authorization.k8s.io":                  {{"roleRef.apiGroup", "rbac.authorization.k8s.io"}},
		"validatingwebhookconfigurations.admissionregistration.k8s.io":   webhooks,
		"mutatingwebhookconfigurations.admissionregistration.k8s.io":     join([]rule{{"webhooks[].reinvocationPolicy", "Never"}}, webhooks),
		"validatingadmissionpolicies.admissionregistration.k8s.io":       join([]rule{{"spec.failurePolicy", "Fail"}}, matched("spec.matchConstraints")),
		"mutatingadmissionpolicies.admissionregistration.k8s.io":         join([]rule{{"spec.failurePolicy", "Fail"}}, matched("spec.matchConstraints")),
		"validatingadmissionpolicybindings.admissionregistration.k8s.io": matched("spec.matchResources"),
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io":   matched("spec.matchResources"),
	}
})

var webhooks = join(matched("webhooks[]"), []rule{
	{"webhooks[].failurePolicy", "Fail"}, {"webhooks[].timeoutSeconds", int64(10)}, {"webhooks[].rules[].scope", "*"}, {"webhooks[].clientConfig.service.port", int64(443)},
})

// matched fills what selects the objects of admission.
func matched(at string) []rule {
	return []rule{
		{at + ".matchPolicy", "Equivalent"}, {at + ".namespaceSelector+", nil}, {at + ".objectSelector+", nil},
		{at + ".resourceRules[].scope", "*"}, {at + ".excludeResourceRules[].scope", "*"},
	}
}

func join(a, b []rule) []rule { return append(a[:len(a):len(a)], b...) }

// podSpec fills a Pod spec, in a Pod or in a template.
func podSpec(at string) (out []rule) {
	add := func(at string, fields map[string]any) {
		for path, value := range fields {
			out = append(out, rule{at + "." + path, value})
		}
	}
	add(at, map[string]any{
		"restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": int64(30),
		"securityContext+":             nil,
		"volumes[].secret.defaultMode": mode, "volumes[].configMap.defaultMode": mode, "volumes[].downwardAPI.defaultMode": mode, "volumes[].projected.defaultMode": mode,
		"volumes[].downwardAPI.items[].fieldRef.apiVersion":                     "v1",
		"volumes[].projected.sources[].downwardAPI.items[].fieldRef.apiVersion": "v1",
		"volumes[].projected.sources[].serviceAccountToken.expirationSeconds":   int64(3600),
		"volumes[].hostPath.type":                                 "",
		"volumes[].ephemeral.volumeClaimTemplate.spec.volumeMode": "Filesystem",
	})
	for _, list := range []string{"containers[]", "initContainers[]", "ephemeralContainers[]"} {
		add(at+"."+list, map[string]any{
			"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
			"ports[].protocol": "TCP", "env[].valueFrom.fieldRef.apiVersion": "v1",
		})
		for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			add(at+"."+list+"."+probe, map[string]any{
				"timeoutSeconds": int64(1), "periodSeconds": int64(10), "successThreshold": int64(1), "failureThreshold": int64(3),
				"httpGet.path": "/", "httpGet.scheme": "HTTP", "grpc.service": "",
			})
		}
		for _, hook := range []string{"postStart", "preStop"} {
			add(at+"."+list+".lifecycle."+hook, map[string]any{"httpGet.path": "/", "httpGet.scheme": "HTTP"})
		}
	}
	return out
}

// mode is that of the files of a volume, 0644: every kind has it as a number.
const mode = int64(0o644)
