// SPDX-License-Identifier: Apache-2.0

package podroutes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/pure/podspec"
)

const (
	// ttl is how long a response is valid, in seconds: Services are created and
	// deleted.
	ttl = 5
	// maxAnswers keeps a response within the size that UDP allows without EDNS.
	maxAnswers = 24
	// maxAliases is how many aliases of a name are followed.
	maxAliases = 8
)

// Lookup resolves names outside the cluster.
type Lookup interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// errNoName means that the name does not exist.
var errNoName = errors.New("there is no such name")

// Resolve answers a DNS message for a name.
func (r *Routes) Resolve(ctx context.Context, _ netip.Addr, query []byte) ([]byte, error) {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil {
		return nil, fmt.Errorf("read a question for a name: %w", err)
	}
	q, err := p.Question()
	if err != nil || header.Response {
		return nil, errors.New("read a question for a name: there is none")
	}
	answer := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	for range maxAliases {
		found, err := r.answers(ctx, q)
		switch {
		case errors.Is(err, errNoName):
			answer.RCode = dnsmessage.RCodeNameError
		case err != nil:
			answer.RCode = dnsmessage.RCodeServerFailure
		}
		for _, body := range found[:min(len(found), maxAnswers)] {
			answer.Answers = append(answer.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}, Body: body,
			})
		}
		// Clients expect that an alias is followed: they send no second query.
		if len(found) != 1 || q.Type == dnsmessage.TypeCNAME {
			break
		}
		alias, is := found[0].(*dnsmessage.CNAMEResource)
		if !is {
			break
		}
		q.Name = alias.CNAME
	}
	return answer.Pack()
}

func (r *Routes) answers(ctx context.Context, q dnsmessage.Question) ([]dnsmessage.ResourceBody, error) {
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	if q.Class != dnsmessage.ClassINET {
		return nil, nil
	}
	inside, ok := strings.CutSuffix(name, "."+podspec.Domain)
	if !ok {
		if name == podspec.Domain || strings.HasSuffix(name, ".local") || !strings.Contains(name, ".") {
			return nil, errNoName
		}
		return r.outside(ctx, name, q.Type)
	}
	labels := strings.Split(inside, ".")
	slices.Reverse(labels)
	switch {
	case labels[0] == "svc" && len(labels) >= 3:
		return r.ofService(ctx, labels[1], labels[2], labels[3:], q.Type)
	case labels[0] == "pod" && len(labels) == 3:
		ip, err := netip.ParseAddr(strings.ReplaceAll(labels[2], "-", "."))
		if err != nil || !r.Pods.Contains(ip) {
			return nil, errNoName
		}
		return addresses(q.Type, ip), nil
	}
	return nil, errNoName
}

// named returns the address of a Service, or of an endpoint of it, for a name that
// ends in svc or in the domain after that; false for other names.
func (r *Routes) named(ctx context.Context, name string) (netip.Addr, bool, error) {
	labels := strings.Split(strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(name), "."), "."+podspec.Domain), ".")
	slices.Reverse(labels)
	if labels[0] != "svc" || len(labels) < 3 {
		return netip.Addr{}, false, nil
	}
	found, err := r.ofService(ctx, labels[1], labels[2], labels[3:], dnsmessage.TypeA)
	if err != nil {
		return netip.Addr{}, true, fmt.Errorf("service %s/%s: %w", labels[1], labels[2], err)
	}
	var all []netip.Addr
	for _, body := range found {
		switch body := body.(type) {
		case *dnsmessage.AResource:
			all = append(all, netip.AddrFrom4(body.A))
		case *dnsmessage.CNAMEResource:
			outside, err := r.Lookup.LookupNetIP(ctx, "ip", body.CNAME.String())
			if err != nil {
				return netip.Addr{}, true, err
			}
			all = append(all, outside...)
		}
	}
	if len(all) == 0 {
		return netip.Addr{}, true, fmt.Errorf("service %s/%s has no address", labels[1], labels[2])
	}
	return all[r.Choose(len(all))].Unmap(), true, nil
}

// outside queries the host's resolver.
func (r *Routes) outside(ctx context.Context, name string, kind dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
	network := map[dnsmessage.Type]string{dnsmessage.TypeA: "ip4", dnsmessage.TypeAAAA: "ip6"}[kind]
	if network == "" {
		return nil, nil // it only supports addresses
	}
	found, err := r.Lookup.LookupNetIP(ctx, network, name+".")
	var dns *net.DNSError
	if errors.As(err, &dns) && dns.IsNotFound {
		if _, err := r.Lookup.LookupNetIP(ctx, "ip", name+"."); err == nil {
			return nil, nil // it has addresses of the other kind
		}
		return nil, errNoName
	}
	if err != nil {
		return nil, err
	}
	return addresses(kind, found...), nil
}

// ofService answers for a Service: its address, the addresses of its endpoints if
// it has none, one of those by its hostname, or a port by name.
func (r *Routes) ofService(ctx context.Context, namespace, name string, below []string, kind dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
	service := &corev1.Service{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, service)
	if apierrors.IsNotFound(err) {
		return nil, errNoName
	}
	if err != nil {
		return nil, err
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		target, err := dnsmessage.NewName(strings.TrimSuffix(service.Spec.ExternalName, ".") + ".")
		if err != nil || len(below) > 0 {
			return nil, errNoName
		}
		return []dnsmessage.ResourceBody{&dnsmessage.CNAMEResource{CNAME: target}}, nil
	}
	ip, err := netip.ParseAddr(service.Spec.ClusterIP)
	headless := err != nil
	ofPort := len(below) == 2 && strings.HasPrefix(below[0], "_") && strings.HasPrefix(below[1], "_")
	switch {
	case ofPort && !headless:
		return ports(service, below[0][1:], below[1][1:], kind)
	case len(below) > 1 && !ofPort:
		return nil, errNoName
	case len(below) == 0 && !headless:
		return addresses(kind, ip), nil
	}
	all := &discoveryv1.EndpointSliceList{}
	if err := r.Live.List(ctx, all, client.InNamespace(namespace), client.MatchingLabels{discoveryv1.LabelServiceName: name}); err != nil {
		return nil, err
	}
	if ofPort {
		return endpointPorts(all.Items, service, below[0][1:], below[1][1:], kind)
	}
	found := endpoints(all.Items, below, service.Spec.PublishNotReadyAddresses)
	if len(found) == 0 {
		return nil, errNoName
	}
	return addresses(kind, found...), nil
}

// ports returns the number of a named port of a Service.
func ports(service *corev1.Service, protocol, port string, kind dnsmessage.Type) ([]dnsmessage.ResourceBody, error) {
	target, err := dnsmessage.NewName(service.Name + "." + service.Namespace + ".svc." + podspec.Domain + ".")
	if err != nil {
		return nil, err
	}
	for _, p := range service.Spec.Ports {
		is := string(p.Protocol)
		if is == "" {
			is = string(corev1.ProtocolTCP)
		}
		if p.Name != port || !strings.EqualFold(is, protocol) {
			continue
		}
		if kind != dnsmessage.TypeSRV {
			return nil, nil
		}
		return []dnsmessage.ResourceBody{&dnsmessage.SRVResource{Weight: 100, Port: uint16(p.Port), Target: target}}, nil
	}
	return nil, errNoName
}

// endpointPorts returns the number of a named port for each endpoint of a Service
// that has no address.
func endpointPorts(all []discoveryv1.EndpointSlice, service *corev1.Service, protocol, port string, kind dnsmessage.Type) (found []dnsmessage.ResourceBody, err error) {
	known := false
	for _, s := range all {
		for _, p := range s.Ports {
			if p.Name == nil || *p.Name != port || p.Port == nil || !strings.EqualFold(string(*cmp.Or(p.Protocol, new(corev1.ProtocolTCP))), protocol) {
				continue
			}
			known = true
			for _, e := range s.Endpoints {
				if kind != dnsmessage.TypeSRV || !answers(e, service.Spec.PublishNotReadyAddresses) {
					continue
				}
				target, err := dnsmessage.NewName(hostname(e) + "." + service.Name + "." + service.Namespace + ".svc." + podspec.Domain + ".")
				if err != nil {
					return nil, err
				}
				found = append(found, &dnsmessage.SRVResource{Weight: 100, Port: uint16(*p.Port), Target: target})
			}
		}
	}
	if !known {
		return nil, errNoName
	}
	return found, nil
}

// answers reports whether an endpoint is included in responses.
func answers(e discoveryv1.Endpoint, unready bool) bool {
	return len(e.Addresses) > 0 && (unready || e.Conditions.Ready == nil || *e.Conditions.Ready)
}

// hostname returns the name of an endpoint below its Service: that of its Pod, or
// its address with dashes, as in other DNS servers of Kubernetes.
func hostname(e discoveryv1.Endpoint) string {
	if e.Hostname != nil && *e.Hostname != "" {
		return *e.Hostname
	}
	return strings.NewReplacer(".", "-", ":", "-").Replace(e.Addresses[0])
}

// endpoints returns the addresses of the ready endpoints, or of the one with a
// hostname.
func endpoints(all []discoveryv1.EndpointSlice, below []string, unready bool) (found []netip.Addr) {
	for _, s := range all {
		for _, e := range s.Endpoints {
			if !answers(e, unready) || len(below) > 0 && hostname(e) != below[0] {
				continue
			}
			if ip, err := netip.ParseAddr(e.Addresses[0]); err == nil {
				found = append(found, ip)
			}
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found)
}

// addresses returns the addresses of the requested kind.
func addresses(kind dnsmessage.Type, all ...netip.Addr) (bodies []dnsmessage.ResourceBody) {
	for _, ip := range all {
		ip = ip.Unmap()
		switch {
		case kind == dnsmessage.TypeA && ip.Is4():
			bodies = append(bodies, &dnsmessage.AResource{A: ip.As4()})
		case kind == dnsmessage.TypeAAAA && ip.Is6():
			bodies = append(bodies, &dnsmessage.AAAAResource{AAAA: ip.As16()})
		}
	}
	return bodies
}
