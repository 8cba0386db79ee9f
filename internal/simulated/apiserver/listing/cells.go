// SPDX-License-Identifier: Apache-2.0

package listing

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func (o object) truth(path ...string) bool {
	v, _, _ := unstructured.NestedBool(o.content, path...)
	return v
}

func (o object) labels(path ...string) map[string]string {
	if path == nil {
		path = []string{"metadata", "labels"}
	}
	v, _, _ := unstructured.NestedStringMap(o.content, path...)
	return v
}

// value shows a field of any type, or without it none.
func value(none string, path ...string) func(object) any {
	return func(o object) any {
		v, ok, _ := unstructured.NestedFieldNoCopy(o.content, path...)
		if !ok {
			return none
		}
		return fmt.Sprint(v)
	}
}

func selector(title string, path ...string) column {
	return column{name: title, cell: func(o object) any { return pairs(o.labels(path...)) }}
}

func labelSelector(o object) any { return pairs(o.labels("spec", "selector", "matchLabels")) }

func pairs(m map[string]string) string {
	if len(m) == 0 {
		return none
	}
	var list []string
	for k, v := range m {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

func containers(field string) func(object) any {
	return func(o object) any {
		var list []string
		for _, c := range o.list("spec", "template", "spec", "containers") {
			list = append(list, c.text(field))
		}
		return strings.Join(list, ",")
	}
}

func externalIP(o object) any {
	ips := o.texts("spec", "externalIPs")
	for _, in := range o.list("status", "loadBalancer", "ingress") {
		if ip := in.text("ip"); ip != "" {
			ips = append(ips, ip)
		}
	}
	switch {
	case len(ips) > 0:
		return strings.Join(ips, ",")
	case o.text("spec", "type") == "LoadBalancer":
		return "<pending>"
	}
	return none
}

func ports(o object) any {
	var list []string
	for _, p := range o.list("spec", "ports") {
		protocol := p.text("protocol")
		if protocol == "" {
			protocol = "TCP"
		}
		text := fmt.Sprint(p.number("port"))
		if n := p.number("nodePort"); n > 0 {
			text += fmt.Sprintf(":%d", n)
		}
		list = append(list, text+"/"+protocol)
	}
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ",")
}

func endpoints(o object) any {
	var list []string
	for _, s := range o.list("subsets") {
		for _, a := range s.list("addresses") {
			for _, p := range s.list("ports") {
				list = append(list, fmt.Sprintf("%s:%d", a.text("ip"), p.number("port")))
			}
		}
	}
	return someOf(list)
}

func sliceEndpoints(o object) any {
	var list []string
	for _, e := range o.list("endpoints") {
		list = append(list, e.texts("addresses")...)
	}
	return someOf(list)
}

func slicePorts(o object) any {
	var list []string
	for _, p := range o.list("ports") {
		list = append(list, fmt.Sprint(p.number("port")))
	}
	return someOf(list)
}

// someOf shows the first three of a list.
func someOf(list []string) string {
	switch {
	case len(list) == 0:
		return none
	case len(list) > 3:
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:3], ","), len(list)-3)
	}
	return strings.Join(list, ",")
}

func lastSeen(o object) any {
	for _, path := range [][]string{{"series", "lastObservedTime"}, {"lastTimestamp"}, {"eventTime"}, {"metadata", "creationTimestamp"}} {
		if o.text(path...) != "" {
			return o.since(path...)
		}
	}
	return "<unknown>"
}

func firstSeen(o object) any {
	for _, path := range [][]string{{"firstTimestamp"}, {"eventTime"}, {"metadata", "creationTimestamp"}} {
		if o.text(path...) != "" {
			return o.since(path...)
		}
	}
	return "<unknown>"
}

func csrCondition(o object) any {
	status := "Pending"
	for _, c := range o.list("status", "conditions") {
		status = c.text("type")
	}
	if o.text("status", "certificate") != "" {
		status += ",Issued"
	}
	return status
}
