// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/host/containers/supervisor"
	"github.com/capstan-dev/capstan/internal/host/rootfs"
)

func TestASpecIsValidated(t *testing.T) {
	address := netip.MustParsePrefix("172.30.0.2/24")
	for name, tc := range map[string]struct {
		change func(*Spec)
		want   []string // the invalid fields
	}{
		"right":        {func(*Spec) {}, nil},
		"name":         {func(s *Spec) { s.Name = "A/b" }, []string{"Name"}},
		"no root":      {func(s *Spec) { s.Root = nil }, []string{"Root"}},
		"relative":     {func(s *Spec) { s.Root = []string{"a"}; s.Args = []string{"sh"} }, []string{"Root[0]", "Args"}},
		"mounts":       {func(s *Spec) { s.Mounts = []Mount{{"/a", "/b/../c", false}, {"a", "/", false}} }, []string{"Mounts[0].Target", "Mounts[1].Source", "Mounts[1].Target"}},
		"mounts twice": {func(s *Spec) { s.Mounts = []Mount{{"/a", "/b", false}, {"/c", "/b", true}} }, []string{"Mounts[1].Target"}},
		"shadows":      {func(s *Spec) { s.Shadows = map[string][]byte{"/etc/passwd": nil, "/proc/../etc": nil} }, []string{"Shadows", "Shadows"}},
		"limits":       {func(s *Spec) { s.Memory, s.MilliCPU, s.StopSignal = 1, -1, 65 }, []string{"StopSignal", "Memory", "MilliCPU"}},
		"hostname":     {func(s *Spec) { s.Hostname = strings.Repeat("x", 65) }, []string{"Hostname"}},
		"network":      {func(s *Spec) { s.Network = &Attachment{} }, []string{"Network.Network", "Network.Address"}},
		"neighbours": {func(s *Spec) {
			s.Network = &Attachment{Network: "net", Address: address, Gateway: netip.MustParseAddr("172.31.0.1"), Routes: []Route{{}}}
		}, []string{"Network.Gateway", "Network.Routes[0]"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spec{Name: "one", Root: []string{"/r"}, Args: []string{"/init"}}
			tc.change(&s)
			var got []string
			if err := s.Validate(); err != nil {
				for line := range strings.Lines(err.Error()) {
					field, _, _ := strings.Cut(line, ":")
					got = append(got, field)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestANetworkIsValidated(t *testing.T) {
	for address, want := range map[string]bool{"172.30.0.1/24": true, "172.30.0.0/24": false, "172.30.0.1/31": false, "fd00::1/64": false} {
		err := Network{Name: "net", Address: netip.MustParsePrefix(address)}.Validate()
		if (err == nil) != want {
			t.Errorf("%s: got %v", address, err)
		}
	}
	if err := (Network{Name: "-", MTU: 1}).Validate(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v", err)
	}
}

func TestStatus(t *testing.T) {
	at := time.Unix(1, 0)
	for name, tc := range map[string]struct {
		state supervisor.State
		alive bool
		want  Status
	}{
		"never started": {supervisor.State{}, false, Status{State: Created}},
		"about to":      {supervisor.State{}, true, Status{State: Starting}},
		"runs":          {supervisor.State{Running: true, PID: 7, Boots: 1, Started: at, HostBoot: "b"}, true, Status{State: Running, PID: 7, Boots: 1, Started: at}},
		"reboots":       {supervisor.State{Boots: 1, Started: at, HostBoot: "b"}, true, Status{State: Starting, Boots: 1, Started: at}},
		"ended":         {supervisor.State{Ended: true, ExitCode: 3, Message: "m", EndedAt: at, HostBoot: "b"}, false, Status{State: Stopped, ExitCode: 3, Message: "m", Ended: at}},
		"left behind":   {supervisor.State{Running: true, PID: 7, HostBoot: "b"}, false, Status{State: Stopped, Message: "its supervisor was ended, and it with it"}},
		"of a boot ago": {supervisor.State{Running: true, PID: 7, HostBoot: "a"}, false, Status{State: Stopped, Message: "the host was started again"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, status(Spec{}, tc.state, tc.alive, "b")); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestGroupsAreTheFoldersOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		scope bool
		want  string
	}{
		"by ourselves": {false, "/capstan-0123abcd/a-b"},
		"by systemd":   {true, "/capstan.slice/capstan-0123abcd-a-b.scope"},
	} {
		if got := groupOf("0123abcd", "a-b", tc.scope); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
	for scope, want := range map[string]string{"capstan-0123abcd-a-b.scope": "a-b", "capstan-0123abce-a.scope": "", "capstan-0123abcd-a.slice": "", "init.scope": ""} {
		if got, ok := containerOfScope("0123abcd", scope); ok != (want != "") || ok && got != want {
			t.Errorf("%s: got %s, %v", scope, got, ok)
		}
	}
}

func TestARunSaysAllThatASupervisorNeeds(t *testing.T) {
	groups := cgroups.Host{Hierarchies: []cgroups.Hierarchy{{Dir: "/sys/fs/cgroup/cpu", Type: "cgroup", Controllers: []string{"cpu"}}, {Dir: "/sys/fs/cgroup/unified", Type: "cgroup2"}}}
	s := Spec{Name: "one", Root: []string{"/r"}, Args: []string{"/init"}, Env: []string{"A=b"}, Shadows: map[string][]byte{"/proc/b": nil, "/proc/a": nil}}
	got := runOf(s, host{folder: "/f", groups: groups}, "/g", Options{ConsoleBytes: 7})
	steps, top := got.First.Root.Steps, got.First.Root.Top
	got.First.Root = rootfs.Root{}
	want := supervisor.Run{
		Groups: []string{"/sys/fs/cgroup/cpu/g/container", "/sys/fs/cgroup/unified/g/container"}, Born: "/sys/fs/cgroup/unified/g/container",
		StopSignal: 15, ConsoleBytes: 7,
		First: containerproc.Plan{Hostname: "one", Args: []string{"/init"}, Env: []string{"A=b", "PATH=" + containerproc.SearchPath}, Rights: containerproc.Rights{Machine: true}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if first := steps[0]; top != "/f/root" || first.Upper != filepath.Join("/f", "upper") || first.Work != "/f/work" || first.Layers[0] != "/r" {
		t.Errorf("got %+v", first)
	}
	if last := steps[len(steps)-1]; last.Target != "/proc/b" || last.Source != "/f/shadows/1" {
		t.Errorf("got %+v", last)
	}
}
