// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bootedAs simulates another boot of the host for this process and its children, in
// a separate mount namespace.
func bootedAs(t *testing.T, dir, boot string) {
	t.Helper()
	file := filepath.Join(dir, boot)
	err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), os.WriteFile(file, []byte(boot+"\n"), 0o600),
		unix.Mount(file, "/proc/sys/kernel/random/boot_id", "", unix.MS_BIND, ""),
	)
	if err != nil {
		t.Fatal(err)
	}
}

// TestContainersBeginAgainAfterTheHostDid ends everything of a boot of a host
// except its disk: processes, groups, mounts, links, rules and settings. The next
// boot has another network namespace with another name.
func TestContainersBeginAgainAfterTheHostDid(t *testing.T) {
	requireRoot(t)
	n := Network{Name: "net", Address: netip.MustParsePrefix("172.31.91.1/24")}
	if !isOther() {
		b := newLab(t)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		for _, boot := range []string{"before", "after"} {
			cmd := nestedTest(t, b.other(boot))
			cmd.Env = append(cmd.Env, "CAPSTAN_TEST_BOOT="+b.identity+boot)
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS}
			out, err := cmd.CombinedOutput()
			if died := err != nil && strings.Contains(err.Error(), "killed"); died != (boot == "before") || err != nil && !died {
				t.Fatalf("%s: %v:\n%s", boot, err, out)
			}
			if boot == "before" {
				if err := b.groups.Remove(groupBase(b.identity)); err != nil { // simulates a power failure
					t.Fatal(err)
				}
			}
		}
		left, err := filepath.Glob("/run/capstan/forwarding-" + b.identity + "*")
		if err != nil || len(left) != 1 || !strings.Contains(left[0], "before") {
			t.Errorf("notes about forwarding are %v, %v, want that of the boot that was cut off alone", left, err)
		}
		for _, dir := range left {
			if err := os.RemoveAll(dir); err != nil {
				t.Error(err)
			}
		}
		b.open()
		return
	}
	parts := strings.SplitN(os.Getenv(nested), "|", 4)
	bootedAs(t, parts[2], os.Getenv("CAPSTAN_TEST_BOOT"))
	b, boot := otherProcess(t)
	if boot == "before" {
		if err := b.EnsureNetwork(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		s := b.spec("one", "wait", "in progress")
		s.Network = &Attachment{Network: "net", Address: netip.MustParsePrefix("172.31.91.2/24")}
		b.start(s)
		b.awaitConsole("one", "in progress")
		if got, code := b.run("one", "write", "/mine", "x"); code != 0 {
			t.Fatal(got)
		}
		crash()
	}
	if got := b.is("one", Stopped, 1); got.Message != "the host was started again" || got.PID != 0 {
		t.Errorf("got %+v", got)
	}
	if err := b.Sweep(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.EnsureNetwork(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if err := b.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.is("one", Running, 1)
	if got, code := b.run("one", "cat", "/mine"); got != "x" || code != 0 {
		t.Errorf("what it wrote is %q, %d", got, code)
	}
	if forwarding(t) != "1" {
		t.Error("it does not reach the outside")
	}
	b.removeAll()
	if forwarding(t) != "0" {
		t.Error("forwarding is not as it was")
	}
}

// TestTwoFoldersOfAHostDoNotTouchEachOther uses the same names in both.
func TestTwoFoldersOfAHostDoNotTouchEachOther(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	one, two := newLab(t), newLab(t)
	at := map[*lab]string{one: "172.31.90", two: "172.31.89"}
	for b, prefix := range at {
		if err := b.EnsureNetwork(t.Context(), Network{Name: "net", Address: netip.MustParsePrefix(prefix + ".1/24")}); err != nil {
			t.Fatal(err)
		}
		s := b.spec("same", "serve", ":8000", prefix)
		s.Network = &Attachment{Network: "net", Address: netip.MustParsePrefix(prefix + ".2/24"), Gateway: netip.MustParseAddr(prefix + ".1")}
		b.start(s)
		b.awaitConsole("same", "serves")
	}
	works := func(b *lab) {
		t.Helper()
		b.is("same", Running, 1)
		conn, err := net.DialTimeout("tcp", at[b]+".2:8000", 10*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	for b := range at {
		if err := b.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if all, err := b.List(); err != nil || len(all) != 1 {
			t.Errorf("containers %v, %v, want its own", all, err)
		}
	}
	works(one)
	works(two)
	// No connection is possible from one network to the other, only to destinations
	// that both reach.
	if got, code := one.run("same", "dial", at[two]+".2:8000", "briefly"); code == 0 {
		t.Errorf("a container of another folder answers %q", got)
	}
	one.removeContainers()
	if err := errors.Join(one.RemoveNetwork(t.Context(), "net"), one.Sweep(t.Context())); err != nil {
		t.Error(err)
	}
	works(two)
	if forwarding(t) != "1" {
		t.Error("the other folder needs forwarding")
	}
}

// fill writes a file until its disk is full.
func fill(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0 && err == nil; {
		if _, err = f.Write(bytes.Repeat([]byte("x"), size)); errors.Is(err, unix.ENOSPC) {
			size, err = size/4, nil
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestADiskThatIsFullIsSaidAndLeavesNothing(t *testing.T) {
	requireRoot(t)
	if os.Getenv(nested) == "" {
		runNested(t, unix.CLONE_NEWNS)
		return
	}
	disk := t.TempDir()
	err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before its folder is removed, and after the folder's content
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	b := newLab(t)
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	b.dir = filepath.Join(disk, "containers")
	b.open()
	filler := filepath.Join(b.dir, "filler")
	free := func() {
		t.Helper()
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
	}
	s := b.spec("one", "wait", "in progress")
	fill(t, filler)
	if err := b.Create(t.Context(), s); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("create: got %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(b.dir, containersDir)); err != nil || len(left) > 0 {
		t.Errorf("create left %v, %v", left, err)
	}
	free()
	if err := b.Create(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	fill(t, filler)
	if err := b.Start(t.Context(), "one"); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "write how far it is") {
		t.Errorf("start: got %v", err)
	}
	b.is("one", Created, 0)
	free()
	if err := b.Start(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	b.awaitConsole("one", "in progress")
	fill(t, filler)
	if err := b.Stop(t.Context(), "one", 10*time.Second); err != nil {
		t.Error(err)
	}
	if got := b.is("one", Stopped, 1); got.Ended.IsZero() || got.Message != "" {
		t.Errorf("its end was not noted: %+v", got)
	}
	if err := b.Remove(t.Context(), "one"); err != nil {
		t.Error(err)
	}
}
