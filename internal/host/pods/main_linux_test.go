// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// probe is the path of the program that runs in sandboxes. Tests that need it are skipped
// where it is empty.
var probe = os.Getenv(rootlessVariable)

const (
	// rootlessVariable names the program that "make test-programs" built.
	rootlessVariable = "CAPSTAN_TEST_PODS_PROBE"
	// plainUser has no rights.
	plainUser = 65534
)

// needProbe skips a test where the program is not built.
func needProbe(t testing.TB) {
	t.Helper()
	if probe == "" {
		t.Skipf("runs sandboxes: run it with make test-e2e (%s is not set)", rootlessVariable)
	}
}

// TestAsPlainUser runs all tests of sandboxes again as a user without privileges.
func TestAsPlainUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the tests themselves run as a plain user")
	}
	needProbe(t)
	dir, err := os.MkdirTemp("", "capstan-pods-plain-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, plainUser, plainUser)); err != nil {
		t.Fatal(err)
	}
	// The plain user owns a copy, as after a manual installation.
	self := filepath.Join(dir, "pods.test")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(atomicfile.WriteProgram(self, b), os.Chown(self, plainUser, plainUser))
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v=" + fmt.Sprint(testing.Verbose()), "-test.timeout=8m"}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir = dir
	cmd.Env = []string{rootlessVariable + "=" + probe, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plainUser, Gid: plainUser}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as user %d: %v\n%s", plainUser, err, out)
	}
	t.Logf("%s", out)
}

// open opens a Host and checks at the end that nothing is left of it.
func open(t testing.TB, o Options) *Host {
	t.Helper()
	needProbe(t)
	h, err := Open(filepath.Join(t.TempDir(), "state"), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		if h.rootless {
			return
		}
		for _, dir := range h.groups.Dirs(h.group) {
			if _, err := os.Stat(dir); err == nil {
				t.Errorf("%s is left", dir)
			}
		}
	})
	return h
}

var address = netip.MustParseAddr("10.244.0.7")

func start(t testing.TB, h *Host, change ...func(*Spec)) *Sandbox {
	t.Helper()
	s := Spec{Name: "default_test_1", Hostname: "test", Address: address, Resolv: []byte("nameserver 10.96.0.10\n"), Hosts: []byte("127.0.0.1 localhost\n10.244.0.7 test\n")}
	for _, c := range change {
		c(&s)
	}
	b, err := h.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// container runs the probe in a separate root.
func container(t testing.TB, args ...string) Container {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(probe)
	if err == nil {
		err = atomicfile.WriteProgram(filepath.Join(root, "bin", "probe"), b)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Container{Name: "c", Root: root, Args: append([]string{"probe"}, args...), Env: []string{"PATH=/bin", "A=b"}, User: 65532, Group: 65532}
}

// outcome runs a container until it exits.
func outcome(t testing.TB, s *Sandbox, c Container) (stdout, stderr string, e Exit) {
	t.Helper()
	p, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	e = p.Wait()
	return all(t, p.Stdout()), all(t, p.Stderr()), e
}

func all(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// command runs the probe through Exec.
func command(t testing.TB, s *Sandbox, args ...string) (string, int) {
	t.Helper()
	var out, failed bytes.Buffer
	code, err := s.Exec(t.Context(), "c", append([]string{"/bin/probe"}, args...), Streams{Stdout: &out, Stderr: &failed})
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + failed.String(), code
}

// until waits for a line.
func until(t testing.TB, r io.Reader, want string) {
	t.Helper()
	// A blocked reader must fail this test, not all tests.
	if c, ok := r.(io.Closer); ok {
		defer time.AfterFunc(30*time.Second, func() { _ = c.Close() }).Stop()
	}
	var got []byte
	for b := make([]byte, 1); !strings.Contains(string(got), want); {
		if _, err := r.Read(b); err != nil {
			t.Fatalf("got %q, want %q: %v", got, want, err)
		}
		got = append(got, b[0])
	}
}

// soon returns a context with a time limit for what must happen.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	return ctx
}
