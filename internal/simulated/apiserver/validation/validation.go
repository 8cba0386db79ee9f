// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
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

// Spec checks the spec of an object of the client-go scheme: of kinds that simulated
// controllers handle, and in it the fields that they read. Roles and their bindings,
// which have no spec, are checked whole.
func Spec(obj runtime.Object) field.ErrorList {
	spec := field.NewPath("spec")
	switch o := obj.(type) {
	case *corev1.Pod:
		return podSpec(&o.Spec, spec)
	case *corev1.Service:
		return service(&o.Spec, spec)
	case *appsv1.Deployment:
		errs := workload(o.Spec.Selector, &o.Spec.Template, spec)
		errs = append(errs, numbers(spec, map[string]*int32{"replicas": o.Spec.Replicas, "minReadySeconds": &o.Spec.MinReadySeconds, "revisionHistoryLimit": o.Spec.RevisionHistoryLimit, "progressDeadlineSeconds": o.Spec.ProgressDeadlineSeconds})...)
		if u := o.Spec.Strategy.RollingUpdate; u != nil {
			errs = append(errs, update(u.MaxUnavailable, u.MaxSurge, spec.Child("strategy", "rollingUpdate"))...)
		}
		return errs
	case *appsv1.ReplicaSet:
		return append(workload(o.Spec.Selector, &o.Spec.Template, spec), numbers(spec, map[string]*int32{"replicas": o.Spec.Replicas, "minReadySeconds": &o.Spec.MinReadySeconds})...)
	case *appsv1.StatefulSet:
		return append(workload(o.Spec.Selector, &o.Spec.Template, spec), numbers(spec, map[string]*int32{"replicas": o.Spec.Replicas, "minReadySeconds": &o.Spec.MinReadySeconds, "revisionHistoryLimit": o.Spec.RevisionHistoryLimit})...)
	case *appsv1.DaemonSet:
		errs := append(workload(o.Spec.Selector, &o.Spec.Template, spec), numbers(spec, map[string]*int32{"minReadySeconds": &o.Spec.MinReadySeconds, "revisionHistoryLimit": o.Spec.RevisionHistoryLimit})...)
		if u := o.Spec.UpdateStrategy.RollingUpdate; u != nil {
			errs = append(errs, update(u.MaxUnavailable, u.MaxSurge, spec.Child("updateStrategy", "rollingUpdate"))...)
		}
		return errs
	case *batchv1.Job:
		return job(&o.Spec, spec)
	case *batchv1.CronJob:
		return cronJob(&o.Spec, spec)
	case *policyv1.PodDisruptionBudget:
		return budget(&o.Spec, spec)
	case *rbacv1.Role:
		return rules(o.Rules, true)
	case *rbacv1.ClusterRole:
		return rules(o.Rules, false)
	case *rbacv1.RoleBinding:
		return binding(o.RoleRef, o.Subjects, true)
	case *rbacv1.ClusterRoleBinding:
		return binding(o.RoleRef, o.Subjects, false)
	}
	return nil
}

func cronJob(s *batchv1.CronJobSpec, at *field.Path) field.ErrorList {
	errs := append(job(&s.JobTemplate.Spec, at.Child("jobTemplate", "spec")), numbers(at, map[string]*int32{"successfulJobsHistoryLimit": s.SuccessfulJobsHistoryLimit, "failedJobsHistoryLimit": s.FailedJobsHistoryLimit})...)
	errs = append(errs, longs(at, map[string]*int64{"startingDeadlineSeconds": s.StartingDeadlineSeconds})...)
	if _, err := Schedule(s.Schedule, nil); err != nil {
		errs = append(errs, field.Invalid(at.Child("schedule"), s.Schedule, err.Error()))
	}
	if s.TimeZone != nil {
		if _, err := timeZone(*s.TimeZone); err != nil {
			errs = append(errs, field.Invalid(at.Child("timeZone"), *s.TimeZone, err.Error()))
		}
	}
	return errs
}

func job(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	errs := append(template(&s.Template, at.Child("template")), numbers(at, map[string]*int32{"parallelism": s.Parallelism, "completions": s.Completions, "backoffLimit": s.BackoffLimit, "ttlSecondsAfterFinished": s.TTLSecondsAfterFinished})...)
	errs = append(errs, longs(at, map[string]*int64{"activeDeadlineSeconds": s.ActiveDeadlineSeconds})...)
	if s.Selector != nil {
		errs = append(errs, selector(s.Selector, at.Child("selector"))...)
	}
	switch s.Template.Spec.RestartPolicy {
	case corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
	default:
		errs = append(errs, field.NotSupported(at.Child("template", "spec", "restartPolicy"), s.Template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}))
	}
	return errs
}

func budget(s *policyv1.PodDisruptionBudgetSpec, at *field.Path) field.ErrorList {
	errs := rolling(s.MaxUnavailable, s.MinAvailable, at)
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
	if p := t.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("template", "spec", "restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
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

func podSpec(s *corev1.PodSpec, at *field.Path) (errs field.ErrorList) {
	names := map[string]bool{}
	for name, list := range map[string][]corev1.Container{"initContainers": s.InitContainers, "containers": s.Containers} {
		for i := range list {
			at := at.Child(name).Index(i)
			errs = append(errs, container(&list[i], at)...)
			if names[list[i].Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), list[i].Name))
			}
			names[list[i].Name] = true
		}
	}
	errs = append(errs, metav1validation.ValidateLabels(s.NodeSelector, at.Child("nodeSelector"))...)
	errs = append(errs, quantities(s.Overhead, at.Child("overhead"))...)
	return append(errs, longs(at, map[string]*int64{"terminationGracePeriodSeconds": s.TerminationGracePeriodSeconds, "activeDeadlineSeconds": s.ActiveDeadlineSeconds})...)
}

func container(c *corev1.Container, at *field.Path) (errs field.ErrorList) {
	for _, text := range utilvalidation.IsDNS1123Label(c.Name) {
		errs = append(errs, field.Invalid(at.Child("name"), c.Name, text))
	}
	if strings.TrimSpace(c.Image) == "" {
		errs = append(errs, field.Required(at.Child("image"), ""))
	}
	for i, p := range c.Ports {
		for _, text := range utilvalidation.IsValidPortNum(int(p.ContainerPort)) {
			errs = append(errs, field.Invalid(at.Child("ports").Index(i).Child("containerPort"), p.ContainerPort, text))
		}
	}
	resources := at.Child("resources")
	errs = append(errs, quantities(c.Resources.Requests, resources.Child("requests"))...)
	errs = append(errs, quantities(c.Resources.Limits, resources.Child("limits"))...)
	for name, limit := range c.Resources.Limits {
		if request, ok := c.Resources.Requests[name]; ok && request.Cmp(limit) > 0 {
			errs = append(errs, field.Invalid(resources.Child("requests"), request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		}
	}
	return errs
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

func service(s *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabels(s.Selector, at.Child("selector"))
	names := map[string]bool{}
	for i, p := range s.Ports {
		at := at.Child("ports").Index(i)
		for _, text := range utilvalidation.IsValidPortNum(int(p.Port)) {
			errs = append(errs, field.Invalid(at.Child("port"), p.Port, text))
		}
		if len(s.Ports) > 1 && names[p.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		names[p.Name] = true
		if p.Name != "" {
			for _, text := range utilvalidation.IsDNS1123Label(p.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), p.Name, text))
			}
		}
	}
	return errs
}

// update checks the numbers of a rolling update, which must not both be 0.
func update(unavailable, surge *intstr.IntOrString, at *field.Path) field.ErrorList {
	errs := rolling(unavailable, surge, at)
	none := func(n *intstr.IntOrString) bool { return n != nil && (n.String() == "0" || n.String() == "0%") }
	if none(unavailable) && none(surge) {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), unavailable.String(), "may not be 0 when `maxSurge` is 0"))
	}
	return errs
}

// rolling checks two numbers or percentages that are optional.
func rolling(unavailable, other *intstr.IntOrString, at *field.Path) (errs field.ErrorList) {
	for _, n := range []*intstr.IntOrString{unavailable, other} {
		switch {
		case n == nil:
		case n.Type == intstr.Int && n.IntVal < 0:
			errs = append(errs, field.Invalid(at, n.IntVal, "must be greater than or equal to 0"))
		case n.Type == intstr.String && len(utilvalidation.IsValidPercent(n.StrVal)) > 0:
			errs = append(errs, field.Invalid(at, n.StrVal, "must be an integer or percentage (e.g '5%')"))
		}
	}
	return errs
}

func numbers(at *field.Path, all map[string]*int32) field.ErrorList {
	wide := map[string]*int64{}
	for name, n := range all {
		if n != nil {
			wide[name] = new(int64(*n))
		}
	}
	return longs(at, wide)
}

func longs(at *field.Path, all map[string]*int64) (errs field.ErrorList) {
	for name, n := range all {
		if n != nil {
			errs = append(errs, apivalidation.ValidateNonnegativeField(*n, at.Child(name))...)
		}
	}
	return errs
}
