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

// builtIn is what groups may do without any RBAC object: what kubeadm allows to
// machines that join, and what API servers allow to nodes.
var builtIn = map[string][]grant{
	nobody: {
		{metav1.NamespacePublic, []rbacv1.PolicyRule{only("get", "", "configmaps", "cluster-info")}},
	},
	authenticated: {
		{metav1.NamespacePublic, []rbacv1.PolicyRule{only("get", "", "configmaps", "cluster-info")}},
	},
	Bootstrappers: {
		{"", []rbacv1.PolicyRule{
			resources("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
			resources("get", "", "nodes"),
		}},
		{metav1.NamespaceSystem, []rbacv1.PolicyRule{only("get", "", "configmaps", "kubeadm-config", "kubelet-config", "kube-proxy")}},
	},
	Nodes: {
		{"", []rbacv1.PolicyRule{
			// What is about single objects is decided by nodeMay.
			resources("get list watch", "", "services"),
			resources("create update patch", "", "events"),
			resources("create update patch", "events.k8s.io", "events"),
			resources("create get list watch", "certificates.k8s.io", "certificatesigningrequests"),
			resources("get list watch", "storage.k8s.io", "csidrivers"),
			resources("create", "authentication.k8s.io", "tokenreviews"),
			resources("create", "authorization.k8s.io", "subjectaccessreviews"),
		}},
	},
}

func resources(verbs, group string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: names}
}

func only(verbs, group, resource string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
}
