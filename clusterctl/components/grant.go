// SPDX-License-Identifier: Apache-2.0

package components

import (
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Grant adds a ClusterRole with rules to the components, and its binding to the
// ServiceAccounts of all their Pods, which it returns as NAMESPACE/NAME, sorted. Both
// have a name that starts with the provider's namespace, as all that is deleted with it.
// Without Pods nothing is added.
func (c *Components) Grant(name string, rules []rbacv1.PolicyRule) ([]string, error) {
	accounts := map[string]bool{}
	var subjects []rbacv1.Subject
	for _, obj := range c.objects {
		spec := podSpec(obj)
		if spec == nil {
			continue
		}
		account, _ := spec["serviceAccountName"].(string)
		if account == "" {
			account = "default"
		}
		if key := obj.GetNamespace() + "/" + account; !accounts[key] {
			accounts[key] = true
			subjects = append(subjects, rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: obj.GetNamespace(), Name: account})
		}
	}
	if len(subjects) == 0 {
		return nil, nil
	}
	meta := metav1.ObjectMeta{Name: c.Namespace + "-" + c.Provider.Label() + "-" + name}
	for _, obj := range []any{
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"}, ObjectMeta: meta, Rules: rules},
		&rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: meta,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}, Subjects: subjects},
	} {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, fmt.Errorf("role of %s: %w", c.Provider.Label(), err)
		}
		u := &unstructured.Unstructured{Object: content}
		unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
		c.label(u)
		c.objects = append(c.objects, u)
	}
	return sorted(accounts), nil
}
