// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines/bootresult"
)

// updatable is a host with a machine that is a node, and two images.
func updatable(t *testing.T) *lab {
	t.Helper()
	l := newLab(t)
	l.images.at = t.TempDir()
	for _, dir := range []string{"node", "var/lib/containerd/io.containerd.content.v1.content", "var/lib/containerd/io.containerd.metadata.v1.bolt"} {
		if err := os.MkdirAll(filepath.Join(l.images.at, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.cluster()
	l.machine()
	l.launcher.appears(bootresult.Sentinel, "success")
	if s := l.machine(); s.Stage != localinfra.Done {
		t.Fatalf("stage %s", s.Stage)
	}
	return l
}

// update calls UpdateMachine until it is done or has failed.
func (l *lab) update(version string) error {
	l.t.Helper()
	for {
		p, err := l.UpdateMachine(l.t.Context(), wantMachine(func(m *localinfra.Machine) { m.Version = version }))
		if err != nil || p.Done {
			return err
		}
		if p.Message == "" {
			l.t.Fatalf("progress %+v", p)
		}
		l.mu.Lock()
		m := l.byName[l.container().Spec.Name]
		l.mu.Unlock()
		m.mu.Lock()
		ended := m.update.ended
		m.mu.Unlock()
		<-ended
	}
}

func TestAMachineIsUpdatedOnce(t *testing.T) {
	t.Parallel()
	l := updatable(t)
	if err := l.update("v1.36.3"); err != nil || len(l.launcher.ran()) != 0 {
		t.Errorf("of the version that it has: %v, ran %v", err, l.launcher.ran())
	}
	if err := l.update("v1.37.0"); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(l.launcher.ran(), " "); got != "receive renew" {
		t.Errorf("ran %s", got)
	}
	l.restart()
	l.cluster()
	if err := l.update("v1.37.0"); err != nil || len(l.launcher.ran()) != 2 {
		t.Errorf("asked again by a later process: %v, ran %v", err, l.launcher.ran())
	}
	if name := l.container().Spec.Name; !l.images.used[name] {
		t.Error("the image that its files come from may be removed")
	}
}

func TestAnUpdateThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	l := updatable(t)
	l.launcher.fails("renew", "kubeadm: token abcdef.0123456789abcdef is not known")
	err := l.update("v1.37.0")
	if err == nil || err.Error() != "update container machine ns/m0 to v1.37.0: change Kubernetes in it: exit code 1: kubeadm: token [...] is not known" {
		t.Errorf("error %v", err)
	}
	l.launcher.fails("", "")
	if err := l.update("v1.37.0"); err != nil {
		t.Error(err)
	}
}

func TestAnImageThatIsDamagedEndsTheUpdate(t *testing.T) {
	t.Parallel()
	l := updatable(t)
	if err := os.RemoveAll(filepath.Join(l.images.at, "var")); err != nil {
		t.Fatal(err)
	}
	if err := l.update("v1.37.0"); err == nil || !strings.Contains(err.Error(), "copy Kubernetes to it: read the container images of the node image") {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(l.launcher.ran(), " "); got != "receive" {
		t.Errorf("ran %s", got)
	}
}

func TestWhatCannotBeUpdatedIsRefused(t *testing.T) {
	t.Parallel()
	l := updatable(t)
	if err := l.update("v1.38.0"); err == nil || !strings.Contains(err.Error(), "there is no node image of v1.38.0") {
		t.Errorf("without its image: %v", err)
	}
	other := wantMachine(func(m *localinfra.Machine) { m.Name = "m1" })
	if _, err := l.UpdateMachine(t.Context(), other); !errors.Is(err, localinfra.ErrNotHere) {
		t.Errorf("of a machine that is not there: %v", err)
	}
	other = wantMachine(func(m *localinfra.Machine) { m.Name, m.Version = "m2", "v1.37.0" })
	l.machine(func(m *localinfra.Machine) { m.Name = "m2" })
	if _, err := l.UpdateMachine(t.Context(), other); err == nil || !strings.Contains(err.Error(), "it is no node") {
		t.Errorf("of a machine that is being bootstrapped: %v", err)
	}
}

func TestTheEndOfWhatACommandWroteIsKept(t *testing.T) {
	t.Parallel()
	said := &tail{}
	for range 1000 {
		if _, err := said.Write([]byte("some of many words ")); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = said.Write([]byte("the end"))
	got := said.String()
	if len(got) > lastLines || !strings.HasSuffix(got, "words the end") || strings.HasPrefix(got, " ") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
