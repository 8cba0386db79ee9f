// SPDX-License-Identifier: Apache-2.0

package validation

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// rules checks the rules of a role, which is namespaced or not.
func rules(list []rbacv1.PolicyRule, namespaced bool) (errs field.ErrorList) {
	for i, r := range list {
		at := field.NewPath("rules").Index(i)
		if len(r.Verbs) == 0 {
			errs = append(errs, field.Required(at.Child("verbs"), "verbs must contain at least one value"))
		}
		urls := at.Child("nonResourceURLs")
		switch {
		case len(r.NonResourceURLs) > 0 && namespaced:
			errs = append(errs, field.Invalid(urls, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		case len(r.NonResourceURLs) > 0:
			if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(urls, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
			}
		default:
			if len(r.APIGroups) == 0 {
				errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
			}
			if len(r.Resources) == 0 {
				errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
			}
		}
	}
	return errs
}

func aggregation(r rbacv1.AggregationRule) field.ErrorList {
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	return append(when(len(r.ClusterRoleSelectors) == 0, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil")), selectors(at, r.ClusterRoleSelectors)...)
}

// binding checks the binding of a role, which is namespaced or not.
func binding(ref rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool) (errs field.ErrorList) {
	at := field.NewPath("roleRef")
	if ref.APIGroup != rbacv1.GroupName {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), ref.APIGroup, []string{rbacv1.GroupName}))
	}
	if ref.Kind != "ClusterRole" && (ref.Kind != "Role" || !namespaced) {
		errs = append(errs, field.NotSupported(at.Child("kind"), ref.Kind, []string{"Role", "ClusterRole"}))
	}
	if ref.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	for _, text := range path.IsValidPathSegmentName(ref.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), ref.Name, text))
	}
	for i, s := range subjects {
		errs = append(errs, subject(s, namespaced, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func subject(s rbacv1.Subject, namespaced bool, at *field.Path) (errs field.ErrorList) {
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	group := rbacv1.GroupName
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		group = ""
		if s.Name != "" {
			for _, text := range utilvalidation.IsDNS1123Subdomain(s.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), s.Name, text))
			}
		}
		if s.Namespace == "" && !namespaced {
			errs = append(errs, field.Required(at.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
	default:
		return append(errs, field.NotSupported(at.Child("kind"), s.Kind, []string{rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	if s.APIGroup != group {
		errs = append(errs, field.NotSupported(at.Child("apiGroup"), s.APIGroup, []string{group}))
	}
	return errs
}
