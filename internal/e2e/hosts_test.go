// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// hosts are network namespaces that a bridge of the test joins: each represents a
// computer with a separate address.
type hosts struct {
	*testing.T
	bridge *netlink.Bridge
	all    map[string]*computer
}

type computer struct {
	t       *testing.T
	name    string
	address string
	link    string // its end at the bridge
	inside  netns.NsHandle
	dir     string
	process *exec.Cmd
	ended   chan struct{}
	said    string // a file
}

// network is of the addresses for documentation: no host has them.
const network = "198.51.100."

// newHosts creates them, with the test's own end at network+"1".
func newHosts(t *testing.T, names ...string) *hosts {
	t.Helper()
	if os.Getenv("CAPSTAN_HOSTS") == "" {
		t.Skip("a bridge between network namespaces is made by make hosts; TestPlanesShareAStore has planes of one host")
	}
	if os.Geteuid() != 0 {
		t.Skip("network namespaces are made by root alone")
	}
	h := &hosts{T: t, all: map[string]*computer{}, bridge: &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("cpt%d", os.Getpid()%1e6)}}}
	if err := netlink.LinkAdd(h.bridge); err != nil {
		t.Skipf("no bridge can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := netlink.LinkDel(h.bridge); err != nil {
			t.Errorf("remove bridge %s: %v", h.bridge.Name, err)
		}
	})
	h.must(netlink.AddrAdd(h.bridge, addressOf(1)))
	h.must(netlink.LinkSetUp(h.bridge))
	for i, name := range names {
		h.add(name, i)
	}
	return h
}

func (h *hosts) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func addressOf(n int) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(fmt.Sprint(network, n)), Mask: net.CIDRMask(24, 32)}}
}

func (h *hosts) add(name string, i int) {
	h.Helper()
	made := &computer{t: h.T, name: name, address: fmt.Sprint(network, 11+i), link: fmt.Sprintf("%s-%s", h.bridge.Name, name), dir: filepath.Join(h.TempDir(), name)}
	h.must(onThread(func() (err error) {
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			made.inside, err = netns.Get()
		}
		return err
	}))
	h.Cleanup(func() { _ = made.inside.Close() })
	h.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: made.link, MasterIndex: h.bridge.Index}, PeerName: "eth0", PeerNamespace: netlink.NsFd(made.inside)}))
	h.Cleanup(func() { // immediately: the removal of its namespace would remove it some time later
		link, err := netlink.LinkByName(made.link)
		if err == nil {
			err = netlink.LinkDel(link)
		}
		if err != nil {
			h.Errorf("remove link %s: %v", made.link, err)
		}
	})
	inside, err := netlink.NewHandleAt(made.inside, unix.NETLINK_ROUTE)
	h.must(err)
	defer inside.Close()
	for _, name := range []string{"lo", "eth0"} {
		link, err := inside.LinkByName(name)
		h.must(err)
		if name == "eth0" {
			h.must(inside.AddrAdd(link, addressOf(11+i)))
		}
		h.must(inside.LinkSetUp(link))
	}
	made.connect(true)
	h.all[name] = made
}

// onThread runs something on a thread that ends with it, since it changes the thread.
func onThread(do func() error) error {
	ended := make(chan error)
	go func() {
		runtime.LockOSThread()
		ended <- do()
	}()
	return <-ended
}

// connect sets the link of a host up or down, at the bridge.
func (h *computer) connect(up bool) {
	h.t.Helper()
	link, err := netlink.LinkByName(h.link)
	if err == nil && up {
		err = netlink.LinkSetUp(link)
	} else if err == nil {
		err = netlink.LinkSetDown(link)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// up starts a plane on a host and waits until it is ready.
func (h *computer) up(flags ...string) {
	h.t.Helper()
	args := append([]string{"up", "--data-dir=" + h.dir, "--listen=" + h.address + ":6443", "--containers-dir=" + h.dir + "/containers"}, flags...)
	h.process, h.ended = exec.Command(testenv.Binary(h.t), args...), make(chan struct{})
	h.said = filepath.Join(h.t.TempDir(), "said")
	said, err := os.Create(h.said)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = said.Close() }() // the process has its own copy
	h.process.Stderr, h.process.SysProcAttr = said, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := h.process.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	process, ended, ready, started := h.process, h.ended, make(chan struct{}), make(chan error)
	go func() {
		// What the thread starts is in its namespace, and ends with the thread.
		runtime.LockOSThread()
		err := netns.Set(h.inside)
		if err == nil {
			err = process.Start()
		}
		started <- err
		if err != nil {
			return
		}
		lines := bufio.NewReader(out)
		if _, err := lines.ReadString('\n'); err == nil {
			close(ready)
		}
		_, _ = io.Copy(io.Discard, lines) // until it ends
		_ = process.Wait()                // its output reports how it ended
		close(ended)
	}()
	if err := <-started; err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { h.end(process, ended) })
	select {
	case <-ready:
	case <-ended:
		h.t.Fatalf("plane %s ended: %s", h.name, h.says())
	case <-time.After(testenv.Limit(stepTimeout)):
		h.t.Fatalf("plane %s is not ready: %s", h.name, h.says())
	}
}

// says is the output of a plane since its start.
func (h *computer) says() string {
	h.t.Helper()
	b, err := os.ReadFile(h.said)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(b)
}

func (h *computer) end(p *exec.Cmd, ended <-chan struct{}) {
	_ = p.Process.Kill() // it may have exited
	<-ended
}

// kill ends a plane as the loss of its host would.
func (h *computer) kill() { h.end(h.process, h.ended) }

// signal sends a signal to a plane.
func (h *computer) signal(s syscall.Signal) {
	h.t.Helper()
	if err := h.process.Process.Signal(s); err != nil {
		h.t.Fatal(err)
	}
}

// runs reports whether the plane has not ended.
func (h *computer) runs() bool {
	select {
	case <-h.ended:
		return false
	default:
		return true
	}
}

// capstan runs a command of the program on a host.
func (h *computer) capstan(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, testenv.Binary(h.t), append(args, "--data-dir="+h.dir)...)
	var out []byte
	err := onThread(func() (err error) {
		if err = netns.Set(h.inside); err == nil {
			out, err = cmd.CombinedOutput()
		}
		return err
	})
	return string(out), err
}
