// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// Where the addresses and ports of Services lie, as kubeadm and API servers
// have it if nobody says otherwise.
const (
	defaultServiceRange = "10.96.0.0/12"
	firstNodePort       = 30000
	nodePorts           = 2768
)

var serviceKind = kinds.ByType(&corev1.Service{})

// serviceRange is the range that the cluster was made with.
func (s *Store) serviceRange() netip.Prefix {
	r := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}}
	text := defaultServiceRange // of a cluster that was made before there were such objects
	if s.Load(r) == nil && len(r.Spec.CIDRs) > 0 {
		text = r.Spec.CIDRs[0]
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.MustParsePrefix(defaultServiceRange)
	}
	return p.Masked()
}

// allocate gives a Service its address and ports, and keeps those it had. was
// is nil at creation.
func (s *Store) allocate(was, u *unstructured.Unstructured) error {
	var svc corev1.Service
	if err := into(u, &svc); err != nil {
		return err
	}
	if was != nil && svc.Spec.ClusterIP == "" {
		svc.Spec.ClusterIP, _, _ = unstructured.NestedString(was.Object, "spec", "clusterIP")
	}
	addresses, ports := s.allocated(svc.Namespace, svc.Name)
	spec := &svc.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		spec.ClusterIP, spec.ClusterIPs = "", nil
	} else if err := s.address(&svc, addresses); err != nil {
		return err
	}
	outside := spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
	for i := range spec.Ports {
		p := &spec.Ports[i]
		if p.Protocol == "" {
			p.Protocol = corev1.ProtocolTCP
		}
		if p.TargetPort == (intstr.IntOrString{}) {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
		switch {
		case !outside:
			p.NodePort = 0
		case p.NodePort == 0:
			p.NodePort = free(svc.Namespace+"/"+svc.Name, ports)
		}
		ports[p.NodePort] = true
	}
	if outside && spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if spec.Type == corev1.ServiceTypeLoadBalancer && spec.AllocateLoadBalancerNodePorts == nil {
		spec.AllocateLoadBalancerNodePorts = new(true)
	}
	full, _, err := s.FromTyped(&svc)
	if err == nil {
		u.Object["spec"] = full.Object["spec"]
	}
	return err
}

// allocated are the addresses and ports of all other Services.
func (s *Store) allocated(namespace, name string) (addresses map[string]bool, ports map[int32]bool) {
	addresses, ports = map[string]bool{}, map[int32]bool{}
	entries, _ := s.raw.List(serviceKind.GroupResource(), "")
	for _, e := range entries {
		var svc corev1.Service
		if e.Key.Namespace == namespace && e.Key.Name == name || json.Unmarshal(e.Raw, &svc) != nil {
			continue
		}
		addresses[svc.Spec.ClusterIP] = true
		for _, p := range svc.Spec.Ports {
			ports[p.NodePort] = true
		}
	}
	return addresses, ports
}

func (s *Store) address(svc *corev1.Service, taken map[string]bool) error {
	spec, r := &svc.Spec, s.serviceRange()
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	if spec.ClusterIP == "" {
		spec.ClusterIP = pick(r, svc.Namespace+"/"+svc.Name, taken)
	}
	if spec.ClusterIP != corev1.ClusterIPNone {
		ip, err := netip.ParseAddr(spec.ClusterIP)
		why := ""
		switch {
		case err != nil:
			why = "must be a valid IP address"
		case !r.Contains(ip):
			why = fmt.Sprintf("failed to allocate IP %s: the provided IP (%s) is not in the valid range. The range of valid IPs is %s", ip, ip, r)
		case taken[spec.ClusterIP]:
			why = fmt.Sprintf("failed to allocate IP %s: provided IP is already allocated", ip)
		}
		if why != "" {
			return invalid(serviceKind, svc.Name, field.Invalid(field.NewPath("spec", "clusterIPs"), []string{spec.ClusterIP}, why))
		}
	}
	spec.ClusterIPs = []string{spec.ClusterIP}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		if r.Addr().Is6() {
			spec.IPFamilies[0] = corev1.IPv6Protocol
		}
	}
	if spec.InternalTrafficPolicy == nil {
		spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	}
	return nil
}

func sum(text string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return int(h.Sum32() >> 1)
}

// pick is an address that nobody has. The first are left to those who ask for
// them.
func pick(r netip.Prefix, name string, taken map[string]bool) string {
	const reserved = 16
	size := 1 << min(16, r.Addr().BitLen()-r.Bits())
	ip := r.Addr()
	for range reserved + sum(name)%max(1, size-2*reserved) {
		ip = ip.Next()
	}
	for range size {
		if !r.Contains(ip) {
			ip = r.Addr().Next()
		}
		if !taken[ip.String()] {
			return ip.String()
		}
		ip = ip.Next()
	}
	return ip.String() // refused, as the range is full
}

func free(name string, taken map[int32]bool) int32 {
	for i := range nodePorts {
		if p := int32(firstNodePort + (sum(name)+i)%nodePorts); !taken[p] {
			return p
		}
	}
	return 0
}
