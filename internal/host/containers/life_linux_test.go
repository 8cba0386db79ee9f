// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
)

// is waits until a container has a state.
func (b *lab) is(name string, want State, boots int) Status {
	b.t.Helper()
	var got Status
	b.await(func() (err error) {
		got, err = b.Inspect(name)
		if err == nil && (got.State != want || got.Boots != boots) {
			err = fmt.Errorf("%s after %d boots, want %s after %d: %s", got.State, got.Boots, want, boots, got.Message)
		}
		return err
	})
	return got
}

func TestAContainerIsCreatedRunsAndIsRemoved(t *testing.T) {
	b := newLab(t)
	s := b.spec("one", "wait", "hello")
	if err := b.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b.is("one", Created, 0)
	b.start(s) // creating it again changes nothing
	if err := b.Start(t.Context(), "one"); err != nil {
		t.Errorf("started another time: %v", err)
	}
	if got := b.is("one", Running, 1); got.PID == 0 || got.Started.IsZero() || got.Spec.Name != "one" {
		t.Errorf("got %+v", got)
	}
	b.awaitConsole("one", "hello\n")
	if err := b.Stop(t.Context(), "one", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if got := b.is("one", Stopped, 1); got.ExitCode != 0 || got.Message != "" || got.Ended.IsZero() || got.PID != 0 {
		t.Errorf("got %+v", got)
	}
	if err := b.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.is("one", Running, 1)
	for range 2 { // the second time there is none
		if err := b.Remove(t.Context(), "one"); err != nil {
			t.Error(err)
		}
	}
	if _, err := b.Inspect("one"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestAContainerThatDoesNotStopIsEnded(t *testing.T) {
	b := newLab(t)
	b.start(b.spec("one", "stay"))
	b.awaitConsole("one", "stays")
	if err := b.Stop(t.Context(), "one", 50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if got := b.is("one", Stopped, 1); got.ExitCode != 128+9 {
		t.Errorf("got %+v", got)
	}
}

func TestAnotherSpecIsRefused(t *testing.T) {
	b := newLab(t)
	if err := b.Create(t.Context(), b.spec("one", "wait")); err != nil {
		t.Fatal(err)
	}
	if err := b.Create(t.Context(), b.spec("one", "stay")); !errors.Is(err, ErrExists) {
		t.Errorf("got %v", err)
	}
}

func TestContainerExitIsReportedAndCleanedUp(t *testing.T) {
	b := newLab(t)
	changes := b.Changes(t.Context())
	b.start(b.spec("one", "cat", "/nothing"))
	b.await(func() error {
		select {
		case <-changes:
		default:
		}
		got, err := b.Inspect("one")
		if err == nil && got.State != Stopped {
			err = errors.New(string(got.State))
		}
		return err
	})
	if got := b.is("one", Stopped, 1); got.ExitCode != 1 || got.Message != "its first process returned 1" {
		t.Errorf("got %+v", got)
	}
	b.await(func() error { // after it was reported
		for _, dir := range b.groups.Dirs(groupBase(b.identity)) {
			if _, err := os.Stat(dir); err == nil {
				return fmt.Errorf("%s is left", dir)
			}
		}
		return nil
	})
}

func TestAContainerThatRebootsBeginsAgain(t *testing.T) {
	b := newLab(t)
	b.start(b.spec("one", "reboot"))
	b.awaitConsole("one", "again\n")
	b.is("one", Running, 2)
}

func TestWhatAContainerWritesIsItsOwnAndStays(t *testing.T) {
	b := newLab(t)
	for _, name := range []string{"one", "two"} {
		b.start(b.spec(name, "wait"))
	}
	if got, code := b.run("one", "write", "/mine", "x"); code != 0 {
		t.Fatal(got)
	}
	if _, code := b.run("two", "cat", "/mine"); code == 0 {
		t.Error("another container sees it")
	}
	if _, err := os.Stat(filepath.Join(b.root, "mine")); err == nil {
		t.Error("it is in the layer that all share")
	}
	if err := errors.Join(b.Stop(t.Context(), "one", time.Second), b.Start(t.Context(), "one")); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.run("one", "cat", "/mine"); got != "x" {
		t.Errorf("after a start it reads %q", got)
	}
}

func TestMountsAreSeenAndGuarded(t *testing.T) {
	b := newLab(t)
	folder, file := t.TempDir(), filepath.Join(t.TempDir(), "file,with:marks")
	if err := errors.Join(os.WriteFile(file, []byte("content"), 0o600), os.Mkdir(filepath.Join(b.root, "etc"), 0o755), os.Symlink("/etc", filepath.Join(b.root, "link"))); err != nil {
		t.Fatal(err)
	}
	s := b.spec("one", "wait")
	s.Mounts = append(s.Mounts, Mount{Source: folder, Target: "/data"}, Mount{Source: file, Target: "/link/deep/file"}, Mount{Source: folder, Target: "/data2", ReadOnly: true})
	b.start(s)
	if got, code := b.run("one", "write", "/data/new", "x"); code != 0 {
		t.Error(got)
	}
	if text, err := os.ReadFile(filepath.Join(folder, "new")); err != nil || string(text) != "x" {
		t.Errorf("the host reads %q, %v", text, err)
	}
	if got, _ := b.run("one", "cat", "/etc/deep/file"); got != "content" {
		t.Errorf("got %q", got)
	}
	if got, code := b.run("one", "write", "/data2/new", "y"); code == 0 || !strings.Contains(got, "read-only") {
		t.Errorf("got %q", got)
	}
	if _, err := os.Stat("/etc/deep"); err == nil {
		t.Error("a link led out of the root")
	}
}

func TestAStartSaysWhatIsMissing(t *testing.T) {
	b := newLab(t)
	for want, change := range map[string]func(*Spec){
		"Root[0]: stat /nothing":                 func(s *Spec) { s.Root = []string{"/nothing"} },
		"Mounts[0].Source: stat /nothing":        func(s *Spec) { s.Mounts = []Mount{{Source: "/nothing", Target: "/x"}} },
		"exec /none: the image has no such file": func(s *Spec) { s.Args = []string{"/none"} },
		"which EnsureNetwork makes":              func(s *Spec) { s.Network = attachment() },
	} {
		s := b.spec("one", "wait")
		change(&s)
		if err := b.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		err := b.Start(t.Context(), "one")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		b.removeContainers()
		b.nothingLeft()
	}
}

func TestAFileIsReadAsTheContainerSeesIt(t *testing.T) {
	b := newLab(t)
	secret := filepath.Join(t.TempDir(), "secret")
	err := errors.Join(
		os.WriteFile(secret, []byte("host"), 0o600),
		os.Symlink(secret, filepath.Join(b.root, "absolute")),
		os.Symlink("../../../../../../.."+secret, filepath.Join(b.root, "dots")),
		os.WriteFile(filepath.Join(b.root, "real"), []byte("content"), 0o600),
		os.Symlink("/real", filepath.Join(b.root, "inside")),
		unix.Mkfifo(filepath.Join(b.root, "pipe"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	b.start(b.spec("one", "wait"))
	for path, want := range map[string]string{"/real": "content", "/inside": "content", "/absolute": "no such file", "/dots": "no such file", "/pipe": "no regular file", "/proc/1/root/real": "many levels"} {
		got, err := b.ReadFile("one", path, 7)
		if err != nil {
			got = []byte(err.Error())
		}
		if !strings.Contains(string(got), want) {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if _, err := b.ReadFile("one", "/real", 6); err == nil || !strings.Contains(err.Error(), "more than 6 bytes") {
		t.Errorf("got %v", err)
	}
}

func TestAFileIsAwaited(t *testing.T) {
	b := newLab(t)
	if err := b.Create(t.Context(), b.spec("one", "wait")); err != nil {
		t.Fatal(err)
	}
	told, err := b.Watch(t.Context(), "one", "/run/deep/down/file")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	for round := range 2 { // each start has a new /run
		select {
		case <-told:
			t.Errorf("round %d: told before it was there", round)
		default:
		}
		if got, code := b.run("one", "deep", "/run/deep/down/file"); code != 0 {
			t.Fatal(got)
		}
		select {
		case <-told:
		case <-time.After(20 * time.Second):
			t.Fatalf("round %d: not told", round)
		}
		if err := errors.Join(b.Stop(t.Context(), "one", time.Second), b.Start(t.Context(), "one")); err != nil {
			t.Fatal(err)
		}
		for len(told) > 0 { // it was reported twice
			<-told
		}
	}
}

func TestTheConsoleKeepsTheNewest(t *testing.T) {
	b := newLab(t)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := Open(b.dir, Options{ConsoleBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	b.Launcher = l
	b.start(b.spec("one", "lines", "10000"))
	b.is("one", Stopped, 1)
	text, err := os.ReadFile(filepath.Join(b.folder("one"), supervisor.OlderFile))
	newer, nerr := os.ReadFile(filepath.Join(b.folder("one"), supervisor.ConsoleFile))
	if text = append(text, newer...); errors.Join(err, nerr) != nil || len(text) > 4096 || len(text) < 1024 || !strings.HasSuffix(string(text), "line 9999\n") {
		t.Errorf("%d bytes, end %q, %v", len(text), text[max(0, len(text)-20):], err)
	}
}

// TestShadowsAreReadableRegardlessOfUmask: services of a machine have users of their own.
func TestShadowsAreReadableRegardlessOfUmask(t *testing.T) {
	b := newLab(t)
	defer syscall.Umask(syscall.Umask(0o077))
	s := b.spec("one", "wait")
	s.Shadows = map[string][]byte{"/proc/meminfo": []byte("mine\n")}
	if err := b.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(b.folder("one"), shadowsDir, "0")); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
}

func TestContainersComeAndGoTogether(t *testing.T) {
	b := newLab(t)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			name := fmt.Sprintf("c%d", i)
			for range 3 { // the first may start while the last ends
				err := errors.Join(b.Create(t.Context(), b.spec(name, "wait")), b.Start(t.Context(), name), b.Remove(t.Context(), name))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.nothingLeft()
}

func attachment() *Attachment {
	return &Attachment{Network: "none", Address: netip.MustParsePrefix("172.31.95.2/24")}
}
