// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxAffinity is the longest session affinity in seconds, a day.
const maxAffinity = 24 * 60 * 60

func service(s *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	headless := s.ClusterIP == corev1.ClusterIPNone
	portName := func(p *corev1.ServicePort) string { return p.Name }
	type number struct {
		protocol corev1.Protocol
		port     int32
	}
	ports := at.Child("ports")
	return slices.Concat(
		oneOf(at.Child("type"), s.Type, corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort),
		when(len(s.Ports) == 0 && !headless && s.Type != corev1.ServiceTypeExternalName, field.Required(ports, "")),
		when(headless && (s.Type == corev1.ServiceTypeLoadBalancer || s.Type == corev1.ServiceTypeNodePort), field.Invalid(at.Child("clusterIPs").Index(0), s.ClusterIP, "must not be 'None' for a Service of this type")),
		each(ports, s.Ports, func(at *field.Path, p *corev1.ServicePort) field.ErrorList {
			return servicePort(at, p, len(s.Ports) > 1)
		}),
		unique(ports, s.Ports, portName, "name"),
		unique(ports, s.Ports, func(p *corev1.ServicePort) number { return number{p.Protocol, p.Port} }),
		metav1validation.ValidateLabels(s.Selector, at.Child("selector")),
		affinity(s, at),
		families(s, at),
		outside(s, at),
	)
}

func servicePort(at *field.Path, p *corev1.ServicePort, several bool) field.ErrorList {
	var name field.ErrorList
	if several || p.Name != "" {
		name = named(at.Child("name"), p.Name, utilvalidation.IsDNS1123Label)
	}
	return slices.Concat(name,
		between(at.Child("port"), p.Port, 1, 65535),
		protocol(at.Child("protocol"), p.Protocol),
		port(at.Child("targetPort"), p.TargetPort),
		optionally(p.AppProtocol, func(name string) field.ErrorList {
			return formed(at.Child("appProtocol"), name, utilvalidation.IsQualifiedName)
		}),
	)
}

func affinity(s *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	errs := oneOf(at.Child("sessionAffinity"), s.SessionAffinity, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	at = at.Child("sessionAffinityConfig")
	switch config := s.SessionAffinityConfig; {
	case s.SessionAffinity == corev1.ServiceAffinityNone:
		return append(errs, when(config != nil, field.Forbidden(at, "must not be set without session affinity"))...)
	case s.SessionAffinity != corev1.ServiceAffinityClientIP || config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil:
		return errs // the default
	default:
		return append(errs, between(at.Child("clientIP", "timeoutSeconds"), *config.ClientIP.TimeoutSeconds, 1, maxAffinity)...)
	}
}

// families checks the addresses of a Service within the cluster.
func families(s *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	ips := at.Child("clusterIPs")
	if s.Type == corev1.ServiceTypeExternalName {
		return slices.Concat(
			when(len(s.IPFamilies) > 0 || s.IPFamilyPolicy != nil, field.Forbidden(at.Child("ipFamilies"), "must not be set for a Service of type ExternalName")),
			named(at.Child("externalName"), strings.TrimSuffix(s.ExternalName, "."), utilvalidation.IsDNS1123Subdomain),
		)
	}
	var errs field.ErrorList
	switch {
	case len(s.ClusterIPs) == 0:
	case s.ClusterIP == "":
		errs = append(errs, field.Invalid(ips, s.ClusterIPs, "must be empty when `clusterIP` is not specified"))
	case s.ClusterIPs[0] != s.ClusterIP:
		errs = append(errs, field.Invalid(ips, s.ClusterIPs, "first value must match `clusterIP`"))
	case s.ClusterIP == corev1.ClusterIPNone:
		errs = when(len(s.ClusterIPs) > 1, field.Invalid(ips, s.ClusterIPs, "'None' must be the first and only value"))
	default:
		errs = slices.Concat(
			when(len(s.ClusterIPs) > 2, field.Invalid(ips, s.ClusterIPs, "must have at most one address of each family")),
			each(ips, s.ClusterIPs, func(at *field.Path, ip *string) field.ErrorList { return address(at, *ip) }),
			unique(ips, s.ClusterIPs, func(ip *string) string { return *ip }),
		)
	}
	return slices.Concat(errs,
		each(at.Child("ipFamilies"), s.IPFamilies, func(at *field.Path, f *corev1.IPFamily) field.ErrorList {
			return oneOf(at, *f, corev1.IPv4Protocol, corev1.IPv6Protocol)
		}),
		unique(at.Child("ipFamilies"), s.IPFamilies, func(f *corev1.IPFamily) corev1.IPFamily { return *f }),
		optionally(s.IPFamilyPolicy, func(p corev1.IPFamilyPolicy) field.ErrorList {
			return oneOf(at.Child("ipFamilyPolicy"), p, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
		}),
	)
}

// outside checks how a Service is reached from outside the cluster, and its policies.
func outside(s *corev1.ServiceSpec, at *field.Path) (errs field.ErrorList) {
	balanced := s.Type == corev1.ServiceTypeLoadBalancer
	external := at.Child("externalTrafficPolicy")
	if balanced || s.Type == corev1.ServiceTypeNodePort || s.Type == corev1.ServiceTypeClusterIP && len(s.ExternalIPs) > 0 {
		errs = when(s.ExternalTrafficPolicy != "", oneOf(external, s.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)...)
	} else {
		errs = when(s.ExternalTrafficPolicy != "", field.Invalid(external, s.ExternalTrafficPolicy, "may only be set for externally-accessible services"))
	}
	const onlyBalanced = "may only be used when `type` is 'LoadBalancer'"
	return slices.Concat(errs,
		when(s.AllocateLoadBalancerNodePorts != nil && !balanced, field.Forbidden(at.Child("allocateLoadBalancerNodePorts"), onlyBalanced)),
		when(len(s.LoadBalancerSourceRanges) > 0 && !balanced, field.Forbidden(at.Child("loadBalancerSourceRanges"), onlyBalanced)),
		each(at.Child("loadBalancerSourceRanges"), s.LoadBalancerSourceRanges, func(at *field.Path, text *string) field.ErrorList {
			return addressRange(at, strings.TrimSpace(*text))
		}),
		optionally(s.LoadBalancerClass, func(class string) field.ErrorList {
			at := at.Child("loadBalancerClass")
			return append(when(!balanced, field.Forbidden(at, onlyBalanced)), formed(at, class, utilvalidation.IsQualifiedName)...)
		}),
		optionally(s.InternalTrafficPolicy, func(p corev1.ServiceInternalTrafficPolicy) field.ErrorList {
			return oneOf(at.Child("internalTrafficPolicy"), p, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal)
		}),
		optionally(s.TrafficDistribution, func(d string) field.ErrorList {
			return oneOf(at.Child("trafficDistribution"), d, corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)
		}),
		each(at.Child("externalIPs"), s.ExternalIPs, externalIP),
	)
}

// externalIP checks an address outside the cluster, which is not one of a host alone.
func externalIP(at *field.Path, text *string) field.ErrorList {
	if errs := address(at, *text); len(errs) > 0 {
		return errs
	}
	ip := netip.MustParseAddr(*text).Unmap()
	special := ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsLinkLocalMulticast()
	return when(special, field.Invalid(at, *text, "must not be an unspecified, loopback or link-local address"))
}
