// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	// computed are the resources of Pods that a quota bounds.
	computed = []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
	}
	// counted are the numbers of objects that a quota bounds.
	counted = []corev1.ResourceName{
		corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets, corev1.ResourceConfigMaps,
		corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers,
	}
	// bounded are the resources without a domain that a quota bounds.
	bounded = slices.Concat(computed, counted, []corev1.ResourceName{
		corev1.ResourceEphemeralStorage, corev1.ResourceRequestsStorage, corev1.ResourceRequestsEphemeralStorage, corev1.ResourceLimitsEphemeralStorage,
	})
	scopes = []corev1.ResourceQuotaScope{
		corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass,
	}
)

// resourceName checks the name of a resource, which has a domain or is one of a set.
func resourceName(at *field.Path, name corev1.ResourceName, set []corev1.ResourceName, hugePages string) field.ErrorList {
	errs := formed(at, name, utilvalidation.IsQualifiedName)
	known := strings.Contains(string(name), "/") || slices.Contains(set, name) || strings.HasPrefix(string(name), hugePages)
	return append(errs, when(!known, field.Invalid(at, name, "must be a standard resource type or fully qualified"))...)
}

// containerResource checks the name of a resource of a container.
func containerResource(at *field.Path, name corev1.ResourceName) field.ErrorList {
	errs := resourceName(at, name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage}, corev1.ResourceHugePagesPrefix)
	extended := strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
	if extended && (strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) || len(utilvalidation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) > 0) {
		errs = append(errs, field.Invalid(at, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

func isWhole(q resource.Quantity) bool { return q.MilliValue()%1000 == 0 }

// isCounted reports whether a resource has whole numbers only.
func isCounted(name corev1.ResourceName) bool {
	return slices.Contains(counted, name) ||
		strings.Contains(string(name), "/") && !strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix) && !strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix)
}

func quota(s *corev1.ResourceQuotaSpec, at *field.Path) (errs field.ErrorList) {
	for name, q := range s.Hard {
		at := at.Child("hard").Key(string(name))
		errs = append(errs, resourceName(at, name, bounded, corev1.ResourceRequestsHugePagesPrefix)...)
		errs = append(errs, when(q.Sign() < 0, field.Invalid(at, q.String(), "must be greater than or equal to 0"))...)
		errs = append(errs, when(isCounted(name) && !isWhole(q), field.Invalid(at, q.String(), "must be an integer"))...)
	}
	errs = append(errs, quotaScopes(at.Child("scopes"), s.Scopes, s.Hard)...)
	if s.ScopeSelector == nil {
		return errs
	}
	at = at.Child("scopeSelector", "matchExpressions")
	var selected []corev1.ResourceQuotaScope
	for i, r := range s.ScopeSelector.MatchExpressions {
		selected = append(selected, r.ScopeName)
		errs = append(errs, scopeRequirement(at.Index(i), &r)...)
	}
	return append(errs, quotaScopes(at, selected, s.Hard)...)
}

func scopeRequirement(at *field.Path, r *corev1.ScopedResourceSelectorRequirement) field.ErrorList {
	exists := r.Operator == corev1.ScopeSelectorOpExists
	values := exists || r.Operator == corev1.ScopeSelectorOpDoesNotExist
	valued := r.ScopeName == corev1.ResourceQuotaScopePriorityClass || r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass
	return slices.Concat(
		oneOf(at.Child("operator"), r.Operator, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist),
		when(!exists && !valued && slices.Contains(scopes, r.ScopeName), field.Invalid(at.Child("operator"), r.Operator, "must be 'Exists' for this scope")),
		when(values != (len(r.Values) == 0), field.Invalid(at.Child("values"), r.Values, "must have values when `operator` is 'In' or 'NotIn', and only then")),
	)
}

// quotaScopes checks that scopes exist together, and with the resources of a quota.
func quotaScopes(at *field.Path, list []corev1.ResourceQuotaScope, hard corev1.ResourceList) (errs field.ErrorList) {
	both := func(a, b corev1.ResourceQuotaScope) bool { return slices.Contains(list, a) && slices.Contains(list, b) }
	for _, scope := range list {
		errs = append(errs, oneOf(at, scope, scopes...)...)
		for name := range hard {
			known := slices.Contains(bounded, name) || strings.HasPrefix(string(name), corev1.ResourceRequestsHugePagesPrefix)
			errs = append(errs, when(known && !isInScope(name, scope), field.Invalid(at, scope, fmt.Sprintf("unsupported scope applied to resource %s", name)))...)
		}
	}
	return append(errs, when(both(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort) || both(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating),
		field.Invalid(at, list, "conflicting scopes"))...)
}

func isInScope(name corev1.ResourceName, scope corev1.ResourceQuotaScope) bool {
	switch scope {
	case corev1.ResourceQuotaScopeBestEffort:
		return name == corev1.ResourcePods
	case corev1.ResourceQuotaScopeVolumeAttributesClass:
		return name == corev1.ResourcePersistentVolumeClaims || name == corev1.ResourceRequestsStorage
	}
	return name == corev1.ResourcePods || slices.Contains(computed, name) || !slices.Contains(scopes, scope)
}

func limits(at *field.Path, l *corev1.LimitRangeItem) (errs field.ErrorList) {
	storage := l.Type == corev1.LimitTypePersistentVolumeClaim
	_, least := l.Min[corev1.ResourceStorage]
	_, most := l.Max[corev1.ResourceStorage]
	domain := strings.Contains(string(l.Type), "/")
	errs = slices.Concat(
		formed(at.Child("type"), l.Type, utilvalidation.IsQualifiedName),
		when(!domain, oneOf(at.Child("type"), l.Type, corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim)...),
		when(l.Type == corev1.LimitTypePod && len(l.Default)+len(l.DefaultRequest) > 0, field.Forbidden(at.Child("default"), "may not be specified when `type` is 'Pod'")),
		when(storage && !least && !most, field.Required(at.Child("limits"), "either minimum or maximum storage value is required, but neither was provided")),
	)
	for name, list := range map[string]corev1.ResourceList{"max": l.Max, "min": l.Min, "default": l.Default, "defaultRequest": l.DefaultRequest, "maxLimitRequestRatio": l.MaxLimitRequestRatio} {
		for resource := range list {
			at := at.Child(name).Key(string(resource))
			if l.Type == corev1.LimitTypePod || l.Type == corev1.LimitTypeContainer {
				errs = append(errs, containerResource(at, resource)...)
			} else {
				errs = append(errs, resourceName(at, resource, append(bounded, corev1.ResourceStorage), corev1.ResourceRequestsHugePagesPrefix)...)
			}
		}
	}
	ordered := func(name string, low, high corev1.ResourceList) {
		for resource, q := range low {
			if bound, ok := high[resource]; ok && q.Cmp(bound) > 0 {
				errs = append(errs, field.Invalid(at.Child(name).Key(string(resource)), q.String(), fmt.Sprintf("min value %s is greater than max value %s", q.String(), bound.String())))
			}
		}
	}
	ordered("min", l.Min, l.Max)
	ordered("defaultRequest", l.Min, l.DefaultRequest)
	ordered("defaultRequest", l.DefaultRequest, l.Max)
	ordered("defaultRequest", l.DefaultRequest, l.Default)
	ordered("default", l.Min, l.Default)
	ordered("default", l.Default, l.Max)
	for resource, q := range l.DefaultRequest {
		if bound, ok := l.Default[resource]; ok && strings.Contains(string(resource), "/") && q.Cmp(bound) != 0 {
			errs = append(errs, field.Invalid(at.Child("defaultRequest").Key(string(resource)), q.String(), "must equal the default value of a resource that cannot be overcommitted"))
		}
	}
	return append(errs, ratios(at.Child("maxLimitRequestRatio"), l)...)
}

// ratios checks that the ratios of limits to requests are possible.
func ratios(at *field.Path, l *corev1.LimitRangeItem) (errs field.ErrorList) {
	for resource, ratio := range l.MaxLimitRequestRatio {
		at := at.Key(string(resource))
		errs = append(errs, when(ratio.AsApproximateFloat64() < 1, field.Invalid(at, ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))...)
		low, least := l.Min[resource]
		high, most := l.Max[resource]
		if most && least && ratio.AsApproximateFloat64() > high.AsApproximateFloat64()/low.AsApproximateFloat64() {
			errs = append(errs, field.Invalid(at, ratio.String(), fmt.Sprintf("ratio %s is greater than max/min", ratio.String())))
		}
	}
	return errs
}
