// SPDX-License-Identifier: Apache-2.0

package podroutes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
)

// lookup resolves some names outside the cluster.
type lookup map[string]string

func (l lookup) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	text, ok := l[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if text == "" {
		return nil, errors.New("the resolver does not answer")
	}
	ip := netip.MustParseAddr(text)
	if network == "ip4" && !ip.Is4() || network == "ip6" && !ip.Is6() {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{ip}, nil
}

// routes returns routes with which each dialed address sends its name.
func routes(t *testing.T) *Routes {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	slice := func(service, endpoints string) client.Object {
		return builder.Parse[discoveryv1.EndpointSlice](t, fmt.Sprintf("metadata: {namespace: ns, name: %s-1, labels: {kubernetes.io/service-name: %s}}\nendpoints: %s\nports: [{port: 9443}]", service, service, endpoints))
	}
	service := func(name, spec string) client.Object {
		return builder.Parse[corev1.Service](t, fmt.Sprintf("metadata: {namespace: ns, name: %s}\nspec: {%s}", name, spec))
	}
	return &Routes{
		Live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(
			service("hooks", "clusterIP: 10.96.0.9, ports: [{name: https, port: 443, targetPort: 9443}]"), slice("hooks", "[{addresses: [10.244.0.2]}]"),
			service("none", "clusterIP: 10.96.0.7, ports: [{port: 443, targetPort: 9443}]"),
			service("away", "clusterIP: 10.96.0.8, ports: [{port: 443, targetPort: 9443}]"), slice("away", "[{addresses: [192.0.2.1]}]"),
			service("trick", "clusterIP: 10.96.0.6, ports: [{port: 443, targetPort: 9443}]"), slice("trick", "[{addresses: [127.0.0.1]}]"),
			service("name", "clusterIP: 10.96.0.5, ports: [{port: 443, targetPort: 9443}]"), slice("name", "[{addresses: [localhost]}]"),
			service("mapped", "clusterIP: 10.96.0.4, ports: [{port: 443, targetPort: 9443}]"), slice("mapped", "[{addresses: ['::ffff:127.0.0.1']}]"),
			service("port", "clusterIP: 10.96.0.3, ports: [{port: 443, targetPort: 9443}]"), slice("port", "[{addresses: [127.64.0.7]}]"),
			service("headless", "clusterIP: None, ports: [{port: 1}]"), slice("headless", "[{addresses: [10.244.0.4], hostname: b}, {addresses: [10.244.0.3], hostname: a}, {addresses: [10.244.0.5], conditions: {ready: false}}]"),
			service("ports", "clusterIP: None"),
			builder.Parse[discoveryv1.EndpointSlice](t, "metadata: {namespace: ns, name: ports-1, labels: {kubernetes.io/service-name: ports}}\nendpoints: [{addresses: [10.244.0.4], hostname: b}, {addresses: [10.244.0.3]}, {addresses: [10.244.0.5], conditions: {ready: false}}]\nports: [{name: http, port: 8080}]"),
			service("inner", "type: ExternalName, externalName: hooks.ns.svc.cluster.local"), service("round", "type: ExternalName, externalName: round.ns.svc.cluster.local"),
			service("alias", "type: ExternalName, externalName: example.com"),
		).Build(),
		Choose: func(int) int { return 0 }, Pods: netip.MustParsePrefix("10.244.0.0/16"), Services: netip.MustParsePrefix("10.96.0.0/16"),
		DialPod:   func(_ context.Context, to netip.AddrPort) (net.Conn, error) { return says("pod " + to.String()), nil },
		APIServer: netip.MustParseAddr("10.96.0.1"), Serve: func(c net.Conn) { _, _ = io.WriteString(c, "API server"); _ = c.Close() },
		Node: "plane", Kubelet: func(context.Context) (net.Conn, error) { return says("kubelet"), nil },
		Outside: func(_ context.Context, _, address string) (net.Conn, error) { return says("outside " + address), nil },
		ForPods: func(ctx context.Context, network, address string) (net.Conn, error) {
			guard := &dialguard.Guard{}
			guard.ServeLoopback(netip.MustParseAddrPort("127.64.0.7:6443"))
			allowed := errors.New("allowed, but not to be dialed by a test")
			d := net.Dialer{ControlContext: func(ctx context.Context, network, address string, c syscall.RawConn) error {
				return cmp.Or(guard.Control(ctx, network, address, c), allowed)
			}}
			if _, err := d.DialContext(ctx, network, address); !errors.Is(err, allowed) {
				return nil, err
			}
			return says("outside " + address), nil
		},
		Lookup: lookup{"example.com.": "192.0.2.1", "six.example.com.": "2001:db8::1", "slow.example.com.": ""},
	}
}

func TestTheAPIServerReachesWhatIsInTheCluster(t *testing.T) {
	t.Parallel()
	r := routes(t)
	for address, want := range map[string]string{
		"10.96.0.9:443":                      "pod 10.244.0.2:9443",
		"10.96.0.8:443":                      "outside 192.0.2.1:9443",
		"10.96.0.6:443":                      "outside 127.0.0.1:9443", // the API server runs on this host
		"10.244.0.7:8080":                    "pod 10.244.0.7:8080",
		"plane:10250":                        "kubelet",
		"192.0.2.9:80":                       "outside 192.0.2.9:80",
		"hook.example:443":                   "outside hook.example:443",
		"10.96.0.9:80":                       "dial 10.96.0.9:80: service ns/hooks: it has no port 80: it has 443 (https)",
		"10.96.0.7:443":                      "dial 10.96.0.7:443: service ns/none: it has no ready endpoint: no EndpointSlice has its name in the label kubernetes.io/service-name",
		"10.96.0.1:443":                      "API server",
		"hooks.ns.svc:443":                   "pod 10.244.0.2:9443",
		"hooks.ns.svc.cluster.local.:443":    "pod 10.244.0.2:9443",
		"headless.ns.svc.cluster.local:7777": "pod 10.244.0.3:7777",
		"b.headless.ns.svc:7777":             "pod 10.244.0.4:7777",
		"alias.ns.svc:443":                   "outside 192.0.2.1:443",
		"gone.ns.svc:443":                    "dial gone.ns.svc:443: service ns/gone: there is no such name",
		"ns.svc:443":                         "outside ns.svc:443",
		"10.96.9.9:443":                      "dial 10.96.9.9:443: no Service has the address 10.96.9.9",
	} {
		conn, err := r.Dial(t.Context(), "tcp", address)
		got := fmt.Sprint(err)
		if err == nil {
			b, _ := io.ReadAll(conn)
			got = string(b)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestAPodReachesServicesAndTheOutsideButNotTheHost(t *testing.T) {
	t.Parallel()
	r := routes(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	own := "127.0.0.2:22" // if the host has only loopback addresses
	if interfaces, err := net.InterfaceAddrs(); err != nil {
		t.Fatal(err)
	} else if i := slices.IndexFunc(interfaces, func(a net.Addr) bool { return a.(*net.IPNet).IP.IsGlobalUnicast() }); i >= 0 {
		own = net.JoinHostPort(interfaces[i].(*net.IPNet).IP.String(), "22")
	}
	const reserved = " is not for Pods: "
	tests := map[string]struct {
		want    string
		refused string // reported of a connection that is reset
	}{
		"10.96.0.1:443":      {want: "API server"},
		"10.96.0.9:443":      {want: "pod 10.244.0.2:9443"},
		"10.244.0.3:80":      {want: "pod 10.244.0.3:80"},
		"192.0.2.9:80":       {want: "outside 192.0.2.9:80"},
		"127.0.0.1:22":       {refused: "connect to 127.0.0.1:22: 127.0.0.1:22" + reserved},
		"127.64.0.7:6443":    {want: "outside 127.64.0.7:6443"}, // the endpoint of a cluster
		"127.64.0.9:6443":    {want: "own"},                     // a process of the Pod
		"127.64.0.8:6443":    {refused: "127.64.0.8:6443" + reserved},
		"127.64.0.7:2379":    {refused: "127.64.0.7:2379" + reserved},
		"169.254.169.254:80": {refused: reserved},
		"224.0.0.1:80":       {refused: reserved},
		"0.0.0.0:80":         {refused: reserved},
		"100.100.100.200:80": {refused: reserved},
		own:                  {refused: own + " is "},
		"10.96.0.8:443":      {want: "outside 192.0.2.1:9443"},
		"10.96.0.7:443":      {},                                                               // no endpoint: no policy
		"10.96.0.6:443":      {refused: "connect to 10.96.0.6:443: 127.0.0.1:9443" + reserved}, // by an EndpointSlice with the host's loopback address
		"10.96.0.5:443":      {refused: ":9443" + reserved},                                    // by a name that resolves to it
		"10.96.0.4:443":      {refused: "9443" + reserved},                                     // by the same address in IPv6
		"10.96.0.3:443":      {refused: "127.64.0.7:9443" + reserved},                          // by another port of a cluster's address
	}
	for to, tc := range tests {
		pod, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		plane, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c := &podConn{TCPConn: plane.(*net.TCPConn), to: to}
		done := make(chan struct{})
		go func() {
			defer close(done)
			r.Connect(t.Context(), netip.MustParseAddr("10.244.0.2"), netip.MustParseAddrPort(to), c)
		}()
		b, err := io.ReadAll(pod)
		if string(b) != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: %q, %v, want %q", to, b, err, tc.want)
		}
		_ = pod.Close()
		<-done
		if !strings.Contains(c.refused, tc.refused) || (c.refused == "") != (tc.refused == "") {
			t.Errorf("%s: reported %q, want %q", to, c.refused, tc.refused)
		}
	}
}

// podConn is a connection of a Pod of which a process listens at 127.64.0.9.
type podConn struct {
	*net.TCPConn
	to, refused string
}

func (c *podConn) Own(context.Context) (net.Conn, error) {
	if c.to == "127.64.0.9:6443" {
		return says("own"), nil
	}
	return nil, syscall.ECONNREFUSED
}

func (c *podConn) Refuse(why string) {
	c.refused = why
	_ = c.SetLinger(0)
	_ = c.Close()
}

// says is a connection to a place that says its name.
func says(what string) net.Conn {
	near, far := net.Pipe()
	go func() { _, _ = io.WriteString(far, what); _ = far.Close() }()
	return near
}

func TestServerAnswersPodQueries(t *testing.T) {
	t.Parallel()
	r := routes(t)
	tests := map[string]struct {
		name string
		kind dnsmessage.Type
		want string
	}{
		"a Service":                    {"hooks.ns.svc.cluster.local.", dnsmessage.TypeA, "10.96.0.9"},
		"in capitals":                  {"HOOKS.ns.SVC.cluster.local.", dnsmessage.TypeA, "10.96.0.9"},
		"of the other kind":            {"hooks.ns.svc.cluster.local.", dnsmessage.TypeAAAA, ""},
		"a port":                       {"_https._tcp.hooks.ns.svc.cluster.local.", dnsmessage.TypeSRV, "443 hooks.ns.svc.cluster.local."},
		"no such port":                 {"_x._tcp.hooks.ns.svc.cluster.local.", dnsmessage.TypeSRV, "RCodeNameError"},
		"no Service":                   {"gone.ns.svc.cluster.local.", dnsmessage.TypeA, "RCodeNameError"},
		"ready endpoints":              {"headless.ns.svc.cluster.local.", dnsmessage.TypeA, "10.244.0.3 10.244.0.4"},
		"one by its hostname":          {"b.headless.ns.svc.cluster.local.", dnsmessage.TypeA, "10.244.0.4"},
		"no such hostname":             {"z.headless.ns.svc.cluster.local.", dnsmessage.TypeA, "RCodeNameError"},
		"one by its address":           {"10-244-0-3.ports.ns.svc.cluster.local.", dnsmessage.TypeA, "10.244.0.3"},
		"a port of endpoints":          {"_http._tcp.ports.ns.svc.cluster.local.", dnsmessage.TypeSRV, "8080 10-244-0-3.ports.ns.svc.cluster.local. 8080 b.ports.ns.svc.cluster.local."},
		"no such port of endpoints":    {"_http._udp.ports.ns.svc.cluster.local.", dnsmessage.TypeSRV, "RCodeNameError"},
		"an address of a port":         {"_http._tcp.ports.ns.svc.cluster.local.", dnsmessage.TypeA, ""},
		"another name":                 {"alias.ns.svc.cluster.local.", dnsmessage.TypeA, "192.0.2.1 example.com."},
		"another name as such":         {"alias.ns.svc.cluster.local.", dnsmessage.TypeCNAME, "example.com."},
		"another name in the cluster":  {"inner.ns.svc.cluster.local.", dnsmessage.TypeA, "10.96.0.9 hooks.ns.svc.cluster.local."},
		"a name for itself":            {"round.ns.svc.cluster.local.", dnsmessage.TypeA, strings.TrimSpace(strings.Repeat("round.ns.svc.cluster.local. ", 8))},
		"a Pod":                        {"10-244-0-7.ns.pod.cluster.local.", dnsmessage.TypeA, "10.244.0.7"},
		"no Pod":                       {"127-0-0-1.ns.pod.cluster.local.", dnsmessage.TypeA, "RCodeNameError"},
		"elsewhere":                    {"example.com.", dnsmessage.TypeA, "192.0.2.1"},
		"elsewhere, by six":            {"six.example.com.", dnsmessage.TypeAAAA, "2001:db8::1"},
		"elsewhere, of the other kind": {"six.example.com.", dnsmessage.TypeA, ""},
		"nowhere":                      {"gone.example.com.", dnsmessage.TypeA, "RCodeNameError"},
		"a search that finds nothing":  {"example.com.ns.svc.cluster.local.", dnsmessage.TypeA, "RCodeNameError"},
		"a resolver that fails":        {"slow.example.com.", dnsmessage.TypeA, "RCodeServerFailure"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := dnsmessage.Message{Header: dnsmessage.Header{ID: 7}, Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(tc.name), Type: tc.kind, Class: dnsmessage.ClassINET}}}
			b, err := q.Pack()
			if err != nil {
				t.Fatal(err)
			}
			b, err = r.Resolve(t.Context(), netip.MustParseAddr("10.244.0.2"), b)
			if err != nil {
				t.Fatal(err)
			}
			var got dnsmessage.Message
			if err := got.Unpack(b); err != nil || got.ID != 7 || !got.Response {
				t.Fatalf("%v: %+v", err, got.Header)
			}
			if said := said(got); said != tc.want {
				t.Errorf("%q, want %q", said, tc.want)
			}
		})
	}
	if _, err := r.Resolve(t.Context(), netip.Addr{}, []byte("no question")); err == nil {
		t.Error("what is no question is answered")
	}
}

func said(m dnsmessage.Message) string {
	if m.RCode != dnsmessage.RCodeSuccess {
		return m.RCode.GoString()[len("dnsmessage."):]
	}
	var all []string
	for _, a := range m.Answers {
		switch b := a.Body.(type) {
		case *dnsmessage.AResource:
			all = append(all, netip.AddrFrom4(b.A).String())
		case *dnsmessage.AAAAResource:
			all = append(all, netip.AddrFrom16(b.AAAA).String())
		case *dnsmessage.CNAMEResource:
			all = append(all, b.CNAME.String())
		case *dnsmessage.SRVResource:
			all = append(all, fmt.Sprintf("%d %s", b.Port, b.Target))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}
