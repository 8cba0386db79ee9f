// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Object checks an object of the client-go scheme as an API server does at its creation.
// Kinds that are not listed here are accepted.
func Object(obj runtime.Object) field.ErrorList {
	spec := field.NewPath("spec")
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		return configMap(o)
	case *corev1.Secret:
		return secret(o)
	case *corev1.Namespace:
		return namespace(&o.Spec, spec)
	case *corev1.Node:
		return node(&o.Spec, spec)
	case *corev1.Pod:
		return pod(o, spec)
	case *corev1.PodTemplate:
		return template(&o.Template, field.NewPath("template"))
	case *corev1.Service:
		return service(&o.Spec, spec)
	case *corev1.ResourceQuota:
		return quota(&o.Spec, spec)
	case *corev1.LimitRange:
		at := spec.Child("limits")
		return append(each(at, o.Spec.Limits, limits), unique(at, o.Spec.Limits, func(l *corev1.LimitRangeItem) corev1.LimitType { return l.Type }, "type")...)
	case *appsv1.Deployment:
		return deployment(&o.Spec, spec)
	case *appsv1.ReplicaSet:
		return append(workload(o.Spec.Selector, &o.Spec.Template, spec), numbers(spec, map[string]*int32{"replicas": o.Spec.Replicas, "minReadySeconds": &o.Spec.MinReadySeconds})...)
	case *appsv1.StatefulSet:
		return statefulSet(&o.Spec, spec)
	case *appsv1.DaemonSet:
		return daemonSet(&o.Spec, spec)
	case *appsv1.ControllerRevision:
		return append(when(o.Data.Raw == nil, field.Required(field.NewPath("data"), "data is mandatory")), numbers(nil, map[string]*int64{"revision": &o.Revision})...)
	case *batchv1.Job:
		return job(&o.Spec, spec)
	case *batchv1.CronJob:
		return cronJob(&o.Spec, spec)
	case *policyv1.PodDisruptionBudget:
		return budget(&o.Spec, spec)
	case *coordinationv1.Lease:
		return lease(&o.Spec, spec)
	case *rbacv1.Role:
		return rules(o.Rules, true)
	case *rbacv1.ClusterRole:
		return append(rules(o.Rules, false), optionally(o.AggregationRule, aggregation)...)
	case *rbacv1.RoleBinding:
		return binding(o.RoleRef, o.Subjects, true)
	case *rbacv1.ClusterRoleBinding:
		return binding(o.RoleRef, o.Subjects, false)
	}
	return nil
}

func deployment(s *appsv1.DeploymentSpec, at *field.Path) field.ErrorList {
	recreate := s.Strategy.Type == appsv1.RecreateDeploymentStrategyType
	strategy := at.Child("strategy")
	return slices.Concat(
		workload(s.Selector, &s.Template, at),
		numbers(at, map[string]*int32{"replicas": s.Replicas, "minReadySeconds": &s.MinReadySeconds, "revisionHistoryLimit": s.RevisionHistoryLimit, "progressDeadlineSeconds": s.ProgressDeadlineSeconds}),
		optionally(s.ProgressDeadlineSeconds, func(n int32) field.ErrorList {
			return when(n <= s.MinReadySeconds, field.Invalid(at.Child("progressDeadlineSeconds"), n, "must be greater than minReadySeconds"))
		}),
		oneOf(strategy.Child("type"), s.Strategy.Type, appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType),
		optionally(s.Strategy.RollingUpdate, func(u appsv1.RollingUpdateDeployment) field.ErrorList {
			at := strategy.Child("rollingUpdate")
			return append(when(recreate, field.Forbidden(at, "may not be specified when strategy `type` is 'Recreate'")), update(u.MaxUnavailable, u.MaxSurge, false, at)...)
		}),
	)
}

func statefulSet(s *appsv1.StatefulSetSpec, at *field.Path) field.ErrorList {
	errs := slices.Concat(
		workload(s.Selector, &s.Template, at),
		numbers(at, map[string]*int32{"replicas": s.Replicas, "minReadySeconds": &s.MinReadySeconds}),
		oneOf(at.Child("podManagementPolicy"), s.PodManagementPolicy, appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement),
		oneOf(at.Child("updateStrategy", "type"), s.UpdateStrategy.Type, appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType),
		when(s.ServiceName != "", formed(at.Child("serviceName"), s.ServiceName, utilvalidation.IsDNS1123Label)...),
		optionally(s.Ordinals, func(o appsv1.StatefulSetOrdinals) field.ErrorList {
			return numbers(at.Child("ordinals"), map[string]*int32{"start": &o.Start})
		}),
		optionally(s.UpdateStrategy.RollingUpdate, func(u appsv1.RollingUpdateStatefulSetStrategy) field.ErrorList {
			at, onDelete := at.Child("updateStrategy", "rollingUpdate"), s.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
			return slices.Concat(
				when(onDelete, field.Invalid(at, "", "only allowed for updateStrategy 'RollingUpdate'")),
				numbers(at, map[string]*int32{"partition": u.Partition}), amount(u.MaxUnavailable, true, at.Child("maxUnavailable")),
				when(isNone(u.MaxUnavailable), field.Invalid(at.Child("maxUnavailable"), u.MaxUnavailable, "cannot be 0")),
			)
		}),
	)
	return append(errs, optionally(s.PersistentVolumeClaimRetentionPolicy, func(p appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy) field.ErrorList {
		at := at.Child("persistentVolumeClaimRetentionPolicy")
		return append(oneOf(at.Child("whenDeleted"), p.WhenDeleted, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType),
			oneOf(at.Child("whenScaled"), p.WhenScaled, appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)...)
	})...)
}

func daemonSet(s *appsv1.DaemonSetSpec, at *field.Path) field.ErrorList {
	return slices.Concat(
		workload(s.Selector, &s.Template, at),
		numbers(at, map[string]*int32{"minReadySeconds": &s.MinReadySeconds, "revisionHistoryLimit": s.RevisionHistoryLimit}),
		oneOf(at.Child("updateStrategy", "type"), s.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType),
		optionally(s.UpdateStrategy.RollingUpdate, func(u appsv1.RollingUpdateDaemonSet) field.ErrorList {
			return update(u.MaxUnavailable, u.MaxSurge, true, at.Child("updateStrategy", "rollingUpdate"))
		}),
	)
}

func cronJob(s *batchv1.CronJobSpec, at *field.Path) field.ErrorList {
	errs := append(job(&s.JobTemplate.Spec, at.Child("jobTemplate", "spec")), numbers(at, map[string]*int32{"successfulJobsHistoryLimit": s.SuccessfulJobsHistoryLimit, "failedJobsHistoryLimit": s.FailedJobsHistoryLimit})...)
	errs = append(errs, numbers(at, map[string]*int64{"startingDeadlineSeconds": s.StartingDeadlineSeconds})...)
	if _, err := Schedule(s.Schedule, nil); err != nil {
		errs = append(errs, field.Invalid(at.Child("schedule"), s.Schedule, err.Error()))
	}
	errs = append(errs, oneOf(at.Child("concurrencyPolicy"), s.ConcurrencyPolicy, batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent)...)
	if s.TimeZone != nil {
		if _, err := timeZone(*s.TimeZone); err != nil {
			errs = append(errs, field.Invalid(at.Child("timeZone"), *s.TimeZone, err.Error()))
		}
	}
	return errs
}

func job(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	errs := append(template(&s.Template, at.Child("template")), numbers(at, map[string]*int32{"parallelism": s.Parallelism, "completions": s.Completions, "backoffLimit": s.BackoffLimit, "ttlSecondsAfterFinished": s.TTLSecondsAfterFinished})...)
	errs = append(errs, numbers(at, map[string]*int64{"activeDeadlineSeconds": s.ActiveDeadlineSeconds})...)
	if s.Selector != nil {
		errs = append(errs, selector(s.Selector, at.Child("selector"))...)
	}
	errs = append(errs, optionally(s.CompletionMode, func(m batchv1.CompletionMode) field.ErrorList {
		indexed := m == batchv1.IndexedCompletion
		return append(oneOf(at.Child("completionMode"), m, batchv1.NonIndexedCompletion, batchv1.IndexedCompletion), when(indexed && s.Completions == nil, field.Required(at.Child("completions"), "when completion mode is Indexed"))...)
	})...)
	return append(errs, oneOf(at.Child("template", "spec", "restartPolicy"), s.Template.Spec.RestartPolicy, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
}

func budget(s *policyv1.PodDisruptionBudgetSpec, at *field.Path) field.ErrorList {
	errs := append(amount(s.MaxUnavailable, true, at.Child("maxUnavailable")), amount(s.MinAvailable, true, at.Child("minAvailable"))...)
	errs = append(errs, optionally(s.UnhealthyPodEvictionPolicy, func(p policyv1.UnhealthyPodEvictionPolicyType) field.ErrorList {
		return oneOf(at.Child("unhealthyPodEvictionPolicy"), p, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	})...)
	if s.MaxUnavailable != nil && s.MinAvailable != nil {
		errs = append(errs, field.Invalid(at, "", "minAvailable and maxUnavailable cannot be both set"))
	}
	if s.Selector != nil {
		errs = append(errs, selector(s.Selector, at.Child("selector"))...)
	}
	return errs
}

// workload checks a selector and the template that it must match.
func workload(s *metav1.LabelSelector, t *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := template(t, at.Child("template"))
	errs = append(errs, oneOf(at.Child("template", "spec", "restartPolicy"), t.Spec.RestartPolicy, corev1.RestartPolicyAlways)...)
	errs = append(errs, when(t.Spec.ActiveDeadlineSeconds != nil, field.Forbidden(at.Child("template", "spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in templates of this kind is not supported"))...)
	if s == nil {
		return append(errs, field.Required(at.Child("selector"), ""))
	}
	if found := selector(s, at.Child("selector")); len(found) > 0 {
		return append(errs, found...)
	}
	by, err := metav1.LabelSelectorAsSelector(s)
	switch {
	case err != nil:
		errs = append(errs, field.Invalid(at.Child("selector"), s, err.Error()))
	case by.Empty():
		errs = append(errs, field.Invalid(at.Child("selector"), s, "empty selector is invalid"))
	case !by.Matches(labels.Set(t.Labels)):
		errs = append(errs, field.Invalid(at.Child("template", "metadata", "labels"), t.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

func selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, at)
}

func template(t *corev1.PodTemplateSpec, at *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(t.Labels, at.Child("metadata", "labels"))
	errs = append(errs, apivalidation.ValidateAnnotations(t.Annotations, at.Child("metadata", "annotations"))...)
	return append(errs, podSpec(&t.Spec, at.Child("spec"))...)
}

func quantities(list corev1.ResourceList, at *field.Path) (errs field.ErrorList) {
	for name, q := range list {
		if q.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), q.String(), "must be greater than or equal to 0"))
		}
		errs = append(errs, metav1validation.ValidateLabelName(string(name), at.Key(string(name)))...)
	}
	return errs
}

// update checks the numbers of a rolling update, which must not both be 0. Of a DaemonSet,
// one is 0, and neither is more than all.
func update(unavailable, surge *intstr.IntOrString, daemons bool, at *field.Path) field.ErrorList {
	none, both := isNone(unavailable) && isNone(surge), unavailable != nil && surge != nil && !isNone(unavailable) && !isNone(surge)
	return slices.Concat(amount(unavailable, true, at.Child("maxUnavailable")), amount(surge, daemons, at.Child("maxSurge")),
		when(none, field.Invalid(at.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0")),
		when(daemons && both, field.Invalid(at.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero")))
}

func isNone(n *intstr.IntOrString) bool { return n != nil && (n.String() == "0" || n.String() == "0%") }

// amount checks an optional number or percentage, which is one of a whole or not.
func amount(n *intstr.IntOrString, whole bool, at *field.Path) field.ErrorList {
	switch {
	case n == nil:
		return nil
	case n.Type == intstr.Int:
		return apivalidation.ValidateNonnegativeField(int64(n.IntVal), at)
	case len(utilvalidation.IsValidPercent(n.StrVal)) > 0:
		return field.ErrorList{field.Invalid(at, n.StrVal, "must be an integer or percentage (e.g '5%')")}
	}
	percent, err := strconv.Atoi(strings.TrimSuffix(n.StrVal, "%"))
	return when(whole && err == nil && percent > 100, field.Invalid(at, n.StrVal, "must not be greater than 100%"))
}

// numbers checks optional numbers, which are not negative.
func numbers[T int32 | int64](at *field.Path, all map[string]*T) (errs field.ErrorList) {
	for name, n := range all {
		if n != nil {
			errs = append(errs, apivalidation.ValidateNonnegativeField(int64(*n), at.Child(name))...)
		}
	}
	return errs
}
