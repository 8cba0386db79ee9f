// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/defaulting"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

// Attributes is what a user requests. Without a Resource it is about Path.
type Attributes struct {
	Verb      string
	Group     string
	Resource  string
	Sub       string
	Namespace string
	Name      string
	NodeName  string // that Pods are selected by
	Path      string
}

// String describes it in the words of an API server's refusal.
func (a Attributes) String() string {
	if a.Resource == "" {
		return fmt.Sprintf("cannot %s path %q", a.Verb, a.Path)
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("cannot %s resource %q in API group %q %s", a.Verb, a.resource(), a.Group, where)
}

func (a Attributes) resource() string {
	if a.Sub != "" {
		return a.Resource + "/" + a.Sub
	}
	return a.Resource
}

// Authorizer decides what users may do in one cluster.
type Authorizer struct{ objects *objects.Store }

// NewAuthorizer returns one that reads the RBAC objects of a cluster.
func NewAuthorizer(o *objects.Store) *Authorizer { return &Authorizer{objects: o} }

// May reports whether a user may do something: administrators everything,
// others what the built-in rules of their groups or a role bound to them
// allow.
func (z *Authorizer) May(u User, a Attributes) bool {
	if u.In(Masters) || u.In(ClusterAdmins) {
		return true
	}
	if node, ok := u.node(); ok && z.nodeMay(node, a) {
		return true
	}
	return allows(rulesOfGroups(u, a.Namespace), a) || allows(z.rulesIn(clusterRoleBindingKind, "", u), a) ||
		a.Namespace != "" && allows(z.rulesIn(roleBindingKind, a.Namespace, u), a)
}

// rulesOfGroups lists the built-in rules of a user's groups in a namespace. A member of the
// group of nodes that is no node has none of it.
func rulesOfGroups(u User, namespace string) (rules []rbacv1.PolicyRule) {
	_, kubelet := u.node()
	for _, group := range u.Groups {
		for _, g := range builtIn[group] {
			if (group != Nodes || kubelet) && (g.namespace == "" || g.namespace == namespace) {
				rules = append(rules, g.rules...)
			}
		}
	}
	return rules
}

var (
	clusterRoleKind        = kinds.Everywhere().ByKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRole"))
	clusterRoleBindingKind = kinds.Everywhere().ByKind(rbacv1.SchemeGroupVersion.WithKind("ClusterRoleBinding"))
	roleKind               = kinds.Everywhere().ByKind(rbacv1.SchemeGroupVersion.WithKind("Role"))
	roleBindingKind        = kinds.Everywhere().ByKind(rbacv1.SchemeGroupVersion.WithKind("RoleBinding"))
)

// rulesIn lists the rules that bindings of one kind, in one place, give a user.
func (z *Authorizer) rulesIn(k *kinds.Kind, namespace string, u User) (rules []rbacv1.PolicyRule) {
	entries, _ := z.objects.Entries().List(k.GroupResource(), namespace)
	for _, e := range entries {
		b, err := defaulting.ReadAccess(e)
		if err != nil {
			continue // stored objects were decoded before; nothing is granted by what is not one
		}
		if slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return subjectIs(s, namespace, u) }) {
			rules = append(rules, z.rules(b.RoleRef, namespace)...)
		}
	}
	return rules
}

func subjectIs(s rbacv1.Subject, namespace string, u User) bool {
	switch s.Kind {
	case rbacv1.UserKind:
		return s.Name == u.Name
	case rbacv1.GroupKind:
		return u.In(s.Name)
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return u.Name == accountName(namespace, s.Name)
	}
	return false
}

// Rules lists what a user may do in a namespace, as far as rules define it.
func (z *Authorizer) Rules(u User, namespace string) (rules []rbacv1.PolicyRule) {
	if u.In(Masters) || u.In(ClusterAdmins) {
		all := []string{"*"}
		return []rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}
	}
	rules = append(rulesOfGroups(u, namespace), z.rulesIn(clusterRoleBindingKind, "", u)...)
	if namespace == "" {
		return rules
	}
	return append(rules, z.rulesIn(roleBindingKind, namespace, u)...)
}

func (z *Authorizer) rules(ref rbacv1.RoleRef, namespace string) []rbacv1.PolicyRule {
	k := clusterRoleKind
	if ref.Kind == "Role" {
		k = roleKind
	}
	e, err := z.objects.Entry(k, namespace, ref.Name)
	if err != nil {
		return nil
	}
	role, err := defaulting.ReadAccess(e)
	if err != nil {
		return nil
	}
	return role.Rules
}

// allows reports whether one of the rules covers what is asked.
func allows(rules []rbacv1.PolicyRule, a Attributes) bool {
	has := func(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		if !has(r.Verbs, a.Verb) {
			return false
		}
		if a.Resource == "" {
			return slices.ContainsFunc(r.NonResourceURLs, func(pattern string) bool { return pathMatches(pattern, a.Path) })
		}
		resource := has(r.Resources, a.resource()) || (a.Sub != "" && slices.Contains(r.Resources, "*/"+a.Sub))
		return has(r.APIGroups, a.Group) && resource && (len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name))
	})
}

func pathMatches(pattern, path string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return pattern == path
}
