// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/defaulting"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var clusterRoles = schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}

// clusterRole updates the aggregated roles with the rules of their parts, when one
// of them has changed or is deleted.
func (c *Controllers) clusterRole(store.Key) (time.Time, error) {
	roles, _ := c.store.Entries().List(clusterRoles, "")
	read := map[*store.Entry]*defaulting.Access{}
	for _, e := range roles {
		a, err := defaulting.ReadAccess(e)
		if err != nil {
			return time.Time{}, err
		}
		read[e] = a
	}
	for _, e := range roles {
		a := read[e]
		if a.Aggregation == nil {
			continue
		}
		rules := gather(a.Aggregation, e.Key.Name, roles, read)
		if equality.Semantic.DeepEqual(rules, a.Rules) {
			continue
		}
		err := modify(c, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: e.Key.Name}}, func(r *rbacv1.ClusterRole) error {
			r.Rules = rules
			return nil
		})
		if err != nil {
			return time.Time{}, err
		}
	}
	return time.Time{}, nil // a written role triggers another reconcile, for those that aggregate it
}

// gather computes the rules of an aggregated role, as the controller of a control
// plane does. The roles are in the order of their names.
func gather(by *rbacv1.AggregationRule, name string, roles []*store.Entry, read map[*store.Entry]*defaulting.Access) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for i := range by.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&by.ClusterRoleSelectors[i])
		if err != nil {
			continue // it was checked when it was stored
		}
		for _, e := range roles {
			if e.Key.Name == name || !selector.Matches(labels.Set(e.Labels)) {
				continue
			}
			for _, r := range read[e].Rules {
				if !slices.ContainsFunc(rules, func(have rbacv1.PolicyRule) bool { return equality.Semantic.DeepEqual(have, r) }) {
					rules = append(rules, r)
				}
			}
		}
	}
	return rules
}
