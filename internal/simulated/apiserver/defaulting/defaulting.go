// SPDX-License-Identifier: Apache-2.0

// Package defaulting sets what clients omit from built-in kinds, as API servers do.
// The code that those use belongs to the server: importing it would add all of that
// to every importer of package simulated.
//
// It also has the default objects that every new cluster has, the same in all: the
// roles and bindings that an API server creates automatically, in memory once for all
// clusters of the process. Services get their addresses, and ports of Nodes.
package defaulting

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Fill fills the fields of a built-in kind that are not there.
func Fill(of schema.GroupResource, obj map[string]any) {
	if depends := conditional[of.String()]; depends != nil {
		depends(obj)
	}
	for _, r := range rules()[of.String()] {
		fill(obj, strings.Split(r.path, "."), r.value)
	}
	for _, at := range templates[of.String()] {
		if spec, ok, _ := unstructured.NestedFieldNoCopy(obj, at...); ok {
			podSpecFrom(object(spec))
		}
	}
}

// pointers are the fields in which an empty text is a value: it is refused.
var pointers = []string{"maxUnavailable", "maxSurge", "completionMode", "podReplacementPolicy"}

// fill follows a path, and fills its last field.
func fill(obj map[string]any, path []string, value any) {
	name, make := strings.CutSuffix(path[0], "+")
	name, each := strings.CutSuffix(name, "[]")
	have := obj[name]
	switch {
	case each:
		list, _ := have.([]any)
		for _, one := range list {
			if one, ok := one.(map[string]any); ok {
				fill(one, path[1:], value)
			}
		}
		return
	case len(path) == 1 && !make:
		if have == nil || have == "" && !slices.Contains(pointers, name) {
			obj[name] = value
		}
		return
	}
	below, ok := have.(map[string]any)
	if !ok && have == nil && make {
		below, ok = map[string]any{}, true
		obj[name] = below
	}
	if ok && len(path) > 1 {
		fill(below, path[1:], value)
	}
}

// templates are the paths of the Pod specs in a kind.
var templates = map[string][][]string{
	"pods":                   {{"spec"}},
	"podtemplates":           {{"template", "spec"}},
	"replicationcontrollers": {{"spec", "template", "spec"}},
	"deployments.apps":       {{"spec", "template", "spec"}},
	"replicasets.apps":       {{"spec", "template", "spec"}},
	"daemonsets.apps":        {{"spec", "template", "spec"}},
	"statefulsets.apps":      {{"spec", "template", "spec"}},
	"jobs.batch":             {{"spec", "template", "spec"}},
	"cronjobs.batch":         {{"spec", "jobTemplate", "spec", "template", "spec"}},
}

// podSpecFrom fills what follows from other fields.
func podSpecFrom(spec map[string]any) {
	if name := spec["serviceAccountName"]; name != nil && name != "" {
		spec["serviceAccount"] = name // what it was called once
	} else if old := spec["serviceAccount"]; old != nil && old != "" {
		spec["serviceAccountName"] = old
	}
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		for _, c := range objects(spec[list]) {
			if c["imagePullPolicy"] == nil || c["imagePullPolicy"] == "" {
				c["imagePullPolicy"] = pullPolicy(c["image"])
			}
		}
	}
	for _, v := range objects(spec["volumes"]) {
		if len(v) == 1 && v["name"] != nil {
			v["emptyDir"] = map[string]any{}
		}
	}
}

// pullPolicy is by the tag of an image: without one, or with latest, it may change.
func pullPolicy(image any) string {
	text, _ := image.(string)
	name := text[strings.LastIndex(text, "/")+1:]
	if _, tag, ok := strings.Cut(name, ":"); strings.Contains(name, "@") || ok && tag != "latest" {
		return "IfNotPresent"
	}
	return "Always"
}

// complete adds to a list of resources those that only another one has.
func complete(o map[string]any, name string, other any) {
	from := object(other)
	if len(from) == 0 {
		return
	}
	list, ok := o[name].(map[string]any)
	if !ok {
		list = map[string]any{}
		o[name] = list
	}
	for resource, amount := range from {
		if list[resource] == nil {
			list[resource] = amount
		}
	}
}

// conditional fills what depends on other fields of a kind.
var conditional = map[string]func(map[string]any){
	"deployments.apps":  func(o map[string]any) { rolling(object(o["spec"]), "strategy") },
	"daemonsets.apps":   func(o map[string]any) { rolling(object(o["spec"]), "updateStrategy") },
	"statefulsets.apps": func(o map[string]any) { rolling(object(o["spec"]), "updateStrategy") },
	"jobs.batch": func(o map[string]any) {
		spec := object(o["spec"])
		if spec["parallelism"] == nil && spec["completions"] == nil { // else it is a queue
			spec["completions"] = int64(1)
		}
		if spec["backoffLimitPerIndex"] != nil && spec["backoffLimit"] == nil {
			spec["backoffLimit"] = int64(math.MaxInt32)
		}
		if spec["podFailurePolicy"] != nil && spec["podReplacementPolicy"] == nil {
			spec["podReplacementPolicy"] = "Failed"
		}
	},
	"networkpolicies.networking.k8s.io": func(o map[string]any) {
		if spec := object(o["spec"]); spec["policyTypes"] == nil && len(spec) > 0 {
			kinds := []any{"Ingress"}
			if egress, _ := spec["egress"].([]any); len(egress) > 0 {
				kinds = append(kinds, "Egress")
			}
			spec["policyTypes"] = kinds
		}
	},
	"limitranges": func(o map[string]any) {
		for _, l := range objects(object(o["spec"])["limits"]) {
			if l["type"] == "Container" {
				complete(l, "default", l["max"])
				complete(l, "defaultRequest", l["default"])
				complete(l, "defaultRequest", l["min"])
			}
		}
	},
	"csidrivers.storage.k8s.io": func(o map[string]any) {
		if spec := object(o["spec"]); spec["volumeLifecycleModes"] == nil {
			spec["volumeLifecycleModes"] = []any{"Persistent"}
		}
	},
	"pods": pod,
	"horizontalpodautoscalers.autoscaling": func(o map[string]any) {
		if spec := object(o["spec"]); spec["metrics"] == nil && o["apiVersion"] == "autoscaling/v2" {
			target := map[string]any{"type": "Utilization", "averageUtilization": int64(80)}
			spec["metrics"] = []any{map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu", "target": target}}}
		}
	},
	"services":                                      service,
	"rolebindings.rbac.authorization.k8s.io":        subjects,
	"clusterrolebindings.rbac.authorization.k8s.io": subjects,
}

// rolling adds the parameters of a rolling update, which is the default strategy.
func rolling(spec map[string]any, field string) {
	s := object(spec[field])
	if kind := s["type"]; kind != nil && kind != "" && kind != "RollingUpdate" || len(spec) == 0 {
		return
	}
	if s["rollingUpdate"] == nil {
		s["rollingUpdate"] = map[string]any{}
	}
	spec[field] = s
}

// pod fills what is left out in Pods, and stays so in templates.
func pod(o map[string]any) {
	spec := object(o["spec"])
	for _, list := range []string{"containers", "initContainers"} {
		for _, c := range objects(spec[list]) {
			resources := object(c["resources"])
			complete(resources, "requests", resources["limits"])
			for _, p := range objects(c["ports"]) {
				if spec["hostNetwork"] == true && p["hostPort"] == nil {
					p["hostPort"] = p["containerPort"]
				}
			}
		}
	}
}

func service(o map[string]any) {
	spec := object(o["spec"])
	for _, p := range objects(spec["ports"]) {
		if target := p["targetPort"]; target == nil || target == int64(0) || target == "" {
			p["targetPort"] = p["port"]
		}
	}
	switch spec["sessionAffinity"] {
	case nil, "", "None":
		delete(spec, "sessionAffinityConfig")
	case "ClientIP":
		fill(spec, []string{"sessionAffinityConfig+", "clientIP+", "timeoutSeconds"}, int64(corev1.DefaultClientIPServiceAffinitySeconds))
	}
	kind := spec["type"]
	external, _ := spec["externalIPs"].([]any)
	outside := kind == "NodePort" || kind == "LoadBalancer" || kind != "ExternalName" && len(external) > 0
	if outside && spec["externalTrafficPolicy"] == nil {
		spec["externalTrafficPolicy"] = "Cluster"
	}
	if kind != "ExternalName" && len(spec) > 0 && spec["internalTrafficPolicy"] == nil {
		spec["internalTrafficPolicy"] = "Cluster"
	}
	if kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"] == nil {
		spec["allocateLoadBalancerNodePorts"] = true
	}
}

func subjects(o map[string]any) {
	for _, s := range objects(o["subjects"]) {
		if kind := s["kind"]; (kind == "User" || kind == "Group") && s["apiGroup"] == nil {
			s["apiGroup"] = "rbac.authorization.k8s.io"
		}
	}
}

// object returns v if it is an object; else a new one, which is not stored.
func object(v any) map[string]any {
	if o, ok := v.(map[string]any); ok {
		return o
	}
	return map[string]any{}
}

func objects(v any) (out []map[string]any) {
	list, _ := v.([]any)
	for _, one := range list {
		if o, ok := one.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}
