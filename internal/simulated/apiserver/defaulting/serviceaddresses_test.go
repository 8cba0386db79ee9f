// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func serviceWith(name, address string, kind corev1.ServiceType, nodePorts ...int32) corev1.Service {
	svc := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Type: kind, ClusterIP: address}}
	for i, p := range nodePorts {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(80 + i), NodePort: p})
	}
	return svc
}

func TestServiceRangeIsThatOfTheCluster(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "10.96.0.0/12", "x": "10.96.0.0/12", "10.0.0.0/24": "10.0.0.0/24", "10.0.0.7/24": "10.0.0.0/24", "fd00::1/112": "fd00::/112"} {
		if got := ServiceRange(text).String(); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestAllocateAddressesGivesFreeOnes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"10.96.0.0/12", "10.0.0.0/24", "10.0.0.0/28", "10.0.0.0/30", "fd00::/112", "fd00::/64"} {
		r := netip.MustParsePrefix(text)
		var others []corev1.Service
		seen := map[string]bool{}
		for i := range 3 {
			svc := serviceWith(fmt.Sprint("s", i), "", corev1.ServiceTypeClusterIP)
			if err := AllocateAddresses(&svc, "", r, others); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			ip := netip.MustParseAddr(svc.Spec.ClusterIP)
			family := corev1.IPv4Protocol
			if ip.Is6() {
				family = corev1.IPv6Protocol
			}
			if !r.Contains(ip) || ip == r.Addr() || seen[ip.String()] || !slices.Equal(svc.Spec.ClusterIPs, []string{ip.String()}) || !slices.Equal(svc.Spec.IPFamilies, []corev1.IPFamily{family}) || *svc.Spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
				t.Errorf("%s: %+v", text, svc.Spec)
			}
			seen[ip.String()] = true
			others = append(others, svc)
		}
	}
}

func TestAllocateAddressesRefusesAFullRange(t *testing.T) {
	t.Parallel()
	r := netip.MustParsePrefix("10.0.0.0/30")
	var others []corev1.Service
	for range 3 {
		svc := serviceWith(fmt.Sprint("s", len(others)), "", corev1.ServiceTypeClusterIP)
		if err := AllocateAddresses(&svc, "", r, others); err != nil {
			t.Fatal(err)
		}
		others = append(others, svc)
	}
	for i := range 4 {
		others = append(others, serviceWith(fmt.Sprint("t", i), fmt.Sprint("10.0.0.", i), corev1.ServiceTypeClusterIP))
	}
	svc := serviceWith("last", "", corev1.ServiceTypeClusterIP)
	if err := AllocateAddresses(&svc, "", r, others); err == nil || !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("Service %+v, error %v", svc.Spec, err)
	}
}

// The messages are those of the allocators of API servers.
func TestAllocateAddressesKeepsRequestedOnes(t *testing.T) {
	t.Parallel()
	r := netip.MustParsePrefix("10.0.0.0/24")
	others := []corev1.Service{serviceWith("other", "10.0.0.9", corev1.ServiceTypeClusterIP), serviceWith("none", "None", corev1.ServiceTypeClusterIP)}
	for name, tc := range map[string]struct {
		address, was, want, wantErr string
		kind                        corev1.ServiceType
	}{
		"a free one":           {address: "10.0.0.8", want: "10.0.0.8"},
		"none":                 {address: "None", want: "None"},
		"the previous one":     {was: "10.0.0.7", want: "10.0.0.7"},
		"another one":          {address: "10.0.0.8", was: "10.0.0.7", want: "10.0.0.8"},
		"that of another":      {address: "10.0.0.9", wantErr: "failed to allocate IP 10.0.0.9: provided IP is already allocated"},
		"out of the range":     {address: "10.0.1.1", wantErr: "failed to allocate IP 10.0.1.1: the provided IP (10.0.1.1) is not in the valid range. The range of valid IPs is 10.0.0.0/24"},
		"of another family":    {address: "fd00::1", wantErr: "is not in the valid range"},
		"no address":           {address: "x", wantErr: "must be a valid IP address"},
		"of a name outside":    {address: "10.0.0.8", kind: corev1.ServiceTypeExternalName, want: ""},
		"previously, now none": {was: "10.0.0.7", kind: corev1.ServiceTypeExternalName, want: ""},
	} {
		svc := serviceWith("s", tc.address, tc.kind)
		err := AllocateAddresses(&svc, tc.was, r, others)
		if tc.wantErr != "" {
			if err == nil || err.Field != "spec.clusterIPs" || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%s: error %v, want %s", name, err, tc.wantErr)
			}
			continue
		}
		if err != nil || svc.Spec.ClusterIP != tc.want || (tc.want == "") != (len(svc.Spec.ClusterIPs) == 0) {
			t.Errorf("%s: %+v, error %v, want %s", name, svc.Spec, err, tc.want)
		}
	}
}

func TestAllocateAddressesGivesPortsOfNodes(t *testing.T) {
	t.Parallel()
	r := netip.MustParsePrefix("10.0.0.0/24")
	var others []corev1.Service
	seen := map[int32]bool{}
	for i := range 20 {
		svc := serviceWith(fmt.Sprint("s", i), "", corev1.ServiceTypeNodePort, 0, 0)
		if err := AllocateAddresses(&svc, "", r, others); err != nil {
			t.Fatal(err)
		}
		for _, p := range svc.Spec.Ports {
			if p.NodePort < 30000 || p.NodePort > 32767 || seen[p.NodePort] {
				t.Errorf("port %d, others %v", p.NodePort, seen)
			}
			seen[p.NodePort] = true
		}
		others = append(others, svc)
	}
	fixed := serviceWith("fixed", "", corev1.ServiceTypeLoadBalancer, 31000)
	if err := AllocateAddresses(&fixed, "", r, nil); err != nil || fixed.Spec.Ports[0].NodePort != 31000 {
		t.Errorf("a requested port: %+v, error %v", fixed.Spec.Ports, err)
	}
	without := serviceWith("without", "", corev1.ServiceTypeLoadBalancer, 0, 31000)
	without.Spec.AllocateLoadBalancerNodePorts = new(false)
	if err := AllocateAddresses(&without, "", r, nil); err != nil || without.Spec.Ports[0].NodePort != 0 || without.Spec.Ports[1].NodePort != 31000 {
		t.Errorf("a load balancer that needs no port: %+v, error %v", without.Spec.Ports, err)
	}
	inside := serviceWith("inside", "", corev1.ServiceTypeClusterIP, 31000)
	if err := AllocateAddresses(&inside, "", r, nil); err != nil || inside.Spec.Ports[0].NodePort != 0 {
		t.Errorf("a port of an inner Service: %+v, error %v", inside.Spec.Ports, err)
	}
}
