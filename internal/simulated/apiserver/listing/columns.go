// SPDX-License-Identifier: Apache-2.0

package listing

import (
	"fmt"
	"slices"
	"strings"
)

const none = "<none>"

// columns are those of kinds that show more than a name and an age.
var columns = map[string][]column{
	"nodes": {
		name, {name: "Status", cell: nodeStatus}, {name: "Roles", cell: nodeRoles}, age,
		at("Version", "", "status", "nodeInfo", "kubeletVersion"),
		wide(address("Internal-IP", "InternalIP")), wide(address("External-IP", "ExternalIP")),
		wide(at("OS-Image", "<unknown>", "status", "nodeInfo", "osImage")),
		wide(at("Kernel-Version", "<unknown>", "status", "nodeInfo", "kernelVersion")),
		wide(at("Container-Runtime", "<unknown>", "status", "nodeInfo", "containerRuntimeVersion")),
	},
	"pods": {
		name, {name: "Ready", cell: podReady}, {name: "Status", cell: podStatus}, {name: "Restarts", cell: podRestarts}, age,
		wide(at("IP", none, "status", "podIP")), wide(at("Node", none, "spec", "nodeName")),
		wide(at("Nominated Node", none, "status", "nominatedNodeName")), wide(column{name: "Readiness Gates", cell: constant(none)}),
	},
	"namespaces":      {name, at("Status", "", "status", "phase"), age},
	"configmaps":      {name, dataCount("data", "binaryData"), age},
	"secrets":         {name, at("Type", "", "type"), dataCount("data"), age},
	"serviceaccounts": {name, {name: "Secrets", cell: func(o object) any { return len(o.list("secrets")) }}, age},
	"services": {
		name, at("Type", "", "spec", "type"), at("Cluster-IP", none, "spec", "clusterIP"),
		{name: "External-IP", cell: externalIP}, {name: "Port(s)", cell: ports}, age,
		wide(selector("Selector", "spec", "selector")),
	},
	"endpoints": {name, {name: "Endpoints", cell: endpoints}, age},
	"deployments": append([]column{
		name, {name: "Ready", cell: readyOf("replicas")},
		count("Up-to-date", "status", "updatedReplicas"), count("Available", "status", "availableReplicas"), age,
	}, workload...),
	"replicasets": append([]column{
		name, count("Desired", "spec", "replicas"), count("Current", "status", "replicas"), count("Ready", "status", "readyReplicas"), age,
	}, workload...),
	"daemonsets": append([]column{
		name, count("Desired", "status", "desiredNumberScheduled"), count("Current", "status", "currentNumberScheduled"),
		count("Ready", "status", "numberReady"), count("Up-to-date", "status", "updatedNumberScheduled"),
		count("Available", "status", "numberAvailable"), selector("Node Selector", "spec", "template", "spec", "nodeSelector"), age,
	}, workload...),
	"events": {
		{name: "Last Seen", cell: lastSeen}, at("Type", "", "type"), at("Reason", "", "reason"),
		{name: "Object", cell: func(o object) any {
			return strings.ToLower(o.text("involvedObject", "kind")) + "/" + o.text("involvedObject", "name")
		}},
		wide(at("Subobject", "", "involvedObject", "fieldPath")), wide(at("Source", "", "source", "component")),
		at("Message", "", "message"), wide(column{name: "First Seen", cell: firstSeen}), wide(count("Count", "count")), wide(name),
	},
	"leases": {name, at("Holder", "", "spec", "holderIdentity"), age},
	"volumeattachments": {
		name, at("Attacher", "", "spec", "attacher"), at("PV", "", "spec", "source", "persistentVolumeName"), at("Node", "", "spec", "nodeName"),
		{name: "Attached", cell: value("false", "status", "attached")}, age,
	},
	"poddisruptionbudgets": {
		name, {name: "Min Available", cell: value("N/A", "spec", "minAvailable")}, {name: "Max Unavailable", cell: value("N/A", "spec", "maxUnavailable")},
		count("Allowed Disruptions", "status", "disruptionsAllowed"), age,
	},
	"certificatesigningrequests": {
		name, age, at("SignerName", none, "spec", "signerName"), at("Requestor", "", "spec", "username"), {name: "RequestedDuration", cell: constant(none)},
		{name: "Condition", cell: csrCondition},
	},
	"rolebindings":        {name, {name: "Role", cell: roleRef}, age},
	"clusterrolebindings": {name, {name: "Role", cell: roleRef}, age},
	"roles":               {name, at("Created At", "", "metadata", "creationTimestamp")},
	"clusterroles":        {name, at("Created At", "", "metadata", "creationTimestamp")},
	"endpointslices": {
		name, at("AddressType", "", "addressType"), {name: "Ports", cell: slicePorts}, {name: "Endpoints", cell: sliceEndpoints}, age,
	},
}

var workload = []column{
	wide(column{name: "Containers", cell: containers("name")}), wide(column{name: "Images", cell: containers("image")}),
	wide(column{name: "Selector", cell: labelSelector}),
}

func constant(v any) func(object) any { return func(object) any { return v } }

func nodeStatus(o object) any {
	status := "Unknown"
	for _, c := range o.list("status", "conditions") {
		if c.text("type") == "Ready" {
			status = "NotReady"
			if c.text("status") == "True" {
				status = "Ready"
			}
		}
	}
	if o.truth("spec", "unschedulable") {
		status += ",SchedulingDisabled"
	}
	return status
}

func nodeRoles(o object) any {
	var roles []string
	for key, value := range o.labels() {
		if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok && role != "" {
			roles = append(roles, role)
		} else if key == "kubernetes.io/role" && value != "" {
			roles = append(roles, value)
		}
	}
	if len(roles) == 0 {
		return none
	}
	slices.Sort(roles)
	return strings.Join(slices.Compact(roles), ",")
}

func address(title, kind string) column {
	return column{name: title, cell: func(o object) any {
		for _, a := range o.list("status", "addresses") {
			if a.text("type") == kind {
				return a.text("address")
			}
		}
		return none
	}}
}

func podReady(o object) any {
	ready, total := 0, len(o.list("spec", "containers"))
	for _, c := range o.list("status", "containerStatuses") {
		if c.truth("ready") {
			ready++
		}
	}
	return fmt.Sprintf("%d/%d", ready, total)
}

func podStatus(o object) any {
	if o.text("metadata", "deletionTimestamp") != "" {
		return "Terminating"
	}
	for _, c := range o.list("status", "containerStatuses") {
		for _, state := range []string{"waiting", "terminated"} {
			if reason := c.text("state", state, "reason"); reason != "" {
				return reason
			}
		}
	}
	if reason := o.text("status", "reason"); reason != "" {
		return reason
	}
	return o.text("status", "phase")
}

func podRestarts(o object) any {
	var n int64
	for _, c := range o.list("status", "containerStatuses") {
		n += c.number("restartCount")
	}
	return fmt.Sprint(n)
}

func dataCount(fields ...string) column {
	return column{name: "Data", cell: func(o object) any {
		n := 0
		for _, f := range fields {
			n += o.keys(f)
		}
		return n
	}}
}

func readyOf(desired string) func(object) any {
	return func(o object) any {
		return fmt.Sprintf("%d/%d", o.number("status", "readyReplicas"), o.number("spec", desired))
	}
}

func roleRef(o object) any { return o.text("roleRef", "kind") + "/" + o.text("roleRef", "name") }
