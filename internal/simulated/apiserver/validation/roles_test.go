// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestObjectChecksRolesAndBindings has no error wanted for what an API server accepts.
func TestObjectChecksRolesAndBindings(t *testing.T) {
	t.Parallel()
	const ref = "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: 'system:r'}"
	for name, tc := range map[string]struct {
		obj        runtime.Object
		text, want string
	}{
		"role":                      {&rbacv1.Role{}, "rules: [{verbs: [get], apiGroups: [''], resources: [pods]}]", ""},
		"no verbs":                  {&rbacv1.Role{}, "rules: [{apiGroups: [''], resources: [pods]}]", "rules[0].verbs: Required value"},
		"no group":                  {&rbacv1.Role{}, "rules: [{verbs: [get], resources: [pods]}]", "rules[0].apiGroups: Required value"},
		"no resource":               {&rbacv1.ClusterRole{}, "rules: [{verbs: [get], apiGroups: ['']}]", "rules[0].resources: Required value"},
		"URL in a Role":             {&rbacv1.Role{}, "rules: [{verbs: [get], nonResourceURLs: [/x]}]", "namespaced rules cannot apply"},
		"URL":                       {&rbacv1.ClusterRole{}, "rules: [{verbs: [get], nonResourceURLs: [/x]}]", ""},
		"URL and resource":          {&rbacv1.ClusterRole{}, "rules: [{verbs: [get], nonResourceURLs: [/x], resources: [pods]}]", "rules cannot apply to both"},
		"binding":                   {&rbacv1.RoleBinding{}, ref + "\nsubjects: [{kind: ServiceAccount, name: a}]", ""},
		"Role of all namespaces":    {&rbacv1.ClusterRoleBinding{}, strings.Replace(ref, "ClusterRole", "Role", 1), `roleRef.kind: Unsupported value: "Role"`},
		"other group":               {&rbacv1.RoleBinding{}, strings.Replace(ref, "rbac.authorization.k8s.io", "apps", 1), "roleRef.apiGroup: Unsupported value"},
		"no name":                   {&rbacv1.RoleBinding{}, strings.Replace(ref, "'system:r'", "''", 1), "roleRef.name: Required value"},
		"name of a folder":          {&rbacv1.RoleBinding{}, strings.Replace(ref, "'system:r'", "..", 1), "roleRef.name: Invalid value"},
		"account of no namespace":   {&rbacv1.ClusterRoleBinding{}, ref + "\nsubjects: [{kind: ServiceAccount, name: a}]", "subjects[0].namespace: Required value"},
		"account with a bad name":   {&rbacv1.RoleBinding{}, ref + "\nsubjects: [{kind: ServiceAccount, name: A_}]", "subjects[0].name: Invalid value"},
		"subject without a name":    {&rbacv1.RoleBinding{}, ref + "\nsubjects: [{kind: User, apiGroup: rbac.authorization.k8s.io}]", "subjects[0].name: Required value"},
		"subject of another kind":   {&rbacv1.RoleBinding{}, ref + "\nsubjects: [{kind: Pod, name: a}]", `subjects[0].kind: Unsupported value: "Pod"`},
		"user of the group of apps": {&rbacv1.RoleBinding{}, ref + "\nsubjects: [{kind: User, name: a, apiGroup: apps}]", "subjects[0].apiGroup: Unsupported value"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Object(filled(t, tc.obj, tc.text)).ToAggregate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
