// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// insideVariable is set in a process that runs one test in a separate network.
const insideVariable = "CAPSTAN_TEST_INSIDE"

// inside reports whether this process has a separate network, with root's rights there.
// Otherwise it runs the test in such a process, as any user that can create one.
func inside(t *testing.T) bool {
	t.Helper()
	if os.Getenv(insideVariable) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), insideVariable+"=1")
	ids := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL, UidMappings: ids(os.Geteuid()), GidMappings: ids(os.Getegid()),
	}
	out, err := cmd.CombinedOutput()
	if _, ran := errors.AsType[*exec.ExitError](err); err != nil && !ran {
		t.Skipf("creates namespaces: %v", err)
	}
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return false
}

// in calls do in a network namespace.
func in(t *testing.T, ns netns.NsHandle, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err := errors.Join(err, netns.Set(ns)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(netns.Set(here), here.Close()); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// newNamespace returns a new network namespace, in which lo is up.
func newNamespace(t *testing.T) netns.NsHandle {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	here, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	ns, err := netns.New() // this thread is in it now
	if err == nil {
		err = up("lo")
	}
	if err := errors.Join(err, netns.Set(here), here.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	return ns
}

func up(link string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(l)
}

var (
	names  = Names{"0123abcd"}
	bridge = Bridge{Name: names.Bridge("net"), Table: names.Table("net"), Address: netip.MustParsePrefix("10.9.0.1/24"), MTU: 1400}
)

// pairOf is the pair of a container with the last byte of its address.
func pairOf(container string, last byte) Pair {
	return Pair{
		Host: names.Link(container), Bridge: bridge.Name, Hardware: names.Hardware(names.Link(container)).String(),
		Address: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 0, last}), 24), Gateway: bridge.Address.Addr(),
		Routes: []Route{{netip.MustParsePrefix("10.10.0.0/16"), netip.MustParseAddr("10.9.0.9")}},
	}
}

// ensured creates the bridge.
func ensured(t *testing.T) {
	t.Helper()
	if err := errors.Join(up("lo"), names.Ensure(bridge)); err != nil {
		t.Fatal(err)
	}
}

// serve accepts one connection at an address in a namespace, and sends the address of
// its client.
func serve(t *testing.T, ns netns.NsHandle, address string) <-chan string {
	t.Helper()
	var ln net.Listener
	in(t, ns, func() {
		var err error
		if ln, err = net.Listen("tcp4", address); err != nil {
			t.Fatal(err)
		}
	})
	t.Cleanup(func() { _ = ln.Close() })
	clients := make(chan string, 1)
	go func() {
		defer close(clients)
		if c, err := ln.Accept(); err == nil {
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			clients <- host
			_ = c.Close()
		}
	}()
	return clients
}

// connects connects from a namespace to an address.
func connects(t *testing.T, ns netns.NsHandle, address string, within time.Duration) (err error) {
	t.Helper()
	in(t, ns, func() {
		var c net.Conn
		if c, err = net.DialTimeout("tcp4", address, within); err == nil {
			_ = c.Close()
		}
	})
	return err
}
