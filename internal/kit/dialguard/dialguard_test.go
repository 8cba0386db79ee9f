// SPDX-License-Identifier: Apache-2.0

package dialguard

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

func TestIsReservedReportsLocalAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"127.0.0.1": true, "127.64.1.1": true, "::1": true, "0.0.0.0": true, "0.1.2.3": true, "::": true,
		"169.254.169.254": true, "169.254.170.2": true, "fe80::1%eth0": true, "fe80::a9fe:a9fe": true,
		"224.0.0.1": true, "239.1.2.3": true, "ff02::1": true, "ff0e::1": true, "255.255.255.255": true,
		"100.100.100.200": true, "168.63.129.16": true, "192.0.0.192": true, "fd00:ec2::254": true, "fd20:ce::254": true,
		"::ffff:127.0.0.1": true, "::ffff:169.254.169.254": true, "::127.0.0.1": true,
		"64:ff9b::7f00:1": true, "64:ff9b::a9fe:a9fe": true, "64:ff9b::6464:64c8": true, "64:ff9b:1::a9fe:a9fe": true, "2002:7f00:1::": true,
		"10.0.0.1": false, "192.168.1.1": false, "192.0.0.191": false, "fd12::1": false, "198.51.100.7": false, "2001:db8::1": false,
		"::ffff:198.51.100.7": false, "64:ff9b::c633:6407": false, "64:ff9b:1::c633:6407": false, "2002:c633:6407::": false,
	} {
		if got := IsReserved(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: got %t, want %t", text, got, want)
		}
	}
	if !IsReserved(netip.Addr{}) {
		t.Error("no address: got false, want true")
	}
}

// ownAddress is an address of an interface of this host that is not reserved.
func ownAddress(t *testing.T) netip.Addr {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !IsReserved(p.Addr()) {
			return p.Addr()
		}
	}
	t.Skip("this host has only loopback addresses")
	return netip.Addr{}
}

func TestCheckRefusesAddressesOfHost(t *testing.T) {
	t.Parallel()
	own := ownAddress(t)
	at := func(port uint16) netip.AddrPort { return netip.AddrPortFrom(own, port) }
	const refused = "start the plane with --pods-reach-host"
	tests := map[string]struct {
		allow  bool
		serves netip.AddrPort
		to     netip.AddrPort
		want   string
	}{
		"of the host":                       {to: at(22), want: refused},
		"of the host, in IPv6":              {to: netip.AddrPortFrom(netip.AddrFrom16(own.As16()), 22), want: refused},
		"of the host, by NAT64":             {to: netip.AddrPortFrom(nat64(own), 22), want: refused},
		"of the host, allowed":              {allow: true, to: at(22)},
		"of the host, served":               {serves: at(6443), to: at(6443)},
		"of the host, another port":         {serves: at(6443), to: at(6444), want: refused},
		"of the host, served on all":        {serves: netip.MustParseAddrPort("0.0.0.0:6443"), to: at(6443)},
		"of the host, served on all of six": {serves: netip.MustParseAddrPort("[::]:6443"), to: at(6443)},
		"loopback, served":                  {serves: netip.MustParseAddrPort("127.0.0.1:6443"), to: netip.MustParseAddrPort("127.0.0.1:6443"), want: "is not for Pods"},
		"loopback, allowed":                 {allow: true, to: netip.MustParseAddrPort("127.0.0.1:22"), want: "is not for Pods"},
		"metadata, allowed":                 {allow: true, to: netip.MustParseAddrPort("169.254.169.254:80"), want: "is not for Pods"},
		"elsewhere":                         {to: netip.MustParseAddrPort("192.0.2.1:22")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := &Guard{AllowHost: tc.allow}
			g.Serve(tc.serves)
			err := g.Check(tc.to)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
	g := &Guard{}
	g.Serve(at(6443))
	g.Stop(at(6443))
	if err := g.Check(at(6443)); err == nil {
		t.Error("not served any longer: allowed")
	}
}

func TestCheckAllowsOnlyServedLoopback(t *testing.T) {
	t.Parallel()
	const endpoint = "127.64.7.9:6443"
	tests := map[string]struct {
		serve, serveLoopback []string
		to                   string
		allowed              bool
	}{
		"the endpoint":                   {serveLoopback: []string{endpoint}, to: endpoint, allowed: true},
		"no endpoint":                    {to: endpoint},
		"one of another plane":           {serveLoopback: []string{endpoint}, to: "127.64.7.10:6443"},
		"another port of it":             {serveLoopback: []string{endpoint}, to: "127.64.7.9:2379"},
		"the plane":                      {serveLoopback: []string{endpoint}, to: "127.0.0.1:6443"},
		"mapped to IPv6":                 {serveLoopback: []string{endpoint}, to: "[::ffff:127.64.7.9]:6443"},
		"by NAT64":                       {serveLoopback: []string{endpoint}, to: "[64:ff9b::7f40:709]:6443"},
		"where the plane listens on all": {serve: []string{"0.0.0.0:6443", "[::]:6443"}, to: endpoint},
		"where the plane listens":        {serve: []string{endpoint}, to: endpoint},
		"all served as loopback":         {serveLoopback: []string{"0.0.0.0:6443", "[::]:6443"}, to: endpoint},
		"metadata served as loopback":    {serveLoopback: []string{"169.254.169.254:80"}, to: "169.254.169.254:80"},
		"IPv6 served as loopback":        {serveLoopback: []string{"[::1]:6443"}, to: "[::1]:6443"},
		"any address served as loopback": {serveLoopback: []string{"0.0.0.0:6443"}, to: "0.0.0.0:6443"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, g := range []*Guard{{}, {AllowHost: true}} {
				for _, at := range tc.serve {
					g.Serve(netip.MustParseAddrPort(at))
				}
				for _, at := range tc.serveLoopback {
					g.ServeLoopback(netip.MustParseAddrPort(at))
				}
				err := g.Check(netip.MustParseAddrPort(tc.to))
				if refused, ok := errors.AsType[*RefusedError](err); (err == nil) != tc.allowed || err != nil && (!ok || refused.To.String() != tc.to) {
					t.Errorf("AllowHost %t: got %v, want allowed %t", g.AllowHost, err, tc.allowed)
				}
				for _, at := range tc.serveLoopback {
					g.Stop(netip.MustParseAddrPort(at))
				}
				if err := g.Check(netip.MustParseAddrPort(tc.to)); err == nil {
					t.Errorf("AllowHost %t: allowed after Stop", g.AllowHost)
				}
			}
		})
	}
}

func nat64(a netip.Addr) netip.Addr {
	b := netip.MustParseAddr("64:ff9b::").As16()
	four := a.As4()
	copy(b[12:], four[:])
	return netip.AddrFrom16(b)
}

// resolver answers every question with one address, as a name server of an attacker can.
func resolver(answer netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe() // a stream: each message has its length in front
		go func() {
			defer func() { _ = far.Close() }()
			b := make([]byte, 512)
			for {
				n, err := far.Read(b)
				if err != nil {
					return
				}
				var m dnsmessage.Message
				if err := m.Unpack(b[2:n]); err != nil {
					return
				}
				m.Response, m.Additionals = true, nil
				header := dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 1}
				switch kind := m.Questions[0].Type; {
				case kind == dnsmessage.TypeA && answer.Is4():
					m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: answer.As4()}}}
				case kind == dnsmessage.TypeAAAA && answer.Is6():
					m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: answer.As16()}}}
				}
				reply, err := m.Pack()
				if err != nil {
					return
				}
				if _, err := far.Write(append([]byte{byte(len(reply) >> 8), byte(len(reply))}, reply...)); err != nil {
					return
				}
			}
		}()
		return near, nil
	}}
}

func TestDialerRefusesWhatNamesResolveTo(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "udp"} {
		for _, answer := range []string{"127.0.0.1", "169.254.169.254", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "224.0.0.1", ownAddress(t).String()} {
			t.Run(network+" to "+answer, func(t *testing.T) {
				t.Parallel()
				g := &Guard{}
				reached := false
				d := net.Dialer{Resolver: resolver(netip.MustParseAddr(answer)), ControlContext: func(ctx context.Context, network, address string, c syscall.RawConn) error {
					err := g.Control(ctx, network, address, c)
					reached = reached || err == nil
					return errors.Join(err, errors.New("a test connects to nothing"))
				}}
				_, err := d.DialContext(t.Context(), network, "evil.example.:80")
				if reached || err == nil || !strings.Contains(err.Error(), "is not for Pods") && !strings.Contains(err.Error(), "is an address of this host") {
					t.Errorf("allowed %v, got %v", reached, err)
				}
			})
		}
	}
}
