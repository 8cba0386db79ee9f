// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
)

// crash ends this process as a crash would.
func crash() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	<-time.After(time.Hour) // without a timer, Go may report a deadlock
}

// otherProcess returns the launcher of a process that will soon crash. The
// environment has its folder, its root and the step at which it crashes.
func otherProcess(t *testing.T) (b *lab, step string) {
	t.Helper()
	parts := strings.SplitN(os.Getenv(nested), "|", 4)
	b = &lab{t: t, dir: parts[1], root: parts[2]}
	b.open()
	return b, parts[3]
}

func (b *lab) other(step string) string { return "other|" + b.dir + "|" + b.root + "|" + step }

func isOther() bool { return strings.HasPrefix(os.Getenv(nested), "other|") }

func TestAContainerOutlivesWhoStartedIt(t *testing.T) {
	requireRoot(t)
	if isOther() {
		b, _ := otherProcess(t)
		b.start(b.spec("one", "wait", "hello"))
		crash()
	}
	b := newLab(t)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := nestedTest(t, b.other("")).CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("%v:\n%s", err, out)
	}
	b.open()
	if err := b.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	b.is("one", Running, 1)
	b.awaitConsole("one", "hello\n")
	if got, code := b.run("one", "cat", "/proc/sys/kernel/hostname"); got != "one\n" || code != 0 {
		t.Errorf("got %q, %d", got, code)
	}
	changes := b.Changes(t.Context())
	if err := b.Stop(t.Context(), "one", 10*time.Second); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-changes:
		if got != "one" {
			t.Errorf("reported %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("its end was not reported")
	}
}

func TestWhereverItIsKilledNothingIsLeft(t *testing.T) {
	if isOther() {
		b, step := otherProcess(t)
		b.reached = func(at string) {
			if at == step {
				crash()
			}
		}
		ctx := t.Context()
		s := b.spec("one", "wait")
		s.Network = &Attachment{Network: "net", Address: netip.MustParsePrefix("172.31.94.2/24")}
		err := errors.Join(
			b.EnsureNetwork(ctx, Network{Name: "net", Address: netip.MustParsePrefix("172.31.94.1/24")}),
			b.Create(ctx, s), b.Start(ctx, "one"), b.Remove(ctx, "one"), b.RemoveNetwork(ctx, "net"),
		)
		t.Fatalf("it never reached %s: %v", step, err)
	}
	if !ownNetwork(t) {
		return
	}
	b := newLab(t)
	for _, step := range []string{
		"network noted", "bridge made", "folder made", "spec written", "folder renamed", "supervisor started",
		"supervisor moved", "groups made", "plan given", "tidied", "folder put aside", "bridge removed",
	} {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if out, err := nestedTest(t, b.other(step)).CombinedOutput(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("%s: %v:\n%s", step, err, out)
		}
		b.open()
		if err := b.Sweep(t.Context()); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		all, err := b.List()
		if err != nil {
			t.Errorf("%s: %v", step, err)
		}
		for _, s := range all { // the existing containers work
			if err := b.EnsureNetwork(t.Context(), Network{Name: "net", Address: netip.MustParsePrefix("172.31.94.1/24")}); err != nil {
				t.Errorf("%s: %v", step, err)
			}
			if err := b.Start(t.Context(), s.Spec.Name); err != nil {
				t.Errorf("%s: %v", step, err)
			}
			b.is(s.Spec.Name, Running, 1)
		}
		b.removeContainers()
		if err := b.RemoveNetwork(t.Context(), "net"); err != nil {
			t.Errorf("%s: %v", step, err)
		}
		b.nothingLeft()
		if got := forwarding(t); got != "0" {
			t.Errorf("%s: forwarding is %s", step, got)
		}
	}
}

func TestAContainerGoesWithItsSupervisor(t *testing.T) {
	b := newLab(t)
	b.start(b.spec("one", "stay"))
	first := b.is("one", Running, 1).PID
	pids, err := cgroups.Processes(b.groups.Dirs(filepath.Join(b.group("one"), cgroups.Supervisor))[0])
	if err != nil || len(pids) != 1 {
		t.Fatalf("supervisors: %v, %v", pids, err)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := b.is("one", Stopped, 1); got.Message != "its supervisor was ended, and it with it" {
		t.Errorf("got %+v", got)
	}
	b.await(func() error {
		if err := syscall.Kill(first, 0); !errors.Is(err, syscall.ESRCH) {
			return errors.New("its first process is there")
		}
		return nil
	})
}

func TestASweepEndsWhatHasLostItsFolder(t *testing.T) {
	b := newLab(t)
	b.start(b.spec("one", "stay"))
	if err := os.RemoveAll(b.folder("one")); err != nil {
		t.Fatal(err)
	}
	if err := b.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.nothingLeft()
}

func TestAFolderIsOpenOnce(t *testing.T) {
	b := newLab(t)
	if _, err := Open(b.dir, Options{}); err == nil {
		t.Error("it was opened twice")
	} else if held, ok := errors.AsType[*HeldError](err); !ok || held.Dir != b.dir {
		t.Errorf("got %v", err)
	}
}

func TestLimitsAreSet(t *testing.T) {
	b := newLab(t)
	s := b.spec("one", "stay")
	s.Memory, s.MilliCPU = 64<<20, 500
	b.start(s)
	limits := b.groups.Settings(b.group("one")+"/"+cgroups.Container, cgroups.Limits{Memory: s.Memory, MilliCPU: s.MilliCPU})
	if len(limits) < 2 {
		t.Fatalf("the host has no controllers for limits: %v", limits)
	}
	for _, want := range limits {
		if text, err := os.ReadFile(want.File); err != nil || strings.TrimSpace(string(text)) != want.Value {
			t.Errorf("%s has %q, %v, want %s", want.File, text, err, want.Value)
		}
	}
	// The kernel kills the process that exceeds the limit, and the container
	// continues.
	if got, code := b.run("one", "eat", "128"); code != 128+9 {
		t.Errorf("got %q, %d", got, code)
	}
	b.is("one", Running, 1)
}

// TestOnVersion2 runs a container where only version 2 of control groups is
// mounted, with the controllers that the host's version 1 does not use.
func TestOnVersion2(t *testing.T) {
	requireRoot(t)
	if os.Getenv(nested) == "" {
		runNested(t, unix.CLONE_NEWNS)
		return
	}
	b := newUnifiedLab(t)
	b.start(b.spec("one", "wait"))
	if got, code := b.run("one", "cat", "/proc/self/cgroup"); code != 0 || !strings.Contains(got, "0::/\n") {
		t.Errorf("got %q, %d", got, code)
	}
	if got, code := b.run("one", "cat", "/sys/fs/cgroup/cgroup.procs"); code != 0 || !strings.HasPrefix(got, "1\n") {
		t.Errorf("got %q, %d", got, code)
	}
	// It has all controllers that the host has, so that it can delegate them.
	have, err := os.ReadFile(filepath.Join(cgroups.Mountpoint, "cgroup.controllers"))
	if err != nil {
		t.Fatal(err)
	}
	if got, code := b.run("one", "cat", "/sys/fs/cgroup/cgroup.controllers"); code != 0 || got != string(have) {
		t.Errorf("its controllers are %q, %d, want %q", got, code, have)
	}
	if err := b.Stop(t.Context(), "one", 10*time.Second); err != nil {
		t.Error(err)
	}
	// A limit that the host cannot set is reported, and nothing runs without its
	// limit.
	if !strings.Contains(string(have), "memory") {
		s := b.spec("two", "wait")
		s.Memory = 64 << 20
		if err := b.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := b.Start(t.Context(), "two"); err == nil || !strings.Contains(err.Error(), "it has no controller memory") {
			t.Errorf("got %v", err)
		}
	}
}

// newUnifiedLab returns a lab in a mount namespace that has only version 2.
func newUnifiedLab(t *testing.T) *lab {
	t.Helper()
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("cgroup2", cgroups.Mountpoint, "cgroup2", 0, ""))
	if err != nil {
		t.Fatal(err)
	}
	b := newLab(t)
	if !b.groups.Unified {
		t.Fatalf("got %+v", b.groups)
	}
	return b
}

// TestASupervisorMayBeKilledAtAnyMoment kills it at increasingly late moments while
// it starts a container: in each case the container can be removed without a trace.
func TestASupervisorMayBeKilledAtAnyMoment(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	b := newLab(t)
	if err := b.EnsureNetwork(t.Context(), Network{Name: "net", Address: netip.MustParsePrefix("172.31.92.1/24")}); err != nil {
		t.Fatal(err)
	}
	s := b.spec("one", "wait")
	s.Network = &Attachment{Network: "net", Address: netip.MustParsePrefix("172.31.92.2/24")}
	began := 0
	for delay := time.Duration(0); delay < 90*time.Millisecond; delay += 6 * time.Millisecond {
		killed := make(chan struct{})
		b.reached = func(step string) {
			if step != "plan given" {
				return
			}
			time.AfterFunc(delay, func() {
				defer close(killed)
				pids, _ := cgroups.Processes(b.groups.Dirs(filepath.Join(b.group("one"), cgroups.Supervisor))[0]) // none is fine
				for _, pid := range pids {
					_ = syscall.Kill(pid, syscall.SIGKILL)
				}
			})
		}
		if err := b.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		err := b.Start(t.Context(), "one")
		if err == nil {
			began++
		} else if !strings.Contains(err.Error(), "its supervisor") {
			t.Errorf("after %s: %v", delay, err)
		}
		<-killed
		b.await(func() error { // Created, if it had not reported yet that it is running
			got, err := b.Inspect("one")
			if err == nil && got.State != Stopped && got.State != Created {
				err = errors.New(string(got.State))
			}
			return err
		})
		b.reached = func(string) {}
		if err := b.Remove(t.Context(), "one"); err != nil {
			t.Errorf("after %s: %v", delay, err)
		}
		containers, _, err := b.names.Links()
		if err != nil || len(containers) > 0 {
			t.Errorf("after %s: left %v, %v", delay, containers, err)
		}
	}
	t.Logf("%d had started", began)
}
