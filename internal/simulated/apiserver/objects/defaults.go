// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// defaults are those that clients of a control plane look at, by resource and
// path. A path that ends in a list's element is not needed.
var defaults = map[string][]defaultValue{
	"deployments": {
		{int64(1), []string{"spec", "replicas"}},
		{int64(600), []string{"spec", "progressDeadlineSeconds"}},
		{int64(10), []string{"spec", "revisionHistoryLimit"}},
		{"RollingUpdate", []string{"spec", "strategy", "type"}},
	},
	"replicasets":  {{int64(1), []string{"spec", "replicas"}}},
	"statefulsets": {{int64(1), []string{"spec", "replicas"}}, {"OrderedReady", []string{"spec", "podManagementPolicy"}}, {"RollingUpdate", []string{"spec", "updateStrategy", "type"}}},
	"daemonsets":   {{int64(10), []string{"spec", "revisionHistoryLimit"}}, {"RollingUpdate", []string{"spec", "updateStrategy", "type"}}},
	"pods": {
		{"Always", []string{"spec", "restartPolicy"}},
		{"ClusterFirst", []string{"spec", "dnsPolicy"}},
		{"default-scheduler", []string{"spec", "schedulerName"}},
		{int64(30), []string{"spec", "terminationGracePeriodSeconds"}},
		{true, []string{"spec", "enableServiceLinks"}},
		{"Pending", []string{"status", "phase"}},
		{"BestEffort", []string{"status", "qosClass"}},
	},
	"secrets": {{"Opaque", []string{"type"}}},
	"services": {
		{"ClusterIP", []string{"spec", "type"}},
		{"None", []string{"spec", "sessionAffinity"}}, // the policy's name, not the absence of one
	},
	"namespaces":             {{"Active", []string{"status", "phase"}}},
	"persistentvolumes":      {{"Pending", []string{"status", "phase"}}, {"Retain", []string{"spec", "persistentVolumeReclaimPolicy"}}, {"Filesystem", []string{"spec", "volumeMode"}}},
	"persistentvolumeclaims": {{"Pending", []string{"status", "phase"}}, {"Filesystem", []string{"spec", "volumeMode"}}},
	"storageclasses":         {{"Delete", []string{"reclaimPolicy"}}, {"Immediate", []string{"volumeBindingMode"}}},
	"jobs":                   {{int64(1), []string{"spec", "parallelism"}}, {int64(6), []string{"spec", "backoffLimit"}}, {"NonIndexed", []string{"spec", "completionMode"}}, {false, []string{"spec", "suspend"}}},
}

type defaultValue struct {
	value any
	path  []string
}

// setDefaults fills what a client may leave out.
func setDefaults(k *kinds.Kind, u *unstructured.Unstructured) {
	if _, several, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "parallelism"); k.Resource == "jobs" && !several {
		if _, ok, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "completions"); !ok { // else it is a queue
			_ = unstructured.SetNestedField(u.Object, int64(1), "spec", "completions") // as below
		}
	}
	for _, d := range defaults[k.Resource] {
		if old, ok, err := unstructured.NestedFieldNoCopy(u.Object, d.path...); err == nil && (!ok || old == nil || old == "") {
			_ = unstructured.SetNestedField(u.Object, d.value, d.path...) // only fails where a parent is no object, which decoding excludes
		}
	}
	switch k.Resource {
	case "secrets":
		foldStringData(u)
	case "namespaces":
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = u.GetName()
		u.SetLabels(labels)
	}
}
