// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// outside is a network namespace that represents another host, with a link to this
// one.
type outside struct {
	t    *testing.T
	does chan func() // functions for its thread
}

const (
	hostAddress    = "192.0.2.1"
	outsideAddress = "192.0.2.2"
)

// newOutside returns a host that this host can reach, and that has no route to
// networks behind this host.
func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{t: t, does: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and with it the namespace
		for do := range o.does {
			do()
		}
	}()
	t.Cleanup(func() { close(o.does) })
	var ns netns.NsHandle
	err := o.do(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		ns, err = netns.GetFromPath(fmt.Sprintf("/proc/%d/ns/net", unix.Gettid()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ns.Close() }()
	err = netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "out0"}, PeerName: "in0", PeerNamespace: netlink.NsFd(ns)})
	err = errors.Join(err, addressed("out0", hostAddress), o.do(func() error { return addressed("in0", outsideAddress) }))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// addressed sets a link up and gives it an address.
func addressed(name, address string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(address + "/24")
	if err != nil {
		return err
	}
	return errors.Join(netlink.AddrAdd(link, addr), netlink.LinkSetUp(link))
}

// do calls a function on the other host.
func (o *outside) do(what func() error) error {
	done := make(chan error)
	o.does <- func() { done <- what() }
	return <-done
}

// serve answers on the other host with the address of the client: a socket belongs
// to the namespace in which it was created.
func (o *outside) serve() {
	o.t.Helper()
	err := o.do(func() error {
		l, err := listenHere(outsideAddress, 8000)
		if err != nil {
			return err
		}
		o.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				_, _ = io.WriteString(conn, host) // the other side notices missing data
				_ = conn.Close()
			}
		}()
		return nil
	})
	if err != nil {
		o.t.Fatal(err)
	}
}

// listenHere listens in the network namespace of the calling thread; net.Listen may
// use any thread.
func listenHere(address string, port int) (net.Listener, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "listener")
	defer func() { _ = f.Close() }() // FileListener duplicates it
	err = errors.Join(unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: netip.MustParseAddr(address).As4()}), unix.Listen(fd, 8))
	if err != nil {
		return nil, err
	}
	return net.FileListener(f)
}

// reaches checks from the other host whether a server answers at an address, given
// a route to it.
func (o *outside) reaches(at netip.AddrPort, behind string) error {
	return o.do(func() error {
		to, err := netlink.ParseIPNet(behind)
		if err == nil {
			err = netlink.RouteReplace(&netlink.Route{Dst: to, Gw: net.ParseIP(hostAddress)})
		}
		if err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		const patience = 700 // ms: no error is sent if there is no server
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, patience); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: patience * 1000}); err != nil {
			return err
		}
		return unix.Connect(fd, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	})
}

func TestContainersReachNetworkAndAreNotReachable(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	b, out := newLab(t), newOutside(t)
	out.serve()
	if err := b.EnsureNetwork(t.Context(), Network{Name: "net", Address: netip.MustParsePrefix("172.31.99.1/24")}); err != nil {
		t.Fatal(err)
	}
	s := b.spec("one", "serve", ":8000", "one")
	s.Network = &Attachment{Network: "net", Address: netip.MustParsePrefix("172.31.99.11/24"), Gateway: netip.MustParseAddr("172.31.99.1")}
	b.start(s)
	b.awaitConsole("one", "serves")
	if got, code := b.run("one", "dial", outsideAddress+":8000"); got != hostAddress || code != 0 {
		t.Errorf("outside it is %q, %d, want the host's %s", got, code, hostAddress)
	}
	// Forwarding is enabled and the other host has a route: only the rules block it.
	at := netip.MustParseAddrPort("172.31.99.11:8000")
	if err := out.reaches(at, "172.31.99.0/24"); !errors.Is(err, unix.EINPROGRESS) && !errors.Is(err, unix.ETIMEDOUT) {
		t.Errorf("from outside: got %v, want no answer", err)
	}
	b.removeContainers()
	if err := b.RemoveNetwork(context.WithoutCancel(t.Context()), "net"); err != nil {
		t.Fatal(err)
	}
	if got := forwarding(t); got != "0" {
		t.Errorf("forwarding is %s, as it was not before", got)
	}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range links {
		names = append(names, l.Attrs().Name)
	}
	if got := strings.Join(names, " "); got != "lo out0" {
		t.Errorf("links are %s", got)
	}
}
