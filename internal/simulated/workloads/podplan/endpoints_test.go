// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func at(ips ...string) func(*Pod) {
	return func(p *Pod) {
		for _, ip := range ips {
			p.IPs = append(p.IPs, corev1.PodIP{IP: ip})
		}
	}
}

func backends(pods []Pod, change ...func(*corev1.Service)) Backends {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "s", Labels: map[string]string{"k": "v"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, TargetPort: intstr.FromInt32(8080)}}},
	}
	for _, f := range change {
		f(svc)
	}
	return Backends{
		Service: svc, Pods: pods,
		Zone: func(node string) string { return map[string]string{"n": "zone-a"}[node] },
		Port: func(name string, protocol corev1.Protocol) (int32, bool) {
			return 9090, name == "metrics" && protocol == corev1.ProtocolTCP
		},
	}
}

func TestEndpointsShowPodsThatServe(t *testing.T) {
	t.Parallel()
	publish := func(s *corev1.Service) { s.Spec.PublishNotReadyAddresses = true }
	families := func(f ...corev1.IPFamily) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Spec.IPFamilies = f }
	}
	none := func(*corev1.Service) {}
	own := func(s *corev1.Service) {
		s.Spec.Selector, s.Spec.IPFamilies = nil, []corev1.IPFamily{corev1.IPv6Protocol}
	}
	tests := map[string]struct {
		pod    Pod
		change func(*corev1.Service)
		slice  []string // the family, and each endpoint
		ready  string   // of the Endpoints
	}{
		"one that is ready":      {pod("p", at("10.0.0.1")), none, []string{"IPv4", "10.0.0.1 ready=true serving=true terminating=false"}, "10.0.0.1 is ready"},
		"one that is not":        {pod("p", at("10.0.0.1"), unready), none, []string{"IPv4", "10.0.0.1 ready=false serving=false terminating=false"}, "10.0.0.1 is not"},
		"one that is published":  {pod("p", at("10.0.0.1"), unready), publish, []string{"IPv4", "10.0.0.1 ready=true serving=true terminating=false"}, "10.0.0.1 is ready"},
		"one that leaves":        {pod("p", at("10.0.0.1"), leaves), none, []string{"IPv4", "10.0.0.1 ready=false serving=true terminating=true"}, ""},
		"not one that has ended": {pod("p", at("10.0.0.1"), failed), none, []string{"IPv4"}, ""},
		"not one without a Node": {pod("p", waits), none, []string{"IPv4"}, ""},
		"by IPv6":                {pod("p", at("fd00::1")), families(corev1.IPv6Protocol), []string{"IPv6", "fd00::1 ready=true serving=true terminating=false"}, "fd00::1 is ready"},
		"by the first family":    {pod("p", at("10.0.0.1", "fd00::1")), families(corev1.IPv4Protocol, corev1.IPv6Protocol), []string{"IPv4", "10.0.0.1 ready=true serving=true terminating=false"}, "10.0.0.1 is ready"},
		"by its other address":   {pod("p", at("10.0.0.1", "fd00::1")), families(corev1.IPv6Protocol, corev1.IPv4Protocol), []string{"IPv6", "fd00::1 ready=true serving=true terminating=false"}, "fd00::1 is ready"},
		"not by another family":  {pod("p", at("10.0.0.1")), families(corev1.IPv6Protocol), []string{"IPv6"}, ""},
		"an API server":          {pod("p", at("10.0.0.1")), own, []string{"IPv4", "10.0.0.1 ready=true serving=true terminating=false"}, "10.0.0.1 is ready"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := backends([]Pod{tc.pod}, tc.change)
			list := b.Slices()
			got := []string{string(list[0].AddressType)}
			for _, e := range list[0].Endpoints {
				c := e.Conditions
				got = append(got, fmt.Sprintf("%s ready=%t serving=%t terminating=%t", strings.Join(e.Addresses, " "), *c.Ready, *c.Serving, *c.Terminating))
				if *e.NodeName != "n" || *e.Zone != "zone-a" || e.TargetRef.Name != "p" {
					t.Errorf("got endpoint %+v", e)
				}
			}
			if diff := cmp.Diff(tc.slice, got); diff != "" || len(list) != 1 {
				t.Errorf("%d slices (-want +got):\n%s", len(list), diff)
			}
			ready := ""
			for _, s := range b.Endpoints().Subsets {
				for _, a := range s.Addresses {
					ready += a.IP + " is ready"
				}
				for _, a := range s.NotReadyAddresses {
					ready += a.IP + " is not"
				}
			}
			if ready != tc.ready {
				t.Errorf("got Endpoints %q, want %q", ready, tc.ready)
			}
		})
	}
}

func TestPortsOfEndpointsAreThoseOfPods(t *testing.T) {
	t.Parallel()
	b := backends([]Pod{pod("p", at("10.0.0.1"))}, func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "m", Protocol: corev1.ProtocolTCP, Port: 1, TargetPort: intstr.FromString("metrics"), AppProtocol: new("x/p")},
			corev1.ServicePort{Name: "u", Protocol: corev1.ProtocolUDP, Port: 2, TargetPort: intstr.FromString("metrics")})
	})
	var got []string
	for _, p := range b.Slices()[0].Ports {
		line := fmt.Sprintf("%s %s %d", *p.Name, *p.Protocol, *p.Port)
		if p.AppProtocol != nil {
			line += " " + *p.AppProtocol
		}
		got = append(got, line)
	}
	want := []string{"http TCP 8080", "m TCP 9090 x/p"} // no Pod has a port of the third name
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ports (-want +got):\n%s", diff)
	}
	if ports := b.Endpoints().Subsets[0].Ports; len(ports) != 2 || ports[1].Port != 9090 {
		t.Errorf("got ports %v of Endpoints", ports)
	}
}

func TestSlicesHaveALimitAndStableNames(t *testing.T) {
	t.Parallel()
	var pods []Pod
	for i := range 201 {
		pods = append(pods, pod(fmt.Sprintf("p-%03d", i), at(fmt.Sprintf("10.0.%d.%d", i/250, i%250))))
	}
	names := map[string]bool{}
	total := 0
	for _, s := range backends(pods).Slices() {
		if names[s.Name] || !strings.HasPrefix(s.Name, "web-") || len(s.Name) != len("web-")+5 || len(s.Endpoints) > perSlice {
			t.Errorf("got slice %s of %d", s.Name, len(s.Endpoints))
		}
		if owner := metav1.GetControllerOf(s); owner == nil || owner.UID != "s" || s.Labels[discoveryv1.LabelServiceName] != "web" || s.Labels[discoveryv1.LabelManagedBy] != managedBy || s.Labels["k"] != "v" {
			t.Errorf("got metadata %+v", s.ObjectMeta)
		}
		names[s.Name] = true
		total += len(s.Endpoints)
	}
	if len(names) != 3 || total != 201 {
		t.Errorf("got %d slices of %d endpoints, want 3 of 201", len(names), total)
	}
	fewer := backends(pods[:1], func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }).Slices()
	if len(fewer) != 1 || !names[fewer[0].Name] {
		t.Errorf("got slices %v, want the first again", fewer)
	}
	if _, headless := fewer[0].Labels[corev1.IsHeadlessService]; !headless {
		t.Errorf("got labels %v of a headless Service", fewer[0].Labels)
	}
	if own := backends(nil, func(s *corev1.Service) { s.Spec.Selector = nil }).Slices(); len(own) != 1 || own[0].Name != "web" || len(own[0].Endpoints) != 0 {
		t.Errorf("got %v of the API servers, want the name of the Service", own)
	}
}
