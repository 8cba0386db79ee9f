// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"fmt"
	"hash/fnv"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The defaults of kubeadm and API servers for the addresses and ports of Services.
const (
	defaultServiceRange = "10.96.0.0/12"
	firstNodePort       = 30000
	nodePorts           = 2768
)

// ServiceRange parses the range of a cluster; it is kubeadm's default if text is empty.
func ServiceRange(text string) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		p = netip.MustParsePrefix(defaultServiceRange)
	}
	return p.Masked()
}

// AllocateAddresses gives a Service its address and ports, and keeps what it had at the
// address was. The others are those that have theirs.
func AllocateAddresses(svc *corev1.Service, was string, r netip.Prefix, others []corev1.Service) *field.Error {
	addresses, ports := taken(others)
	spec := &svc.Spec
	if spec.ClusterIP == "" {
		spec.ClusterIP = was
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		spec.ClusterIP, spec.ClusterIPs = "", nil
	} else if err := address(svc, r, addresses); err != nil {
		return err
	}
	outside := spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer
	allocates := spec.AllocateLoadBalancerNodePorts == nil || *spec.AllocateLoadBalancerNodePorts
	for i := range spec.Ports {
		p := &spec.Ports[i]
		switch {
		case !outside:
			p.NodePort = 0
		case p.NodePort == 0 && allocates:
			p.NodePort = free(svc.Namespace+"/"+svc.Name, ports)
		}
		ports[p.NodePort] = true
	}
	return nil
}

// taken are the addresses and ports that Services have.
func taken(by []corev1.Service) (addresses map[string]bool, ports map[int32]bool) {
	addresses, ports = map[string]bool{}, map[int32]bool{}
	for _, svc := range by {
		addresses[svc.Spec.ClusterIP] = true
		for _, p := range svc.Spec.Ports {
			ports[p.NodePort] = true
		}
	}
	return addresses, ports
}

func address(svc *corev1.Service, r netip.Prefix, taken map[string]bool) *field.Error {
	spec := &svc.Spec
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
			return field.Invalid(field.NewPath("spec", "clusterIPs"), []string{spec.ClusterIP}, why)
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
	return nil
}

func sum(text string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(text)) // never fails
	return int(h.Sum32() >> 1)
}

// pick chooses a free address. The first ones are reserved for Services that
// request them.
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
