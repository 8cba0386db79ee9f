// SPDX-License-Identifier: Apache-2.0

package testenv_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
)

const anyPort = "--listen=127.0.0.1:0"

func startOn(t *testing.T, dir string, flags ...string) *testenv.Process {
	t.Helper()
	p, err := testenv.Up(t, append([]string{"--data-dir=" + dir, anyPort}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// startFails starts a plane on dir and returns why it did not start.
func startFails(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	p, err := testenv.Up(t, append([]string{"--data-dir=" + dir, anyPort}, flags...)...)
	if err == nil {
		p.Kill()
		t.Fatal("the management plane came up")
	}
	return err.Error()
}

func put(t *testing.T, dir, name string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{"kept": name}}
	if err := connect(t, dir).Create(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
}

func kept(t *testing.T, dir, name string) {
	t.Helper()
	var cm corev1.ConfigMap
	err := connect(t, dir).Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &cm)
	if err != nil || cm.Data["kept"] != name {
		t.Errorf("ConfigMap %s holds %v, %v", name, cm.Data, err)
	}
}

func connect(t *testing.T, dir string) client.Client {
	t.Helper()
	env, err := testenv.Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	return env.Client
}

func TestNothingIsLostByAStopOrACrash(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	p := startOn(t, dir)
	put(t, dir, "before-stop")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	p = startOn(t, dir)
	kept(t, dir, "before-stop")
	put(t, dir, "before-crash")
	p.Kill()
	p = startOn(t, dir)
	kept(t, dir, "before-stop")
	kept(t, dir, "before-crash")
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 && !strings.HasPrefix(path, filepath.Join(dir, "etcd")) {
			t.Errorf("%s has mode %v: others may use it", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// stack is the start of a goroutine's trace; its name alone is in messages too.
var stack = regexp.MustCompile(`goroutine [0-9]+ \[`)

func TestAnInterruptDuringTheStartEndsIt(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"starting etcd", "starting the API server", "installing definitions", "starting controllers"} {
		t.Run(stage, func(t *testing.T) {
			t.Parallel()
			testenv.OwnPlanes(t, 1)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			addr, dir := testenv.FreeAddress(t), t.TempDir()
			cmd := exec.CommandContext(ctx, testenv.Binary(t), "up", "--data-dir="+dir, "--listen="+addr)
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			var said string
			for lines := bufio.NewScanner(stderr); lines.Scan(); {
				said += lines.Text() + "\n"
				if lines.Text() != stage {
					continue
				}
				if stage == "starting the API server" { // its hooks are under way when it answers
					testenv.Eventually(t, func() error { return handshake(addr) })
				}
				if err := cmd.Process.Signal(os.Interrupt); err != nil {
					t.Error(err)
				}
				defer time.AfterFunc(testenv.Limit(40*time.Second), cancel).Stop()
			}
			if _ = cmd.Wait(); ctx.Err() != nil {
				t.Errorf("an interrupt after %q did not end the plane", stage)
			}
			// etcd's client may warn of what it was doing, by a logger that is not ours.
			const want = "\ncapstan: stopped before the management plane was ready: interrupted by signal: interrupt\n"
			if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.HasSuffix(said, want) || stack.MatchString(said) {
				t.Errorf("exit status %d, stderr %q: want 130, an end of %q and no stacks", code, said, want)
			}
			log, err := os.ReadFile(datadir.Dir(dir).Log())
			if err != nil || stack.Match(log) {
				t.Errorf("log of %d bytes, %v: want no stacks in it", len(log), err)
			}
		})
	}
}

func handshake(addr string) error {
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return err
	}
	return conn.Close()
}

func TestPlaneStartsInUnusualPath(t *testing.T) {
	t.Parallel()
	for name, folder := range map[string]string{"long": strings.Repeat("long-", 20), "odd": "a, b#c?d%zz"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.OwnPlanes(t, 1)
			dir := filepath.Join(t.TempDir(), folder, "data")
			p := startOn(t, dir)
			put(t, dir, "far")
			if err := p.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestASecondPlaneOnTheDataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	dir := t.TempDir()
	first := startOn(t, dir)
	got := startFails(t, dir)
	h, _, err := datadir.Running(datadir.Dir(dir))
	if err != nil || h.PID != first.PID() {
		t.Errorf("held by %d, %v: want %d", h.PID, err, first.PID())
	}
	if want := "capstan: data directory " + dir + " is held by process "; !strings.Contains(got, want) {
		t.Errorf("error %q, want one with %q", got, want)
	}
	put(t, dir, "unharmed")
}

func TestAPlaneSaysWhyItCannotStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() }) // when the parallel cases are done
	tests := map[string]struct {
		prepare func(t *testing.T, dir string)
		flags   []string
		want    string
	}{
		"the port is taken": {
			flags: []string{"--listen=" + taken.Addr().String()}, want: "address " + taken.Addr().String() + " is taken by another program"},
		"the address is none": {
			flags: []string{"--listen=nonsense"}, want: "address to listen on"},
		"the data directory is a file": {
			prepare: func(t *testing.T, dir string) { replace(t, dir, "not a folder") }, want: "make data directory"},
		"a provider is unknown": {
			flags: []string{"--providers=core,nonsense"}, want: "provider \"nonsense\" is not known"},
		"the log of etcd is damaged": {
			prepare: func(t *testing.T, dir string) { damage(t, dir, "etcd/member/wal/*.wal") }, want: "if its data is damaged, put a copy in its place"},
		"the database of etcd is damaged": {
			prepare: func(t *testing.T, dir string) { damage(t, dir, "etcd/member/snap/db") }, want: "if its data is damaged, put a copy in its place"},
		"a certificate file of the external etcd is missing": {
			flags: []string{"--etcd-servers=https://127.0.0.1:1", "--etcd-cafile=/nowhere/ca.crt"}, want: "read certificates of the external etcd: open /nowhere/ca.crt"},
		"the external etcd does not answer": {
			flags: []string{"--etcd-servers=http://127.0.0.1:1"}, want: "reach etcd at http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"},
		"the address of the external etcd is none": {
			flags: []string{"--etcd-servers=nonsense"}, want: "reach etcd at nonsense: the URL must begin with https://"},
		"the key of the external etcd is forgotten": {
			flags: []string{"--etcd-servers=https://127.0.0.1:1", "--etcd-certfile=/nowhere/c.crt"}, want: "needs both its certificate file and its key file"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testenv.OwnPlanes(t, 1)
			dir := filepath.Join(t.TempDir(), "data")
			if tc.prepare != nil {
				tc.prepare(t, dir)
			}
			if got := startFails(t, dir, tc.flags...); !strings.Contains(got, tc.want) || strings.Contains(got, "goroutine") {
				t.Errorf("error %q, want one with %q", got, tc.want)
			}
		})
	}
}

// damage runs a plane until it has written its data and then overwrites the middle
// of a file.
func damage(t *testing.T, dir, pattern string) {
	t.Helper()
	p := startOn(t, dir)
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no file %s, %v", pattern, err)
	}
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(strings.Repeat("rubbish ", 4<<10)), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func replace(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
