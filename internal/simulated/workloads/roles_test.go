// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestARoleGathersWhatOthersAllow(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	sees := func(role string) bool {
		t.Helper()
		r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: role}}
		l.must(l.store.Load(r))
		return slices.ContainsFunc(r.Rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Resources, "gadgets") })
	}
	widgets := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "gadgets-view", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
		Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"example.com"}, Resources: []string{"gadgets"}}},
	}
	l.must(l.store.Add(widgets))
	for _, role := range []string{"view", "edit", "admin"} {
		if !sees(role) {
			t.Errorf("%s does not see what a role for it allows", role)
		}
	}
	l.must(l.store.Remove(rbacv1.SchemeGroupVersion.WithResource("clusterroles"), "", widgets.Name))
	for _, role := range []string{"view", "edit", "admin"} {
		if sees(role) {
			t.Errorf("%s still sees what the role allowed", role)
		}
	}
}
