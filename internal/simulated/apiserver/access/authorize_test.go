// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
)

func remove(t *testing.T, c *cluster, gvr schema.GroupVersionResource, name string) {
	t.Helper()
	if err := c.Remove(gvr, "default", name); err != nil {
		t.Fatal(err)
	}
}

// release removes the finalizers of a service account.
func release(t *testing.T, c *cluster, name string) {
	t.Helper()
	sa := account(name)
	if err := c.Load(sa); err != nil {
		t.Fatal(err)
	}
	sa.Finalizers = nil
	if err := c.Save(sa); err != nil {
		t.Fatal(err)
	}
}

// rule parses "verbs group resources names", each separated by commas; the core group is
// "core", and names can be omitted.
func rule(text string) rbacv1.PolicyRule {
	f := append(strings.Fields(text), "")
	r := rbacv1.PolicyRule{Verbs: strings.Split(f[0], ","), APIGroups: strings.Split(strings.ReplaceAll(f[1], "core", ""), ","), Resources: strings.Split(f[2], ",")}
	if f[3] != "" {
		r.ResourceNames = strings.Split(f[3], ",")
	}
	return r
}

func roleRef(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
}

// one is an authorizer of a cluster in which jane has one rule, in all namespaces.
func one(t *testing.T, r rbacv1.PolicyRule) *access.Authorizer {
	t.Helper()
	c := newCluster(t,
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{r}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "r"}, RoleRef: roleRef("ClusterRole", "r"), Subjects: []rbacv1.Subject{user("jane")}})
	return access.NewAuthorizer(c.Store)
}

// The rows are the matching rules of RBAC in the documentation of Kubernetes.
func TestRuleAllowsWhatItNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		rule         string
		allows, dont []string
	}{
		"verbs and resources":        {"get,list core pods,secrets", []string{"get pods default/a", "list secrets /"}, []string{"watch pods default/", "get nodes /a", "get pods.apps default/a"}},
		"all verbs":                  {"* core pods", []string{"get,delete,approve pods default/a"}, []string{"get secrets default/a"}},
		"all groups":                 {"get * pods", []string{"get pods default/a", "get pods.metrics.k8s.io default/a"}, []string{"get nodes /a"}},
		"all resources":              {"get core *", []string{"get pods default/a", "get pods/log default/a", "get nodes /a"}, []string{"get deployments.apps default/a"}},
		"a group":                    {"get apps deployments", []string{"get deployments.apps default/a"}, []string{"get deployments default/a"}},
		"an object":                  {"get,delete core pods a", []string{"get,delete pods default/a", "get pods kube-system/a"}, []string{"get pods default/b", "get pods default/"}},
		"a resource is not all":      {"get core pods", nil, []string{"get pods/log default/a", "get pods/status default/a"}},
		"a subresource":              {"get core pods/log", []string{"get pods/log default/a"}, []string{"get pods default/a", "get pods/exec default/a", "get nodes/log /a"}},
		"a subresource of all":       {"update * */scale", []string{"update deployments.apps/scale default/a", "update replicationcontrollers/scale default/a"}, []string{"update deployments.apps default/a", "update pods/status default/a"}},
		"a star is no prefix":        {"get core pods/*", nil, []string{"get pods/log default/a", "get pods default/a"}},
		"a subresource of an object": {"update apps deployments/scale a", []string{"update deployments.apps/scale default/a"}, []string{"update deployments.apps/scale default/b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			z := one(t, rule(tc.rule))
			for want, texts := range map[bool][]string{true: tc.allows, false: tc.dont} {
				for _, text := range texts {
					for _, a := range ask(t, text) {
						if got := z.May(access.Proven("jane", ""), a); got != want {
							t.Errorf("%s %v: %v, want %v", text, a, got, want)
						}
						if z.May(access.Proven("joe", ""), a) {
							t.Errorf("joe may %s", text)
						}
					}
				}
			}
		})
	}
}

func TestRuleAllowsPaths(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, path string
		want          bool
	}{
		{"/metrics", "/metrics", true},
		{"/metrics", "/metrics/x", false},
		{"/metrics/*", "/metrics/x", true},
		{"/metrics/*", "/metrics", false},
		{"/logs*", "/logs/a/b", true},
		{"*", "/anything", true},
		{"/metrics", "", false},
	} {
		z := one(t, rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{tc.pattern}})
		if got := z.May(access.Proven("jane", ""), access.Attributes{Verb: "get", Path: tc.path}); got != tc.want {
			t.Errorf("%s allows %q: %v, want %v", tc.pattern, tc.path, got, tc.want)
		}
		if z.May(access.Proven("jane", ""), access.Attributes{Verb: "post", Path: tc.path}) || z.May(access.Proven("jane", ""), ask(t, "get pods default/a")[0]) {
			t.Errorf("%s allows another verb, or objects", tc.pattern)
		}
	}
}

// bound is a cluster in which users, groups and accounts have roles of three kinds.
func bound(t *testing.T) *access.Authorizer {
	t.Helper()
	reader := []rbacv1.PolicyRule{rule("get core configmaps")}
	group := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "readers"}
	robot := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Name: "robot"}
	c := newCluster(t,
		&rbacv1.Role{ObjectMeta: meta("r"), Rules: reader},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule("get core secrets")}},
		&rbacv1.RoleBinding{ObjectMeta: meta("role"), RoleRef: roleRef("Role", "r"), Subjects: []rbacv1.Subject{user("jane"), group, robot}},
		&rbacv1.RoleBinding{ObjectMeta: meta("cluster-role"), RoleRef: roleRef("ClusterRole", "r"), Subjects: []rbacv1.Subject{user("ann"), {Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "robot"}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: roleRef("ClusterRole", "r"), Subjects: []rbacv1.Subject{user("eve"), {Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "roamer"}}},
		&rbacv1.RoleBinding{ObjectMeta: meta("nothing"), RoleRef: roleRef("Role", "missing"), Subjects: []rbacv1.Subject{user("joe")}},
		&rbacv1.RoleBinding{ObjectMeta: meta("elsewhere"), RoleRef: roleRef("Role", "r"), Subjects: nil},
	)
	return access.NewAuthorizer(c.Store)
}

func TestBindingGrantsToItsSubjectsInItsPlace(t *testing.T) {
	t.Parallel()
	const cm, secret, otherCM, otherSecret = "get configmaps default/a", "get secrets default/a", "get configmaps kube-system/a", "get secrets kube-system/a"
	all := []string{cm, secret, otherCM, otherSecret, "get secrets /"}
	z := bound(t)
	for name, tc := range map[string]struct {
		user access.User
		want []string
	}{
		"a user of a Role":                     {access.Proven("jane", ""), []string{cm}},
		"a member of a group":                  {access.Proven("joe", "", "readers"), []string{cm}},
		"a user with the name of the group":    {access.Proven("readers", ""), nil},
		"a group with the name of the user":    {access.Proven("joe", "", "jane"), nil},
		"an account of the namespace":          {access.Proven("system:serviceaccount:default:robot", ""), []string{cm}},
		"an account of another namespace":      {access.Proven("system:serviceaccount:kube-system:robot", ""), []string{secret}},
		"an account of a third namespace":      {access.Proven("system:serviceaccount:kube-public:robot", ""), nil},
		"a user of a ClusterRole in one place": {access.Proven("ann", ""), []string{secret}},
		"a user of a ClusterRole everywhere":   {access.Proven("eve", ""), []string{secret, otherSecret, "get secrets /"}},
		"an account with rights everywhere":    {access.Proven("system:serviceaccount:default:roamer", ""), []string{secret, otherSecret, "get secrets /"}},
		"a user of a role that is missing":     {access.Proven("joe", ""), nil},
		"a member of the masters":              {access.Proven("joe", "", access.Masters), all},
		"an administrator of kubeadm":          {access.Proven("joe", "", access.ClusterAdmins), all},
		"a user with the name of the masters":  {access.Proven(access.Masters, ""), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, text := range all {
				if z.May(tc.user, ask(t, text)[0]) {
					got = append(got, text)
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("may %q, want %q", got, tc.want)
			}
		})
	}
}

// What a user may do by rules is the same whether it is listed or requested.
func TestRulesListWhatUsersMayDo(t *testing.T) {
	t.Parallel()
	z := bound(t)
	lists := func(rules []rbacv1.PolicyRule, resource string) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, resource) || slices.Contains(r.Resources, "*")
		})
	}
	for name, tc := range map[string]struct {
		user      access.User
		namespace string
		want      map[string]bool
	}{
		"in its namespace":       {access.Proven("jane", ""), "default", map[string]bool{"configmaps": true, "secrets": false}},
		"in another namespace":   {access.Proven("jane", ""), "kube-system", map[string]bool{"configmaps": false}},
		"in no namespace":        {access.Proven("ann", ""), "", map[string]bool{"secrets": false}},
		"everywhere":             {access.Proven("eve", ""), "", map[string]bool{"secrets": true}},
		"an administrator":       {access.Proven("joe", "", access.Masters), "default", map[string]bool{"secrets": true, "nodes": true}},
		"a kubelet":              {access.Proven("system:node:n", "", access.Nodes), "default", map[string]bool{"services": true, "csidrivers": true}},
		"a node without a name":  {access.Proven("joe", "", access.Nodes), "default", map[string]bool{"services": false, "csidrivers": false}},
		"a machine that joins":   {access.Proven("system:bootstrap:aaaaaa", "", access.Bootstrappers), "kube-system", map[string]bool{"configmaps": true, "certificatesigningrequests": true}},
		"a machine, not its own": {access.Proven("system:bootstrap:aaaaaa", "", access.Bootstrappers), "default", map[string]bool{"configmaps": false, "nodes": true}},
	} {
		rules := z.Rules(tc.user, tc.namespace)
		for resource, want := range tc.want {
			if got := lists(rules, resource); got != want {
				t.Errorf("%s: %s listed %v, want %v", name, resource, got, want)
			}
		}
	}
}

func TestAttributesAreDescribedAsInARefusal(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]access.Attributes{
		`cannot list resource "nodes" in API group "" at the cluster scope`:                   {Verb: "list", Resource: "nodes"},
		`cannot get resource "pods/log" in API group "" in the namespace "default"`:           {Verb: "get", Resource: "pods", Sub: "log", Namespace: "default", Name: "a"},
		`cannot create resource "deployments" in API group "apps" in the namespace "default"`: {Verb: "create", Group: "apps", Resource: "deployments", Namespace: "default"},
		`cannot get path "/metrics"`: {Verb: "get", Path: "/metrics"},
	} {
		if got := a.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestAnonymousClientsReadOnlyClusterInfo(t *testing.T) {
	t.Parallel()
	z := access.NewAuthorizer(newCluster(t).Store)
	anonymous := access.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}
	for text, want := range map[string]bool{
		"get configmaps kube-public/cluster-info": true, "list configmaps kube-public/": false, "get configmaps kube-system/cluster-info": false,
		"update configmaps kube-public/cluster-info": false, "get secrets kube-public/cluster-info": false, "get nodes /n": false,
	} {
		if got := z.May(anonymous, ask(t, text)[0]); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for path, want := range map[string]bool{"/healthz": true, "/version": true, "/metrics": false, "/": false} {
		if got := z.May(anonymous, access.Attributes{Verb: "get", Path: path}); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
