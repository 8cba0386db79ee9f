// SPDX-License-Identifier: Apache-2.0

package podplan

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/rand"
)

// perSlice is how many addresses a slice holds.
const perSlice = 100

const managedBy = "endpointslice-controller.k8s.io"

// EndpointsManagedBy is the label by which the controller of Endpoints recognizes
// its own.
const EndpointsManagedBy = "endpoints.kubernetes.io/managed-by"

// Backends is a Service with the Pods that it picks. Port gives the number of
// a port that it names, and false if no Pod has one of that name.
type Backends struct {
	Service *corev1.Service
	Pods    []Pod
	Zone    func(node string) string
	Port    func(name string, protocol corev1.Protocol) (int32, bool)
}

type port struct {
	name     string
	protocol corev1.Protocol
	number   int32
	app      *string
}

func (b Backends) ports() []port {
	var out []port
	for _, p := range b.Service.Spec.Ports {
		n := p.TargetPort.IntVal
		if p.TargetPort.Type == intstr.String {
			var ok bool
			if n, ok = b.Port(p.TargetPort.StrVal, p.Protocol); !ok {
				continue
			}
		}
		out = append(out, port{p.Name, p.Protocol, n, p.AppProtocol})
	}
	return out
}

func familyOf(ip string) discoveryv1.AddressType {
	if strings.Contains(ip, ":") {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// family is that of the addresses: the first of the Service, or that of the API servers.
func (b Backends) family() discoveryv1.AddressType {
	if b.Service.Spec.Selector == nil && len(b.Pods) > 0 && len(b.Pods[0].IPs) > 0 {
		return familyOf(b.Pods[0].IPs[0].IP)
	}
	if f := b.Service.Spec.IPFamilies; len(f) > 0 && f[0] == corev1.IPv6Protocol {
		return discoveryv1.AddressTypeIPv6
	}
	return discoveryv1.AddressTypeIPv4
}

// serving are the Pods that have an address of the family, which is the only one then, and
// have not ended.
func (b Backends) serving() []Pod {
	var out []Pod
	family := b.family()
	for _, p := range b.Pods {
		i := slices.IndexFunc(p.IPs, func(ip corev1.PodIP) bool { return familyOf(ip.IP) == family })
		if i >= 0 && !p.Ended() {
			p.IPs = p.IPs[i : i+1]
			out = append(out, p)
		}
	}
	return out
}

func (b Backends) ready(p Pod) bool {
	return !p.Leaving && (p.Ready || b.Service.Spec.PublishNotReadyAddresses)
}

// Slices are the EndpointSlices that the Service has.
func (b Backends) Slices() []*discoveryv1.EndpointSlice {
	svc := b.Service
	labels := With(With(svc.Labels, discoveryv1.LabelServiceName, svc.Name), discoveryv1.LabelManagedBy, managedBy)
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		labels[corev1.IsHeadlessService] = ""
	}
	var ports []discoveryv1.EndpointPort
	for _, p := range b.ports() {
		ports = append(ports, discoveryv1.EndpointPort{Name: &p.name, Protocol: &p.protocol, Port: &p.number, AppProtocol: p.app})
	}
	var out []*discoveryv1.EndpointSlice
	pods := b.serving()
	for n := 0; n == 0 || n*perSlice < len(pods); n++ {
		s := &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: svc.Namespace, Name: svc.Name, Labels: labels,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(svc, corev1.SchemeGroupVersion.WithKind("Service"))},
			},
			AddressType: b.family(), Ports: ports, Endpoints: []discoveryv1.Endpoint{},
		}
		if svc.Spec.Selector != nil { // those of the API servers' own Service have its name
			s.Name = fmt.Sprintf("%s-%s", svc.Name, suffix(string(svc.UID), n))
		}
		for _, p := range pods[n*perSlice : min(len(pods), (n+1)*perSlice)] {
			e := discoveryv1.Endpoint{
				Addresses:  []string{p.IPs[0].IP},
				Conditions: discoveryv1.EndpointConditions{Ready: new(b.ready(p)), Serving: new(p.Ready || svc.Spec.PublishNotReadyAddresses), Terminating: &p.Leaving},
				NodeName:   &p.Node, TargetRef: reference(p),
			}
			if zone := b.Zone(p.Node); zone != "" {
				e.Zone = &zone
			}
			s.Endpoints = append(s.Endpoints, e)
		}
		out = append(out, s)
	}
	return out
}

// Endpoints are the Service's, in the older form.
func (b Backends) Endpoints() *corev1.Endpoints {
	e := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: b.Service.Namespace, Name: b.Service.Name, Labels: With(b.Service.Labels, EndpointsManagedBy, "endpoint-controller")}}
	var ports []corev1.EndpointPort
	for _, p := range b.ports() {
		ports = append(ports, corev1.EndpointPort{Name: p.name, Protocol: p.protocol, Port: p.number, AppProtocol: p.app})
	}
	s := corev1.EndpointSubset{Ports: ports}
	for _, p := range b.serving() {
		a := corev1.EndpointAddress{IP: p.IPs[0].IP, NodeName: &p.Node, TargetRef: reference(p)}
		if b.ready(p) {
			s.Addresses = append(s.Addresses, a)
		} else if !p.Leaving {
			s.NotReadyAddresses = append(s.NotReadyAddresses, a)
		}
	}
	if len(s.Addresses)+len(s.NotReadyAddresses) > 0 {
		e.Subsets = []corev1.EndpointSubset{s}
	}
	return e
}

func reference(p Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// suffix is five letters that follow from an identity and a number.
func suffix(of string, n int) string {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, of, n) // never fails
	return rand.SafeEncodeString(fmt.Sprintf("%010d", h.Sum32()))[:5]
}
