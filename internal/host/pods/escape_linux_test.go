// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNothingOfTheHostIsReached runs the attempts of testdata/probe/escape.go in a
// Pod, while their targets exist on the host.
func TestNothingOfTheHostIsReached(t *testing.T) {
	h := open(t, Options{Network: &outside{}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	abstract := fmt.Sprintf("capstan-test-%d", os.Getpid())
	socket, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	plane, err := net.Listen("unix", filepath.Join(filepath.Dir(file), "plane.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = plane.Close() }()
	neighbour := start(t, h, func(s *Spec) { s.Name, s.Address = "default_other_2", netip.MustParseAddr("10.244.0.8") })
	p, err := neighbour.Run(t.Context(), container(t, "serve", ":9443"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "listening\n")
	for _, user := range []int64{65532, 0} {
		t.Run(fmt.Sprintf("as user %d", user), func(t *testing.T) {
			s := start(t, h, func(s *Spec) { s.Name = fmt.Sprint("default_test_", user) })
			c := container(t, "escape", listener.Addr().String(), abstract, file, fmt.Sprint(os.Getpid()))
			c.Env, c.User, c.Group = append(c.Env, "CAPSTAN_TEST_ESCAPE=this Pod"), user, user
			c.Mounts = []Mount{{Tmpfs: true, Target: "/tmp"}}
			out, failed, e := outcome(t, s, c)
			if e.Code != 0 || strings.Contains(out, "ESCAPED") || !strings.Contains(out, ", escaped 0\n") {
				t.Errorf("got %+v:\n%s%s", e, out, failed)
			}
			t.Log(out)
		})
	}
}

// TestAttemptsAreMadeInAPodAlone: outside a Pod they would affect the host.
func TestAttemptsAreMadeInAPodAlone(t *testing.T) {
	needProbe(t)
	cmd := exec.CommandContext(t.Context(), probe, "escape", "x", "x", "x", "x")
	cmd.Env = []string{"CAPSTAN_TEST_ESCAPE=this Pod"}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "refused") {
		t.Errorf("got %v: %s", err, out)
	}
	out, failed, _ := outcome(t, start(t, open(t, Options{})), container(t, "escape", "x", "x", "x", "x"))
	if !strings.Contains(failed, "refused") {
		t.Errorf("unasked: got %q %q", out, failed)
	}
}
