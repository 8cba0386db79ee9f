// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// builtIn maps the kinds that every API server has to their resources, without
// requests. One mapper serves all connections.
var builtIn = sync.OnceValue(func() meta.RESTMapper {
	versions := []schema.GroupVersion{
		{Version: "v1"},
		{Group: "apps", Version: "v1"},
		{Group: "batch", Version: "v1"},
		{Group: "certificates.k8s.io", Version: "v1"},
		{Group: "coordination.k8s.io", Version: "v1"},
		{Group: "networking.k8s.io", Version: "v1"},
		{Group: "policy", Version: "v1"},
		{Group: "rbac.authorization.k8s.io", Version: "v1"},
		{Group: "scheduling.k8s.io", Version: "v1"},
		{Group: "storage.k8s.io", Version: "v1"},
	}
	mapper := meta.NewDefaultRESTMapper(versions)
	for _, gv := range versions {
		for kind := range scheme.Scheme.KnownTypes(gv) {
			scope := meta.RESTScopeNamespace
			if clusterScoped[kind] {
				scope = meta.RESTScopeRoot
			}
			mapper.Add(gv.WithKind(kind), scope)
		}
	}
	return mapper
})

// clusterScoped are the kinds of builtIn without a namespace.
var clusterScoped = map[string]bool{
	"CSIDriver":                 true,
	"CSINode":                   true,
	"CertificateSigningRequest": true,
	"ClusterRole":               true,
	"ClusterRoleBinding":        true,
	"ComponentStatus":           true,
	"IPAddress":                 true,
	"IngressClass":              true,
	"Namespace":                 true,
	"Node":                      true,
	"PersistentVolume":          true,
	"PriorityClass":             true,
	"ServiceCIDR":               true,
	"StorageClass":              true,
	"VolumeAttachment":          true,
	"VolumeAttributesClass":     true,
}
