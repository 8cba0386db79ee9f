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
)

// probe is the program that runs in sandboxes; rootlessVariable tells its path to
// the tests that run again as a plain user.
var probe string

const (
	rootlessVariable = "CAPSTAN_TEST_PODS_PROBE"
	// nobody is the plain user.
	nobody = 65534
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	probe = os.Getenv(rootlessVariable)
	if probe != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "capstan-pods-")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // it is a temporary folder
	probe = filepath.Join(dir, "probe")
	build := exec.Command("go", "build", "-o", probe, "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the program of the tests: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// TestAsPlainUser runs all tests of sandboxes again as a user without rights.
func TestAsPlainUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("these are they")
	}
	dir, err := os.MkdirTemp("", "capstan-pods-plain-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	// Its own copy is the plain user's, as after an installation by hand.
	self := filepath.Join(dir, "pods.test")
	b, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = errors.Join(os.WriteFile(self, b, 0o755), os.Chown(self, nobody, nobody))
	}
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-test.v=" + fmt.Sprint(testing.Verbose()), "-test.timeout=8m"}
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Dir = dir
	cmd.Env = []string{rootlessVariable + "=" + probe, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("as user %d: %v\n%s", nobody, err, out)
	}
	t.Logf("%s", out)
}

// open opens a Host and checks in the end that nothing is left of it.
func open(t testing.TB, o Options) *Host {
	t.Helper()
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

// container runs the probe in a root of its own.
func container(t testing.TB, args ...string) Container {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(probe)
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "bin", "probe"), b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return Container{Name: "c", Root: root, Args: append([]string{"probe"}, args...), Env: []string{"PATH=/bin", "A=b"}, User: 65532, Group: 65532}
}

// outcome runs a container to its end.
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

// command runs the probe by Exec.
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
	// A reader that hangs is the failure of the test, not of all tests.
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

// soon gives what must happen a time.
func soon(t testing.TB) context.Context {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	return ctx
}
