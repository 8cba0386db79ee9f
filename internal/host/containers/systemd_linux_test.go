// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// debian names the root of a Debian with systemd, as created by mmdebstrap.
const debian = "CAPSTAN_TEST_DEBIAN"

// systemd returns a container that runs it.
func (b *lab) systemd(name, root string) Spec {
	const rtmin3 = 37 // makes it power off
	return Spec{
		Name: name, Root: []string{root}, Args: []string{"/sbin/init", "--log-target=console"},
		Env: []string{"container=capstan"}, StopSignal: rtmin3,
	}
}

// up waits until systemd has started all its units.
func (b *lab) up(name string) {
	b.t.Helper()
	b.await(func() error {
		var out bytes.Buffer
		_, err := b.Exec(b.t.Context(), name, []string{"systemctl", "is-system-running"}, Streams{Out: &out, Err: &out})
		if got := strings.TrimSpace(out.String()); err == nil && got != "running" && got != "degraded" {
			err = errors.New(got)
		}
		return err
	})
}

func TestSystemdBootsRebootsAndPowersOff(t *testing.T) {
	root := os.Getenv(debian)
	if root == "" {
		t.Skip("set " + debian + " to the root of a Debian with systemd")
	}
	b := newLab(t)
	b.start(b.systemd("one", root))
	b.up("one")
	var failed bytes.Buffer
	if _, err := b.Exec(t.Context(), "one", []string{"systemctl", "--failed", "--no-legend"}, Streams{Out: &failed}); err != nil || failed.Len() > 0 {
		t.Errorf("failed units: %s, %v", failed.String(), err)
	}
	if _, err := b.Exec(t.Context(), "one", []string{"systemctl", "reboot"}, Streams{}); err != nil && !errors.Is(err, ErrNotRunning) {
		t.Fatal(err)
	}
	b.await(func() error {
		got, err := b.Inspect("one")
		if err == nil && (got.State != Running || got.Boots != 2) {
			err = errors.New(string(got.State))
		}
		return err
	})
	b.up("one")
	if err := b.Stop(t.Context(), "one", time.Minute); err != nil {
		t.Fatal(err)
	}
	got, err := b.Inspect("one")
	if err != nil || got.State != Stopped || got.ExitCode != 0 || got.Message != "" {
		t.Errorf("got %+v, %v", got, err)
	}
	b.awaitConsole("one", "Halting system.")
}

// nest runs a container where systemd manages the control groups, and prints its
// group while it runs, and what is left of it afterwards.
func nest() error {
	ctx := context.Background()
	l, err := Open("/run/nest", Options{})
	if err != nil {
		return err
	}
	spec := Spec{Name: "in", Root: []string{"/run/layer"}, Args: []string{"/usr/bin/sleep", "infinity"}}
	for _, dir := range []string{"/usr", "/lib", "/lib64"} {
		spec.Mounts = append(spec.Mounts, Mount{Source: dir, Target: dir, ReadOnly: true})
	}
	if err := errors.Join(os.Mkdir("/run/layer", 0o755), l.Create(ctx, spec), l.Start(ctx, "in")); err != nil {
		return err
	}
	status, err := l.Inspect("in")
	if err != nil {
		return err
	}
	group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", status.PID))
	fmt.Println(status.State)
	fmt.Print(strings.ReplaceAll(string(group), l.identity, "ID"))
	if err := errors.Join(err, l.Sweep(ctx), l.Remove(ctx, "in")); err != nil {
		return err
	}
	left, err := l.ownGroups()
	fmt.Println("left", left)
	return errors.Join(err, l.Close())
}

// TestSystemdOfTheHostGivesTheGroups uses a container with systemd as the host.
func TestSystemdOfTheHostGivesTheGroups(t *testing.T) {
	requireRoot(t)
	root := os.Getenv(debian)
	if root == "" {
		t.Skip("set " + debian + " to the root of a Debian with systemd")
	}
	if os.Getenv(nested) == "" {
		runNested(t, unix.CLONE_NEWNS)
		return
	}
	b := newUnifiedLab(t)
	s := b.systemd("one", root)
	s.Mounts = []Mount{{Source: filepath.Join(b.root, program), Target: program, ReadOnly: true}}
	b.start(s)
	b.up("one")
	got, code := b.run("one", "nest")
	const want = "\n0::/capstan.slice/capstan-ID-in.scope/container\nleft []\n" // version 1 is hidden, but exists
	if !strings.HasPrefix(got, "Running\n") || !strings.HasSuffix(got, want) || code != 0 {
		t.Errorf("got %q, %d, want its end to be %q", got, code, want)
	}
}
