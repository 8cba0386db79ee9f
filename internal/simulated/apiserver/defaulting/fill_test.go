// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// parse reads YAML with whole numbers as decoded objects have them.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// podDefaults is what each Pod spec gets, and containerDefaults each container.
const (
	podDefaults       = "restartPolicy: Always, dnsPolicy: ClusterFirst, schedulerName: default-scheduler, terminationGracePeriodSeconds: 30, securityContext: {}"
	containerDefaults = "terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, imagePullPolicy: Always"
	probeDefaults     = "timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3"
)

// The expected values are the defaults in the API reference of Kubernetes.
func TestFillSetsTheDefaultsOfAKind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ resource, object, want string }{
		"a kind without defaults": {"configmaps", "data: {}", "data: {}"},
		"a Secret":                {"secrets", "data: {}", "{type: Opaque, data: {}}"},
		"a Secret of a type":      {"secrets", "type: example.com/x", "type: example.com/x"},
		"a Namespace":             {"namespaces", "spec: {}", "{spec: {}, status: {phase: Active}}"},
		"a claim":                 {"persistentvolumeclaims", "spec: {}", "{spec: {volumeMode: Filesystem}, status: {phase: Pending}}"},
		"a volume":                {"persistentvolumes", "spec: {hostPath: {path: /x}}", "{spec: {hostPath: {path: /x, type: ''}, persistentVolumeReclaimPolicy: Retain, volumeMode: Filesystem}, status: {phase: Pending}}"},
		"Endpoints":               {"endpoints", "subsets: [{ports: [{port: 1}, {port: 2, protocol: UDP}]}]", "subsets: [{ports: [{port: 1, protocol: TCP}, {port: 2, protocol: UDP}]}]"},
		"a slice":                 {"endpointslices.discovery.k8s.io", "ports: [{port: 1}]", "ports: [{port: 1, name: '', protocol: TCP}]"},
		"a StorageClass":          {"storageclasses.storage.k8s.io", "provisioner: x", "{provisioner: x, reclaimPolicy: Delete, volumeBindingMode: Immediate}"},
		"a CSIDriver": {"csidrivers.storage.k8s.io", "spec: {attachRequired: false}",
			"spec: {attachRequired: false, podInfoOnMount: false, storageCapacity: false, requiresRepublish: false, seLinuxMount: false, fsGroupPolicy: ReadWriteOnceWithFSType, volumeLifecycleModes: [Persistent]}"},
		"a PriorityClass":     {"priorityclasses.scheduling.k8s.io", "value: 1", "{value: 1, preemptionPolicy: PreemptLowerPriority}"},
		"an IngressClass":     {"ingressclasses.networking.k8s.io", "spec: {parameters: {name: x}}", "spec: {parameters: {name: x, scope: Cluster}}"},
		"one of no parameter": {"ingressclasses.networking.k8s.io", "spec: {controller: x}", "spec: {controller: x}"},
		"a policy":            {"networkpolicies.networking.k8s.io", "spec: {podSelector: {}, ingress: [{ports: [{port: 1}]}]}", "spec: {podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: 1, protocol: TCP}]}]}"},
		"a policy of both":    {"networkpolicies.networking.k8s.io", "spec: {podSelector: {}, egress: [{}]}", "spec: {podSelector: {}, policyTypes: [Ingress, Egress], egress: [{}]}"},
		"a policy of a type":  {"networkpolicies.networking.k8s.io", "spec: {podSelector: {}, policyTypes: [Egress]}", "spec: {podSelector: {}, policyTypes: [Egress]}"},
		"an APIService":       {"apiservices.apiregistration.k8s.io", "spec: {service: {name: x}}", "spec: {service: {name: x, port: 443}}"},
		"a binding": {"rolebindings.rbac.authorization.k8s.io", "{roleRef: {kind: Role}, subjects: [{kind: User, name: a}, {kind: Group, name: b}, {kind: ServiceAccount, name: c}]}",
			"{roleRef: {kind: Role, apiGroup: rbac.authorization.k8s.io}, subjects: [{kind: User, name: a, apiGroup: rbac.authorization.k8s.io}, {kind: Group, name: b, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: c}]}"},
		"an autoscaler":              {"horizontalpodautoscalers.autoscaling", "{apiVersion: autoscaling/v2, spec: {maxReplicas: 2}}", "{apiVersion: autoscaling/v2, spec: {maxReplicas: 2, minReplicas: 1, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}}"},
		"an autoscaler of version 1": {"horizontalpodautoscalers.autoscaling", "{apiVersion: autoscaling/v1, spec: {maxReplicas: 2}}", "{apiVersion: autoscaling/v1, spec: {maxReplicas: 2, minReplicas: 1}}"},
		"webhooks": {"mutatingwebhookconfigurations.admissionregistration.k8s.io", "webhooks: [{rules: [{}], clientConfig: {service: {name: x}}}]",
			"webhooks: [{rules: [{scope: '*'}], clientConfig: {service: {name: x, port: 443}}, failurePolicy: Fail, matchPolicy: Equivalent, timeoutSeconds: 10, namespaceSelector: {}, objectSelector: {}, reinvocationPolicy: Never}]"},
		"given values of webhooks": {"validatingwebhookconfigurations.admissionregistration.k8s.io", "webhooks: [{failurePolicy: Ignore, matchPolicy: Exact, timeoutSeconds: 1, namespaceSelector: {matchLabels: {a: b}}, objectSelector: {}}]",
			"webhooks: [{failurePolicy: Ignore, matchPolicy: Exact, timeoutSeconds: 1, namespaceSelector: {matchLabels: {a: b}}, objectSelector: {}}]"},
		"a policy of admission": {"validatingadmissionpolicies.admissionregistration.k8s.io", "spec: {matchConstraints: {resourceRules: [{resources: [pods]}]}}",
			"spec: {failurePolicy: Fail, matchConstraints: {matchPolicy: Equivalent, namespaceSelector: {}, objectSelector: {}, resourceRules: [{resources: [pods], scope: '*'}]}}"},
		"its binding":          {"validatingadmissionpolicybindings.admissionregistration.k8s.io", "spec: {matchResources: {}}", "spec: {matchResources: {matchPolicy: Equivalent, namespaceSelector: {}, objectSelector: {}}}"},
		"a binding of nothing": {"mutatingadmissionpolicybindings.admissionregistration.k8s.io", "spec: {policyName: x}", "spec: {policyName: x}"},
		"limits of containers": {"limitranges", "spec: {limits: [{type: Container, max: {cpu: 2}, min: {cpu: 1, memory: 1Gi}}]}", "spec: {limits: [{type: Container, max: {cpu: 2}, min: {cpu: 1, memory: 1Gi}, default: {cpu: 2}, defaultRequest: {cpu: 2, memory: 1Gi}}]}"},
		"limits of Pods":       {"limitranges", "spec: {limits: [{type: Pod, max: {cpu: 2}}]}", "spec: {limits: [{type: Pod, max: {cpu: 2}}]}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, tc.object)
			Fill(schema.ParseGroupResource(tc.resource), got)
			if diff := cmp.Diff(parse(t, tc.want), got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			Fill(schema.ParseGroupResource(tc.resource), got)
			if diff := cmp.Diff(parse(t, tc.want), got); diff != "" {
				t.Errorf("filled again (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFillSetsTheDefaultsOfServices(t *testing.T) {
	t.Parallel()
	const of = "internalTrafficPolicy: Cluster"
	for name, tc := range map[string]struct{ spec, want string }{
		"ports":                        {"ports: [{port: 80}, {port: 81, targetPort: web, protocol: UDP}, {port: 82, targetPort: 0}]", "type: ClusterIP, sessionAffinity: None, ports: [{port: 80, targetPort: 80, protocol: TCP}, {port: 81, targetPort: web, protocol: UDP}, {port: 82, targetPort: 82, protocol: TCP}], " + of},
		"a port of nodes":              {"type: NodePort", "type: NodePort, sessionAffinity: None, externalTrafficPolicy: Cluster, " + of},
		"a load balancer":              {"type: LoadBalancer", "type: LoadBalancer, sessionAffinity: None, externalTrafficPolicy: Cluster, allocateLoadBalancerNodePorts: true, " + of},
		"one without ports of nodes":   {"type: LoadBalancer, allocateLoadBalancerNodePorts: false, externalTrafficPolicy: Local, internalTrafficPolicy: Local", "type: LoadBalancer, sessionAffinity: None, externalTrafficPolicy: Local, allocateLoadBalancerNodePorts: false, internalTrafficPolicy: Local"},
		"addresses outside":            {"type: ClusterIP, externalIPs: [192.0.2.1]", "type: ClusterIP, sessionAffinity: None, externalIPs: [192.0.2.1], externalTrafficPolicy: Cluster, " + of},
		"addresses and no type":        {"externalIPs: [192.0.2.1]", "type: ClusterIP, sessionAffinity: None, externalIPs: [192.0.2.1], externalTrafficPolicy: Cluster, " + of},
		"a name outside":               {"type: ExternalName, externalName: x.y", "type: ExternalName, externalName: x.y, sessionAffinity: None"},
		"a name with addresses":        {"type: ExternalName, externalName: x.y, externalIPs: [192.0.2.1]", "type: ExternalName, externalName: x.y, externalIPs: [192.0.2.1], sessionAffinity: None"},
		"sessions of clients":          {"sessionAffinity: ClientIP", "type: ClusterIP, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}, " + of},
		"sessions of a time":           {"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}", "type: ClusterIP, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}, " + of},
		"sessions of an empty config":  {"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {}}", "type: ClusterIP, sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 10800}}, " + of},
		"a config without any session": {"type: ClusterIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}", "type: ClusterIP, sessionAffinity: None, " + of},
		"a config of no session":       {"sessionAffinity: None, sessionAffinityConfig: {clientIP: {timeoutSeconds: 5}}", "type: ClusterIP, sessionAffinity: None, " + of},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, "spec: {"+tc.spec+"}")
			Fill(schema.GroupResource{Resource: "services"}, got)
			if diff := cmp.Diff(parse(t, "spec: {"+tc.want+"}"), got); diff != "" {
				t.Errorf("Service (-want +got):\n%s", diff)
			}
		})
	}
}

// Each kind of workload has its own defaults, and those of Pods in its template.
func TestFillSetsTheDefaultsOfWorkloads(t *testing.T) {
	t.Parallel()
	const in, out = "containers: [{name: c}]", podDefaults + ", containers: [{name: c, " + containerDefaults + "}]"
	template := func(fields, pod string) string {
		return "spec: {" + strings.TrimPrefix(fields+", template: {spec: {"+pod+"}}}", ", ")
	}
	for name, tc := range map[string]struct{ resource, object, want string }{
		"a template":     {"podtemplates", "template: {spec: {" + in + "}}", "template: {spec: {" + out + "}}"},
		"a controller":   {"replicationcontrollers", template("", in), template("replicas: 1", out)},
		"a ReplicaSet":   {"replicasets.apps", template("", in), template("replicas: 1", out)},
		"no replicas":    {"replicasets.apps", template("replicas: 0", in), template("replicas: 0", out)},
		"a Deployment":   {"deployments.apps", template("", in), template("replicas: 1, progressDeadlineSeconds: 600, revisionHistoryLimit: 10, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%, maxSurge: 25%}}", out)},
		"one to replace": {"deployments.apps", template("strategy: {type: Recreate}", in), template("replicas: 1, progressDeadlineSeconds: 600, revisionHistoryLimit: 10, strategy: {type: Recreate}", out)},
		"one number":     {"deployments.apps", template("strategy: {rollingUpdate: {maxSurge: 0}}", in), template("replicas: 1, progressDeadlineSeconds: 600, revisionHistoryLimit: 10, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%, maxSurge: 0}}", out)},
		"a DaemonSet":    {"daemonsets.apps", template("", in), template("revisionHistoryLimit: 10, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}", out)},
		"one on delete":  {"daemonsets.apps", template("updateStrategy: {type: OnDelete}", in), template("revisionHistoryLimit: 10, updateStrategy: {type: OnDelete}", out)},
		"a StatefulSet": {"statefulsets.apps", template("volumeClaimTemplates: [{spec: {}}]", in), template("replicas: 1, podManagementPolicy: OrderedReady, revisionHistoryLimit: 10, updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}, "+
			"persistentVolumeClaimRetentionPolicy: {whenDeleted: Retain, whenScaled: Retain}, volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, spec: {volumeMode: Filesystem}, status: {phase: Pending}}]", out)},
		"a Job":               {"jobs.batch", template("", in), template("parallelism: 1, completions: 1, backoffLimit: 6, completionMode: NonIndexed, suspend: false, podReplacementPolicy: TerminatingOrFailed, manualSelector: false", out)},
		"a Job with a queue":  {"jobs.batch", template("parallelism: 2", in), template("parallelism: 2, backoffLimit: 6, completionMode: NonIndexed, suspend: false, podReplacementPolicy: TerminatingOrFailed, manualSelector: false", out)},
		"a Job of many":       {"jobs.batch", template("completions: 5", in), template("parallelism: 1, completions: 5, backoffLimit: 6, completionMode: NonIndexed, suspend: false, podReplacementPolicy: TerminatingOrFailed, manualSelector: false", out)},
		"a limit of an index": {"jobs.batch", template("backoffLimitPerIndex: 1", in), template("parallelism: 1, completions: 1, backoffLimitPerIndex: 1, backoffLimit: 2147483647, completionMode: NonIndexed, suspend: false, podReplacementPolicy: TerminatingOrFailed, manualSelector: false", out)},
		"a policy of failures": {"jobs.batch", template("podFailurePolicy: {rules: [{onPodConditions: [{type: X}]}]}", in),
			template("podFailurePolicy: {rules: [{onPodConditions: [{type: X, status: 'True'}]}]}, parallelism: 1, completions: 1, backoffLimit: 6, completionMode: NonIndexed, suspend: false, podReplacementPolicy: Failed, manualSelector: false", out)},
		"a CronJob": {"cronjobs.batch", "spec: {jobTemplate: {spec: {template: {spec: {" + in + "}}}}}", "spec: {concurrencyPolicy: Allow, suspend: false, successfulJobsHistoryLimit: 3, failedJobsHistoryLimit: 1, jobTemplate: {spec: {template: {spec: {" + out + "}}}}}"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, tc.object)
			Fill(schema.ParseGroupResource(tc.resource), got)
			if diff := cmp.Diff(parse(t, tc.want), got); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFillSetsTheDefaultsOfPods(t *testing.T) {
	t.Parallel()
	const status = "status: {phase: Pending, qosClass: BestEffort}"
	of := func(fields, container string) string {
		return "spec: {" + fields + podDefaults + ", enableServiceLinks: true, containers: [{name: c, " + container + containerDefaults + "}]}\n" + status
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"a container":             {"containers: [{name: c}]", of("", "")},
		"limits":                  {"containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}}]", of("", "resources: {limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1, memory: 1Gi}}, ")},
		"requests":                {"containers: [{name: c, resources: {requests: {cpu: 1}}}]", of("", "resources: {requests: {cpu: 1}}, ")},
		"ports":                   {"containers: [{name: c, ports: [{containerPort: 1}]}]", of("", "ports: [{containerPort: 1, protocol: TCP}], ")},
		"ports of the host":       {"hostNetwork: true, containers: [{name: c, ports: [{containerPort: 1}]}]", of("hostNetwork: true, ", "ports: [{containerPort: 1, hostPort: 1, protocol: TCP}], ")},
		"a probe":                 {"containers: [{name: c, livenessProbe: {httpGet: {port: 1}}}]", of("", "livenessProbe: {httpGet: {port: 1, path: /, scheme: HTTP}, "+probeDefaults+"}, ")},
		"a probe of gRPC":         {"containers: [{name: c, startupProbe: {grpc: {port: 1}, failureThreshold: 9}}]", of("", "startupProbe: {grpc: {port: 1, service: ''}, timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 9}, ")},
		"a hook":                  {"containers: [{name: c, lifecycle: {preStop: {httpGet: {port: 1}}}}]", of("", "lifecycle: {preStop: {httpGet: {port: 1, path: /, scheme: HTTP}}}, ")},
		"a field as a variable":   {"containers: [{name: c, env: [{name: A, valueFrom: {fieldRef: {fieldPath: x}}}]}]", of("", "env: [{name: A, valueFrom: {fieldRef: {fieldPath: x, apiVersion: v1}}}], ")},
		"an account":              {"serviceAccountName: a, containers: [{name: c}]", of("serviceAccountName: a, serviceAccount: a, ", "")},
		"an account of old":       {"serviceAccount: a, containers: [{name: c}]", of("serviceAccountName: a, serviceAccount: a, ", "")},
		"two accounts":            {"serviceAccountName: a, serviceAccount: b, containers: [{name: c}]", of("serviceAccountName: a, serviceAccount: a, ", "")},
		"volumes of no source":    {"volumes: [{name: v}], containers: [{name: c}]", of("volumes: [{name: v, emptyDir: {}}], ", "")},
		"volumes of files":        {"volumes: [{name: a, secret: {}}, {name: b, configMap: {defaultMode: 256}}], containers: [{name: c}]", of("volumes: [{name: a, secret: {defaultMode: 420}}, {name: b, configMap: {defaultMode: 256}}], ", "")},
		"a volume with a token":   {"volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: x}}]}}], containers: [{name: c}]", of("volumes: [{name: v, projected: {defaultMode: 420, sources: [{serviceAccountToken: {path: x, expirationSeconds: 3600}}]}}], ", "")},
		"a volume with fields":    {"volumes: [{name: v, downwardAPI: {items: [{path: x, fieldRef: {fieldPath: y}}]}}], containers: [{name: c}]", of("volumes: [{name: v, downwardAPI: {defaultMode: 420, items: [{path: x, fieldRef: {fieldPath: y, apiVersion: v1}}]}}], ", "")},
		"a folder of the host":    {"volumes: [{name: v, hostPath: {path: /}}], containers: [{name: c}]", of("volumes: [{name: v, hostPath: {path: /, type: ''}}], ", "")},
		"a claim of its own":      {"volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}], containers: [{name: c}]", of("volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {volumeMode: Filesystem}}}}], ", "")},
		"a container that starts": {"initContainers: [{name: i, image: x:1}], containers: [{name: c}]", of("initContainers: [{name: i, image: x:1, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, imagePullPolicy: IfNotPresent}], ", "")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse(t, "spec: {"+tc.spec+"}")
			Fill(schema.GroupResource{Resource: "pods"}, got)
			if diff := cmp.Diff(parse(t, tc.want), got); diff != "" {
				t.Errorf("Pod (-want +got):\n%s", diff)
			}
		})
	}
	// Requests and ports of the host are not part of a template.
	got := parse(t, "spec: {template: {spec: {hostNetwork: true, containers: [{resources: {limits: {cpu: 1}}, ports: [{containerPort: 1}]}]}}}")
	Fill(schema.GroupResource{Group: "apps", Resource: "replicasets"}, got)
	want := parse(t, "spec: {replicas: 1, template: {spec: {hostNetwork: true, "+podDefaults+", containers: [{resources: {limits: {cpu: 1}}, ports: [{containerPort: 1, protocol: TCP}], "+containerDefaults+"}]}}}")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("template (-want +got):\n%s", diff)
	}
}
