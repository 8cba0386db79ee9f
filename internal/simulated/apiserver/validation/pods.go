// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// pod checks a Pod, which must not have all that a template may have.
func pod(o *corev1.Pod, at *field.Path) field.ErrorList {
	errs := podSpec(&o.Spec, at)
	for child, list := range map[string][]corev1.Container{"initContainers": o.Spec.InitContainers, "containers": o.Spec.Containers} {
		errs = append(errs, each(at.Child(child), list, func(at *field.Path, c *corev1.Container) field.ErrorList {
			return when(c.Image != strings.TrimSpace(c.Image), field.Invalid(at.Child("image"), c.Image, "must not have leading or trailing whitespace"))
		})...)
	}
	return errs
}

func containerName(c *corev1.Container) string { return c.Name }

func podSpec(s *corev1.PodSpec, at *field.Path) field.ErrorList {
	volumes := map[string]bool{}
	for _, v := range s.Volumes {
		volumes[v.Name] = true
	}
	optionalName := func(child, value string, form func(string) []string) field.ErrorList {
		return when(value != "", formed(at.Child(child), value, form)...)
	}
	return slices.Concat(
		when(len(s.Containers) == 0, field.Required(at.Child("containers"), "")),
		each(at.Child("containers"), s.Containers, func(at *field.Path, c *corev1.Container) field.ErrorList { return container(c, volumes, at) }),
		each(at.Child("initContainers"), s.InitContainers, func(at *field.Path, c *corev1.Container) field.ErrorList { return initContainer(c, volumes, at) }),
		unique(at.Child("containers"), s.Containers, containerName, "name"),
		unique(at.Child("initContainers"), s.InitContainers, containerName, "name"),
		each(at.Child("initContainers"), s.InitContainers, func(at *field.Path, c *corev1.Container) field.ErrorList {
			taken := slices.ContainsFunc(s.Containers, func(other corev1.Container) bool { return other.Name == c.Name })
			return when(taken, field.Duplicate(at.Child("name"), c.Name))
		}),
		hostPorts(at.Child("containers"), s.Containers),
		each(at.Child("volumes"), s.Volumes, volume),
		unique(at.Child("volumes"), s.Volumes, func(v *corev1.Volume) string { return v.Name }, "name"),
		oneOf(at.Child("restartPolicy"), s.RestartPolicy, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever),
		dns(at, s),
		metav1validation.ValidateLabels(s.NodeSelector, at.Child("nodeSelector")),
		optionally(s.SecurityContext, func(c corev1.PodSecurityContext) field.ErrorList {
			return podSecurityContext(at.Child("securityContext"), &c)
		}),
		optionalName("serviceAccountName", s.ServiceAccountName, objectName),
		optionalName("nodeName", s.NodeName, objectName),
		optionalName("priorityClassName", s.PriorityClassName, objectName),
		optionalName("hostname", s.Hostname, utilvalidation.IsDNS1123Label),
		optionalName("subdomain", s.Subdomain, utilvalidation.IsDNS1123Label),
		optionally(s.RuntimeClassName, func(name string) field.ErrorList { return formed(at.Child("runtimeClassName"), name, objectName) }),
		optionally(s.ActiveDeadlineSeconds, func(n int64) field.ErrorList { return between(at.Child("activeDeadlineSeconds"), n, 1, 1<<31-1) }),
		optionally(s.PreemptionPolicy, func(p corev1.PreemptionPolicy) field.ErrorList {
			return oneOf(at.Child("preemptionPolicy"), p, corev1.PreemptLowerPriority, corev1.PreemptNever)
		}),
		scheduling(s, at),
		each(at.Child("readinessGates"), s.ReadinessGates, func(at *field.Path, g *corev1.PodReadinessGate) field.ErrorList {
			return formed(at.Child("conditionType"), g.ConditionType, utilvalidation.IsQualifiedName)
		}),
		each(at.Child("schedulingGates"), s.SchedulingGates, func(at *field.Path, g *corev1.PodSchedulingGate) field.ErrorList {
			return formed(at.Child("name"), g.Name, utilvalidation.IsQualifiedName)
		}),
		each(at.Child("hostAliases"), s.HostAliases, func(at *field.Path, a *corev1.HostAlias) field.ErrorList {
			return append(address(at.Child("ip"), a.IP), each(at.Child("hostnames"), a.Hostnames, func(at *field.Path, name *string) field.ErrorList {
				return formed(at, *name, utilvalidation.IsDNS1123Subdomain)
			})...)
		}),
		quantities(s.Overhead, at.Child("overhead")),
	)
}

// maxSearches is the limit of the search list of a resolver, in domains; maxSearchText is
// that in characters.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchText  = 2048
)

func dns(at *field.Path, s *corev1.PodSpec) field.ErrorList {
	errs := oneOf(at.Child("dnsPolicy"), s.DNSPolicy, corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)
	at = at.Child("dnsConfig")
	c := s.DNSConfig
	if c == nil {
		return append(errs, when(s.DNSPolicy == corev1.DNSNone, field.Required(at, "must provide `dnsConfig` when `dnsPolicy` is None"))...)
	}
	return slices.Concat(errs,
		when(s.DNSPolicy == corev1.DNSNone && len(c.Nameservers) == 0, field.Required(at.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None")),
		when(len(c.Nameservers) > maxNameservers, field.TooMany(at.Child("nameservers"), len(c.Nameservers), maxNameservers)),
		each(at.Child("nameservers"), c.Nameservers, func(at *field.Path, ip *string) field.ErrorList { return address(at, *ip) }),
		when(len(c.Searches) > maxSearches || len(strings.Join(c.Searches, " ")) > maxSearchText, field.TooMany(at.Child("searches"), len(c.Searches), maxSearches)),
		each(at.Child("searches"), c.Searches, func(at *field.Path, name *string) field.ErrorList {
			return when(*name != ".", formed(at, strings.TrimSuffix(*name, "."), utilvalidation.IsDNS1123SubdomainWithUnderscore)...)
		}),
		each(at.Child("options"), c.Options, func(at *field.Path, o *corev1.PodDNSConfigOption) field.ErrorList {
			return when(o.Name == "", field.Required(at, "must not be empty"))
		}),
	)
}

func podSecurityContext(at *field.Path, s *corev1.PodSecurityContext) field.ErrorList {
	return slices.Concat(
		ids(at, map[string]*int64{"fsGroup": s.FSGroup, "runAsUser": s.RunAsUser, "runAsGroup": s.RunAsGroup}),
		each(at.Child("supplementalGroups"), s.SupplementalGroups, func(at *field.Path, n *int64) field.ErrorList { return between(at, *n, 0, 1<<31-1) }),
		optionally(s.FSGroupChangePolicy, func(p corev1.PodFSGroupChangePolicy) field.ErrorList {
			return oneOf(at.Child("fsGroupChangePolicy"), p, corev1.FSGroupChangeAlways, corev1.FSGroupChangeOnRootMismatch)
		}),
		each(at.Child("sysctls"), s.Sysctls, func(at *field.Path, s *corev1.Sysctl) field.ErrorList { return named(at.Child("name"), s.Name, sysctl) }),
		unique(at.Child("sysctls"), s.Sysctls, func(s *corev1.Sysctl) string { return s.Name }, "name"),
		seccomp(at, s.SeccompProfile),
	)
}

// parameter is the form of the name of a kernel parameter.
var parameter = regexp.MustCompile(`^[a-z0-9]([-_a-z0-9]*[a-z0-9])?([./][a-z0-9]([-_a-z0-9]*[a-z0-9])?)*$`)

func sysctl(name string) []string {
	if len(name) > utilvalidation.DNS1123SubdomainMaxLength || !parameter.MatchString(name) {
		return []string{"must be the name of a kernel parameter"}
	}
	return nil
}

func scheduling(s *corev1.PodSpec, at *field.Path) field.ErrorList {
	type key struct {
		topology string
		action   corev1.UnsatisfiableConstraintAction
	}
	spread := at.Child("topologySpreadConstraints")
	errs := slices.Concat(
		each(at.Child("tolerations"), s.Tolerations, toleration),
		each(spread, s.TopologySpreadConstraints, spreadConstraint),
		unique(spread, s.TopologySpreadConstraints, func(c *corev1.TopologySpreadConstraint) key { return key{c.TopologyKey, c.WhenUnsatisfiable} }),
	)
	a := s.Affinity
	if a == nil {
		return errs
	}
	at = at.Child("affinity")
	if n := a.NodeAffinity; n != nil {
		errs = append(errs, nodeAffinity(at.Child("nodeAffinity"), n)...)
	}
	if p := a.PodAffinity; p != nil {
		errs = append(errs, podAffinity(at.Child("podAffinity"), p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)...)
	}
	if p := a.PodAntiAffinity; p != nil {
		errs = append(errs, podAffinity(at.Child("podAntiAffinity"), p.RequiredDuringSchedulingIgnoredDuringExecution, p.PreferredDuringSchedulingIgnoredDuringExecution)...)
	}
	return errs
}

func toleration(at *field.Path, t *corev1.Toleration) field.ErrorList {
	equal := t.Operator == "" || t.Operator == corev1.TolerationOpEqual
	return slices.Concat(
		when(t.Key != "", metav1validation.ValidateLabelName(t.Key, at.Child("key"))...),
		when(t.Key == "" && t.Operator != corev1.TolerationOpExists, field.Invalid(at.Child("operator"), t.Operator, "operator must be Exists when `key` is empty")),
		when(t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")),
		when(equal, formed(at.Child("value"), t.Value, utilvalidation.IsValidLabelValue)...),
		when(!equal, oneOf(at.Child("operator"), t.Operator, corev1.TolerationOpExists)...),
		when(t.Operator == corev1.TolerationOpExists && t.Value != "", field.Invalid(at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'")),
		when(t.Effect != "", oneOf(at.Child("effect"), t.Effect, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute)...),
	)
}

func spreadConstraint(at *field.Path, c *corev1.TopologySpreadConstraint) field.ErrorList {
	return slices.Concat(
		when(c.MaxSkew <= 0, field.Invalid(at.Child("maxSkew"), c.MaxSkew, "must be greater than 0")),
		when(c.TopologyKey == "", field.Required(at.Child("topologyKey"), "can not be empty")),
		oneOf(at.Child("whenUnsatisfiable"), c.WhenUnsatisfiable, corev1.DoNotSchedule, corev1.ScheduleAnyway),
		metav1validation.ValidateLabelSelector(c.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector")),
		optionally(c.MinDomains, func(n int32) field.ErrorList {
			return when(n <= 0 || c.WhenUnsatisfiable != corev1.DoNotSchedule, field.Invalid(at.Child("minDomains"), n, "must be greater than 0, with whenUnsatisfiable DoNotSchedule"))
		}),
	)
}

func topologyKey(at *field.Path, key string) field.ErrorList {
	return append(when(key == "", field.Required(at.Child("topologyKey"), "can not be empty")), metav1validation.ValidateLabelName(key, at.Child("topologyKey"))...)
}

func nodeAffinity(at *field.Path, a *corev1.NodeAffinity) (errs field.ErrorList) {
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		at := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		errs = append(errs, when(len(r.NodeSelectorTerms) == 0, field.Required(at, "must have at least one node selector term"))...)
		errs = append(errs, each(at, r.NodeSelectorTerms, nodeSelectorTerm)...)
	}
	return append(errs, each(at.Child("preferredDuringSchedulingIgnoredDuringExecution"), a.PreferredDuringSchedulingIgnoredDuringExecution, func(at *field.Path, p *corev1.PreferredSchedulingTerm) field.ErrorList {
		return append(between(at.Child("weight"), p.Weight, 1, 100), nodeSelectorTerm(at.Child("preference"), &p.Preference)...)
	})...)
}

func nodeSelectorTerm(at *field.Path, t *corev1.NodeSelectorTerm) field.ErrorList {
	return append(each(at.Child("matchExpressions"), t.MatchExpressions, func(at *field.Path, r *corev1.NodeSelectorRequirement) field.ErrorList {
		return slices.Concat(nodeRequirement(at, r), metav1validation.ValidateLabelName(r.Key, at.Child("key")), each(at.Child("values"), r.Values, func(at *field.Path, v *string) field.ErrorList {
			return formed(at, *v, utilvalidation.IsValidLabelValue)
		}))
	}), each(at.Child("matchFields"), t.MatchFields, func(at *field.Path, r *corev1.NodeSelectorRequirement) field.ErrorList {
		return append(nodeRequirement(at, r), oneOf(at.Child("key"), r.Key, "metadata.name")...)
	})...)
}

func nodeRequirement(at *field.Path, r *corev1.NodeSelectorRequirement) field.ErrorList {
	values := at.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		return when(len(r.Values) == 0, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		return when(len(r.Values) > 0, field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		return when(len(r.Values) != 1, field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'"))
	}
	return field.ErrorList{field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator")}
}

func podAffinity(at *field.Path, required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm) field.ErrorList {
	return append(each(at.Child("requiredDuringSchedulingIgnoredDuringExecution"), required, podAffinityTerm),
		each(at.Child("preferredDuringSchedulingIgnoredDuringExecution"), preferred, func(at *field.Path, w *corev1.WeightedPodAffinityTerm) field.ErrorList {
			return append(between(at.Child("weight"), w.Weight, 1, 100), podAffinityTerm(at.Child("podAffinityTerm"), &w.PodAffinityTerm)...)
		})...)
}

func podAffinityTerm(at *field.Path, t *corev1.PodAffinityTerm) field.ErrorList {
	return slices.Concat(
		metav1validation.ValidateLabelSelector(t.LabelSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector")),
		metav1validation.ValidateLabelSelector(t.NamespaceSelector, metav1validation.LabelSelectorValidationOptions{}, at.Child("namespaceSelector")),
		each(at.Child("namespaces"), t.Namespaces, func(at *field.Path, name *string) field.ErrorList {
			return formed(at, *name, func(s string) []string { return apivalidation.ValidateNamespaceName(s, false) })
		}),
		topologyKey(at, t.TopologyKey),
	)
}
