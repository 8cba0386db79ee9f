// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containers/network"
)

// ownNetwork runs a test in a temporary network namespace, so that it does not
// change the host's. It reports whether the test runs there.
func ownNetwork(t *testing.T) bool {
	t.Helper()
	requireRoot(t)
	if os.Getenv(nested) != "" {
		return true
	}
	runNested(t, unix.CLONE_NEWNET)
	return false
}

func forwarding(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestContainersReachTheHostAndEachOther(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	b := newLab(t)
	n := Network{Name: "net", Address: netip.MustParsePrefix("172.31.99.1/24")}
	for range 2 { // the second call finds it
		if err := b.EnsureNetwork(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	if got := forwarding(t); got != "1" {
		t.Errorf("forwarding is %s", got)
	}
	listener, err := net.Listen("tcp", "172.31.99.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go echo(listener, "host")
	for name, address := range map[string]string{"one": "172.31.99.11/24", "two": "172.31.99.12/24"} {
		s := b.spec(name, "serve", ":8000", name)
		s.Network = &Attachment{Network: "net", Address: netip.MustParsePrefix(address), Gateway: netip.MustParseAddr("172.31.99.1")}
		b.start(s)
		b.awaitConsole(name, "serves")
	}
	for what, tc := range map[string]struct{ at, want string }{
		"the host":          {listener.Addr().String(), "host"},
		"another container": {"172.31.99.12:8000", "two"},
	} {
		if got, code := b.run("one", "dial", tc.at); got != tc.want || code != 0 {
			t.Errorf("%s: got %q, %d, want %q", what, got, code, tc.want)
		}
	}
	conn, err := net.DialTimeout("tcp", "172.31.99.11:8000", 10*time.Second)
	if err != nil {
		t.Fatalf("the host does not reach a container: %v", err)
	}
	_ = conn.Close()

	if err := b.RemoveNetwork(t.Context(), "net"); !errors.Is(err, ErrNetworkInUse) {
		t.Errorf("got %v", err)
	}
	b.removeContainers()
	if err := b.RemoveNetwork(t.Context(), "net"); err != nil {
		t.Error(err)
	}
	if got := forwarding(t); got != "0" {
		t.Errorf("forwarding is still %s", got)
	}
	if got := leftLinks(t, b.names); got != "" {
		t.Errorf("left: %s", got)
	}
}

func TestANetworkDoesNotTakeAddressesThatAreInUse(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	b := newLab(t)
	one := Network{Name: "one", Address: netip.MustParsePrefix("172.31.98.1/24")}
	if err := b.EnsureNetwork(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	two := Network{Name: "two", Address: netip.MustParsePrefix("172.31.98.129/25")}
	err := b.EnsureNetwork(t.Context(), two)
	if err == nil || !strings.Contains(err.Error(), "choose other addresses") {
		t.Errorf("got %v", err)
	}
	if all, err := b.Networks(); err != nil || len(all) != 1 || all[0] != one {
		t.Errorf("got %v, %v", all, err)
	}
	one.MTU = 1400
	if err := b.EnsureNetwork(t.Context(), one); err == nil || !strings.Contains(err.Error(), "remove it first") {
		t.Errorf("got %v", err)
	}
	if err := b.RemoveNetwork(t.Context(), "one"); err != nil {
		t.Error(err)
	}
}

func TestTheLastFolderPutsForwardingBack(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	one, two := newLab(t), newLab(t)
	for b, address := range map[*lab]string{one: "172.31.97.1/24", two: "172.31.96.1/24"} {
		if err := b.EnsureNetwork(t.Context(), Network{Name: "net", Address: netip.MustParsePrefix(address)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.RemoveNetwork(t.Context(), "net"); err != nil || forwarding(t) != "1" {
		t.Errorf("got %v, forwarding %s: the other folder needs it", err, forwarding(t))
	}
	if err := two.RemoveNetwork(t.Context(), "net"); err != nil || forwarding(t) != "0" {
		t.Errorf("got %v, forwarding %s", err, forwarding(t))
	}
}

// leftLinks returns the links and tables that carry the identity of a folder.
func leftLinks(t *testing.T, n network.Names) string {
	t.Helper()
	containers, bridges, err := n.Links()
	tables, terr := n.Tables()
	if err := errors.Join(err, terr); err != nil {
		t.Fatal(err)
	}
	return strings.Join(append(append(containers, bridges...), tables...), " ")
}

// runNested runs a test again in another process with separate namespaces, and
// fails if it failed there.
func runNested(t *testing.T, namespaces uintptr) {
	t.Helper()
	cmd := nestedTest(t, "yes")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}
