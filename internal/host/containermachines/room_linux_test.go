// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines/bootresult"
	"github.com/capstan-dev/capstan/internal/host/containers"
)

func TestAMachineWaitsUntilTheHostHasRoom(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var asked []int
	full := true
	l.o.Room = func(instances int) error {
		asked = append(asked, instances)
		if full {
			return errors.New("the host has no room: make some")
		}
		return nil
	}
	l.cluster()
	if _, err := l.EnsureMachine(t.Context(), wantMachine()); err == nil || !strings.HasSuffix(err.Error(), "start its container: the host has no room: make some") {
		t.Errorf("on a full host: %v", err)
	}
	if s := l.container().State; s != containers.Created {
		t.Errorf("its container is %s", s)
	}
	full = false
	l.machine()
	if s := l.container().State; s != containers.Running {
		t.Errorf("with room its container is %s", s)
	}
	worker := func(name string) func(*localinfra.Machine) {
		return func(m *localinfra.Machine) { m.Name, m.ControlPlane = name, false }
	}
	l.machine(worker("w1"))
	l.launcher.appears(bootresult.Sentinel, "success")
	l.machine()
	l.machine(worker("w1"))
	l.machine(worker("w2"))
	// The first worker is counted next to the control plane; when the second
	// starts, both have what they need.
	if want := []int{27, 27, 13 + 27, 13}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}
