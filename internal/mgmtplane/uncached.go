// SPDX-License-Identifier: Apache-2.0

package mgmtplane

// uncached are the kinds of Kubernetes' that the API server keeps no watch cache
// of. They are for clusters with nodes and are rare or absent in a management
// cluster, where nobody but the garbage collector watches them; each cache wakes
// the process once a second to see whether a watch needs a bookmark. They are
// served from etcd, as Events are everywhere.
var uncached = []string{
	"controllerrevisions.apps", "daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps",
	"endpoints", "limitranges", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "replicationcontrollers", "resourcequotas",
	"cronjobs.batch", "horizontalpodautoscalers.autoscaling", "jobs.batch", "poddisruptionbudgets.policy",
	"certificatesigningrequests.certificates.k8s.io", "leases.coordination.k8s.io",
	"flowschemas.flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
	"ingressclasses.networking.k8s.io", "ingresses.networking.k8s.io", "ipaddresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "servicecidrs.networking.k8s.io",
	"deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io", "resourceslices.resource.k8s.io",
	"priorityclasses.scheduling.k8s.io", "runtimeclasses.node.k8s.io",
	"csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "csistoragecapacities.storage.k8s.io", "storageclasses.storage.k8s.io",
	"volumeattachments.storage.k8s.io", "volumeattributesclasses.storage.k8s.io",
}
