// SPDX-License-Identifier: Apache-2.0

package access

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// grant is a set of rules, in one namespace unless that is empty.
type grant struct {
	namespace string
	rules     []rbacv1.PolicyRule
}

// builtIn says what groups may do without any RBAC object, as API servers,
// their node authorizer and kubeadm have it.
var builtIn = map[string][]grant{
	nobody: {
		{"", []rbacv1.PolicyRule{paths("get", "/healthz", "/livez", "/readyz", "/version", "/version/")}},
		{metav1.NamespacePublic, []rbacv1.PolicyRule{named("get", "", "configmaps", "cluster-info")}},
	},
	authenticated: {
		{"", []rbacv1.PolicyRule{
			paths("get", "/", "/healthz", "/livez", "/readyz", "/healthz/*", "/livez/*", "/readyz/*", "/version", "/version/",
				"/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"),
			resources("create", "authorization.k8s.io", "selfsubjectaccessreviews"),
			resources("create", "authentication.k8s.io", "selfsubjectreviews"),
		}},
		{metav1.NamespacePublic, []rbacv1.PolicyRule{named("get", "", "configmaps", "cluster-info")}},
	},
	Bootstrappers: {
		{"", []rbacv1.PolicyRule{
			resources("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
			resources("get", "", "nodes"),
		}},
		{metav1.NamespaceSystem, []rbacv1.PolicyRule{named("get", "", "configmaps", "kubeadm-config", "kubelet-config", "kube-proxy")}},
	},
	Nodes: {
		{"", []rbacv1.PolicyRule{
			resources("get list watch create update patch", "", "nodes", "nodes/status"),
			resources("get list watch create delete", "", "pods"),
			resources("update patch", "", "pods/status"),
			resources("create", "", "pods/eviction", "serviceaccounts/token"),
			resources("get list watch", "", "services", "configmaps", "secrets", "persistentvolumes", "persistentvolumeclaims"),
			resources("update patch", "", "persistentvolumeclaims/status"),
			resources("create update patch", "", "events"),
			resources("create update patch", "events.k8s.io", "events"),
			resources("get create update patch delete", "coordination.k8s.io", "leases"),
			resources("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
			resources("get", "storage.k8s.io", "volumeattachments"),
			resources("get list watch", "storage.k8s.io", "csidrivers"),
			resources("get create update patch delete", "storage.k8s.io", "csinodes"),
			resources("create", "authentication.k8s.io", "tokenreviews"),
			resources("create", "authorization.k8s.io", "subjectaccessreviews"),
		}},
	},
}

func resources(verbs, group string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: names}
}

func named(verbs, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}

func paths(verbs string, patterns ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: patterns}
}
