// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containermachines/bootresult"
	"github.com/capstan-dev/capstan/internal/host/containers"
)

var errInUse = fmt.Errorf("listen: %w", syscall.EADDRINUSE)

func TestAMachineGoesFromNothingToDone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if at := l.cluster(); at != "10.208.0.1:6443" {
		t.Errorf("the endpoint is %s", at)
	}
	changes := l.MachineChanges(t.Context())
	s := l.machine()
	want := localinfra.MachineStatus{
		Stage: localinfra.Bootstrapping, Message: `cloud-init to run the bootstrap data, since 2030-01-02T03:04:05Z and until 2030-01-02T03:34:05Z at most; "capstan logs machine m0" shows its console`, ProviderID: "local://ns/demo/m0",
		Addresses: clusterv1.MachineAddresses{{Type: "Hostname", Address: "m0"}, {Type: "InternalIP", Address: "10.208.0.2"}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]netip.AddrPort{netip.MustParseAddrPort("10.208.0.2:6443")}, l.endpoints[0].members, cmp.Comparer(same)); diff != "" {
		t.Errorf("behind the endpoint (-want +got):\n%s", diff)
	}
	l.launcher.appears(bootresult.Sentinel, "success")
	if name := awaitChange(t, changes); name != wantMachine().NamespacedName {
		t.Errorf("%s changed", name)
	}
	if s := l.machine(); s.Stage != localinfra.Done {
		t.Errorf("with its sentinel: %+v", s)
	}
	if l.launcher.starts != 1 {
		t.Errorf("started %d times", l.launcher.starts)
	}
}

func same(a, b netip.AddrPort) bool { return a == b }

func TestAMachineIsMadeAsItsSpecSays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	spec := l.container().Spec
	folder := filepath.Join(l.dir, "machines", spec.Name)
	if !strings.HasPrefix(spec.Name, "m0-") || spec.Hostname != "m0" || spec.Memory != 512<<20 || spec.MilliCPU != 1500 {
		t.Errorf("spec %+v", spec)
	}
	if diff := cmp.Diff([]string{folder + "/root", "/images/root"}, spec.Root); diff != "" {
		t.Errorf("layers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]containers.Mount{{Source: folder + "/var", Target: "/var"}}, spec.Mounts); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if a := spec.Network; a.Address.String() != "10.208.0.2/20" || a.Gateway.String() != "10.208.0.1" {
		t.Errorf("network %+v", a)
	}
	if !l.images.used[spec.Name] {
		t.Error("its image may be removed")
	}
	data, err := os.ReadFile(folder + "/var/lib/cloud/seed/nocloud/user-data")
	if err != nil || string(data) != string(wantMachine().BootstrapData) {
		t.Errorf("bootstrap data %q, %v", data, err)
	}
}

func TestStateIsPrivate(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	for _, dir := range []string{"clusters", "machines", "machines/" + l.container().Spec.Name} {
		if info, err := os.Stat(filepath.Join(l.dir, dir)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info.Mode(), err)
		}
	}
	err := filepath.WalkDir(l.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.Contains(path, "nocloud") {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "hunter2") {
			t.Errorf("%s holds bootstrap data", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAMachineWhoseDataFailsSaysWhyAndStaysFailed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	changes := l.MachineChanges(t.Context())
	log := filepath.Join(l.dir, "machines", l.container().Spec.Name, "var", bootresult.Output)
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, []byte("password hunter2\nno route to 10.208.0.1:6443\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l.launcher.appears(bootresult.Result, `{"v1": {"errors": ["runcmd"]}}`)
	awaitChange(t, changes)
	const want = "cloud-init ended without /run/cluster-api/bootstrap-success.complete: runcmd; the last lines of its commands:\n[...] [...]\nno route to 10.208.0.1:6443"
	if s := l.machine(); s.Stage != localinfra.Failed || s.Message != want {
		t.Errorf("got %+v, want %q", s, want)
	}
	l.restart()
	l.cluster()
	if s := l.machine(); s.Stage != localinfra.Failed || s.Message != want {
		t.Errorf("after a restart: %+v", s)
	}
}

// late is a machine whose bootstrap data does not end, when its time is almost up.
func late(t *testing.T) (*lab, <-chan types.NamespacedName) {
	t.Helper()
	l := newLab(t)
	l.cluster()
	l.machine()
	changes := l.MachineChanges(t.Context())
	l.clock.Step(bootTimeout - time.Second)
	if s := l.machine(); s.Stage != localinfra.Bootstrapping {
		t.Errorf("before its time is up: %+v", s)
	}
	log := filepath.Join(l.dir, "machines", l.container().Spec.Name, "var", bootresult.Output)
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o755), os.WriteFile(log, []byte("waiting for hunter2\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l.launcher.appears(bootresult.Status, `{"v1": {"stage": "modules-final"}}`)
	return l, changes
}

func TestBootstrapDataThatNeverEndsFailsInTheEnd(t *testing.T) {
	t.Parallel()
	l, changes := late(t)
	l.clock.Step(time.Second)
	awaitChange(t, changes)
	const want = "the bootstrap data has run for 30m0s without making /run/cluster-api/bootstrap-success.complete: cloud-init is at its stage modules-final; the last lines of its commands:\nwaiting for [...]"
	if s := l.machine(); s.Stage != localinfra.Failed || s.Message != want {
		t.Errorf("got %+v, want %q", s, want)
	}
	if l.clock.HasWaiters() {
		t.Error("a timer is left")
	}
}

func TestTimeoutContinuesAcrossRestartsAndRestartsWithMachine(t *testing.T) {
	t.Parallel()
	l, _ := late(t)
	l.restart()
	l.clock.Step(time.Second)
	l.cluster()
	if s := l.machine(); s.Stage != localinfra.Failed {
		t.Errorf("after a restart of the process: %+v", s)
	}
	l, _ = late(t)
	l.launcher.ends(0) // with the host
	l.restart()
	l.clock.Step(time.Second)
	l.cluster()
	if s := l.machine(); s.Stage != localinfra.Bootstrapping || !strings.Contains(s.Message, "until 2030-01-02T04:04:05Z") {
		t.Errorf("after a restart of the host: %+v", s)
	}
}

func TestDataThatEndsAtTheLastMomentHasNotFailed(t *testing.T) {
	t.Parallel()
	l, changes := late(t)
	l.launcher.appears(bootresult.Sentinel, "success")
	awaitChange(t, changes)
	l.clock.Step(time.Hour)
	if s := l.machine(); s.Stage != localinfra.Done {
		t.Errorf("got %+v", s)
	}
}

func TestALogThatLeadsElsewhereIsNotRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	secret := filepath.Join(t.TempDir(), "secret")
	log := filepath.Join(l.dir, "machines", l.container().Spec.Name, "var", bootresult.Output)
	if err := errors.Join(os.WriteFile(secret, []byte("of the host\n"), 0o600), os.MkdirAll(filepath.Dir(log), 0o755), os.Symlink(secret, log)); err != nil {
		t.Fatal(err)
	}
	l.launcher.appears(bootresult.Result, "{}")
	if s := l.machine(); s.Stage != localinfra.Failed || strings.Contains(s.Message, "host") {
		t.Errorf("got %+v", s)
	}
}

func TestDataThatMachineReplacedIsNotAwaited(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(string) error{
		"by a pipe":        func(data string) error { return errors.Join(os.Remove(data), syscall.Mkfifo(data, 0o600)) },
		"by more of it":    func(data string) error { return os.Truncate(data, 1<<40) },
		"by an empty file": func(data string) error { return os.Truncate(data, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.cluster()
			l.machine()
			data := filepath.Join(l.dir, "machines", l.container().Spec.Name, "var/lib/cloud/seed/nocloud/user-data")
			if err := replace(data); err != nil {
				t.Fatal(err)
			}
			l.launcher.appears(bootresult.Result, "{}")
			if s := l.machine(); s.Stage != localinfra.Failed || !strings.Contains(s.Message, "cannot be shown") {
				t.Errorf("got %+v", s)
			}
		})
	}
}

func TestMachinesRunOnWhileTheProcessIsAway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	at := l.cluster()
	l.machine()
	l.launcher.appears(bootresult.Sentinel, "success")
	l.machine()
	l.restart()
	// /run is empty after the machine was booted again.
	l.launcher.mu.Lock()
	clear(l.launcher.files)
	l.launcher.mu.Unlock()
	if _, err := l.EnsureMachine(t.Context(), wantMachine()); !errors.Is(err, localinfra.ErrOpening) {
		t.Errorf("before its cluster: %v, want ErrOpening", err)
	}
	changes := l.MachineChanges(t.Context())
	if again := l.cluster(); again != at {
		t.Errorf("the endpoint is %s, was %s", again, at)
	}
	awaitChange(t, changes)
	if len(l.endpoints[0].members) != 1 {
		t.Errorf("behind the endpoint are %v", l.endpoints[0].members)
	}
	provisioned := func(m *localinfra.Machine) { m.Provisioned, m.BootstrapData = true, nil }
	if s := l.machine(provisioned); s.Stage != localinfra.Done || l.launcher.starts != 1 {
		t.Errorf("status %+v, started %d times", s, l.launcher.starts)
	}
}

func TestAMachineRunsAgainAfterTheHostDoes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	l.launcher.ends(0)
	l.restart()
	l.launcher.networks = map[string]containers.Network{}
	l.cluster()
	if s := l.machine(); s.Stage != localinfra.Bootstrapping || l.launcher.starts != 2 || len(l.launcher.networks) != 1 {
		t.Errorf("status %+v, started %d times, networks %v", s, l.launcher.starts, l.launcher.networks)
	}
}

func TestAMachineWhoseImageIsLostSaysHowToGetItBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	l.launcher.ends(0) // with the host
	l.restart()
	l.cluster()
	l.launcher.startErr = fmt.Errorf("Root[1]: %w", fs.ErrNotExist)
	l.images.lost = errors.New("node image 1 is damaged: build it again")
	_, err := l.EnsureMachine(t.Context(), wantMachine())
	const want = "start its container: Root[1]: file does not exist: node image 1 is damaged: build it again"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	l.launcher.startErr, l.images.lost = nil, nil
	if s := l.machine(); s.Stage != localinfra.Bootstrapping {
		t.Errorf("with the image: %+v", s)
	}
}

func TestAMachineThatStopsByItselfIsNotStartedOverAndOver(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	changes := l.MachineChanges(t.Context())
	l.launcher.ends(137)
	awaitChange(t, changes)
	for range 2 {
		_, err := l.EnsureMachine(t.Context(), wantMachine())
		if err == nil || !strings.Contains(err.Error(), "it stopped by itself with exit code 137: delete its Machine") || l.launcher.starts != 1 {
			t.Errorf("got %v, started %d times", err, l.launcher.starts)
		}
	}
}

func TestDeletionLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	if err := l.DeleteMachine(t.Context(), wantMachine()); err != nil {
		t.Fatal(err)
	}
	if all, _ := l.launcher.List(); len(all) > 0 || len(l.images.used) > 0 || len(l.endpoints[0].members) > 0 {
		t.Errorf("containers %v, images used by %v, behind the endpoint %v", all, l.images.used, l.endpoints[0].members)
	}
	if err := l.DeleteMachine(t.Context(), wantMachine()); err != nil {
		t.Errorf("second call: %v", err)
	}
	l.machine() // another one
	if err := l.DeleteCluster(t.Context(), localinfra.Cluster{ID: "c1"}); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteCluster(t.Context(), localinfra.Cluster{ID: "c1"}); err != nil {
		t.Errorf("second call: %v", err)
	}
	if all, _ := l.launcher.List(); len(all) > 0 || len(l.launcher.networks) > 0 || !l.endpoints[0].closed {
		t.Errorf("containers %v, networks %v, endpoint closed %v", all, l.launcher.networks, l.endpoints[0].closed)
	}
	err := filepath.WalkDir(l.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if left, _ := os.ReadDir(filepath.Join(l.dir, "machines")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestPartialFailureLeavesNothingAndIsRetried(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*lab, error){
		"its files":     func(l *lab, err error) { l.images.err = err },
		"its container": func(l *lab, err error) { l.launcher.err = err },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.cluster()
			fail(l, syscall.ENOSPC)
			for range 2 {
				_, err := l.EnsureMachine(t.Context(), wantMachine())
				if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), `free space on the disk of `+l.dir+`, such as by removing node images that no machine uses ("capstan image list"): it is tried again by itself`) {
					t.Errorf("got %v, want ENOSPC, and what to do", err)
				}
				left, err := os.ReadDir(filepath.Join(l.dir, machinesDir))
				if all, _ := l.launcher.List(); err != nil || len(left)+len(all)+len(l.images.used) > 0 {
					t.Errorf("left are files %v, containers %v, images used by %v, %v", left, all, l.images.used, err)
				}
			}
			fail(l, nil)
			if s := l.machine(); s.Stage != localinfra.Bootstrapping || !l.images.used[l.container().Spec.Name] {
				t.Errorf("when there is room: status %+v, images used by %v", s, l.images.used)
			}
		})
	}
}

func TestLeftoversOfAnInterruptionAreRemovedAtTheStart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.cluster()
	l.machine()
	name := l.container().Spec.Name
	if err := os.Remove(filepath.Join(l.dir, "machines", name, "machine.json")); err != nil {
		t.Fatal(err)
	}
	l.restart()
	if all, _ := l.launcher.List(); len(all) > 0 {
		t.Errorf("containers %v", all)
	}
	if left, _ := os.ReadDir(filepath.Join(l.dir, "machines")); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

func TestWhatCannotBeSaysWhy(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		machine func(*localinfra.Machine)
		want    string
		is      error
	}{
		"a machine of no cluster":       {machine: func(m *localinfra.Machine) { m.ClusterID = "c2" }, is: localinfra.ErrNoCluster},
		"one that ran, and is not here": {machine: func(m *localinfra.Machine) { m.Provisioned = true }, is: localinfra.ErrNotHere},
		"another format of data":        {machine: func(m *localinfra.Machine) { m.BootstrapFormat = "ignition" }, want: "container machines run cloud-config alone: set spec.format of the KubeadmConfig to cloud-config"},
		"a version without an image":    {machine: func(m *localinfra.Machine) { m.Version = "v1.1.1" }, want: "there is no node image of v1.1.1"},
		"no version":                    {machine: func(m *localinfra.Machine) { m.Version = "" }, want: "set spec.version"},
		"no bootstrap data":             {machine: func(m *localinfra.Machine) { m.BootstrapData = nil }, want: "it has no bootstrap data"},
		"a machine without a name":      {machine: func(m *localinfra.Machine) { m.Name = "" }, want: "its namespace, name and cluster are needed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.cluster()
			_, err := l.EnsureMachine(t.Context(), wantMachine(tc.machine))
			if err == nil || !strings.Contains(err.Error(), tc.want) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("got %v, want %s %v", err, tc.want, tc.is)
			}
			if all, _ := l.launcher.List(); len(all) > 0 {
				t.Errorf("containers %v are left", all)
			}
		})
	}
}

func TestEndpointsOfAHost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.busy = []uint16{6443}
	l.taken = []netip.Prefix{netip.MustParsePrefix("10.208.0.0/20")} // of another plane
	if at := l.cluster(); at != "10.208.16.1:6444" {
		t.Errorf("next to a port and a subnet of others: %s", at)
	}
	second := wantCluster
	second.ID, second.Name = "c2", "second"
	if at, err := l.EnsureCluster(t.Context(), second); err != nil || at.Port != 6445 {
		t.Errorf("of a second cluster: %s, %v", at.String(), err)
	}
	asked := wantCluster
	asked.ID, asked.Spec.ControlPlaneEndpoint = "c3", clusterv1.APIEndpoint{Host: "10.210.0.1", Port: 6443}
	if _, err := l.EnsureCluster(t.Context(), asked); err == nil || !strings.Contains(err.Error(), "machines of this host reach it at 10.208.16.1") {
		t.Errorf("of one that asks for another host: %v", err)
	}
	gone := wantCluster
	gone.ID, gone.Made = "c4", true
	if _, err := l.EnsureCluster(t.Context(), gone); !errors.Is(err, localinfra.ErrNotHere) {
		t.Errorf("of one that was made elsewhere: %v", err)
	}
	if err := l.CheckEndpoint(clusterv1.APIEndpoint{Host: "0.0.0.0", Port: 6443}); err == nil {
		t.Error("a cluster may be reached everywhere")
	}
	if err := l.CheckEndpoint(clusterv1.APIEndpoint{Host: "10.208.16.1", Port: 6444}); err != nil {
		t.Errorf("a cluster may not be reached where it was put: %v", err)
	}
}

func TestASubnetThatSomethingElseTookIsChangedAsLongAsItMay(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	// It appeared between the check and the creation, or the check missed it.
	l.launcher.elsewhere = []netip.Prefix{netip.MustParsePrefix("10.208.0.0/16")}
	if err := os.WriteFile(filepath.Join(l.dir, subnetFile), []byte(`{"subnet": "10.208.0.0/20"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.launcher.networks[networkName] = networkOf(netip.MustParsePrefix("10.208.0.0/20"))
	l.taken = l.launcher.elsewhere
	l.restart()
	if at := l.cluster(); at != "10.209.0.1:6443" {
		t.Errorf("the endpoint is %s", at)
	}
	l.machine()
	l.launcher.elsewhere = append(l.launcher.elsewhere, netip.MustParsePrefix("10.209.0.0/16"))
	l.restart()
	_, err := l.EnsureCluster(t.Context(), wantCluster)
	const want = "addresses 10.209.0.0/20 overlap 10.209.0.0/16, which link tun0 of this host has, and machines have them already: remove what has them elsewhere, or delete all Clusters of container machines to have others chosen"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := l.DeleteCluster(t.Context(), wantCluster); err != nil {
		t.Error(err)
	}
	l.taken = l.launcher.elsewhere
	if at := l.cluster(); at != "10.210.0.1:6443" {
		t.Errorf("afterwards the endpoint is %s", at)
	}
}

func TestHostWithoutFreeSubnetIsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.taken = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}
	if _, err := l.EnsureCluster(t.Context(), wantCluster); !errors.Is(err, ErrNoSubnet) {
		t.Errorf("got %v", err)
	}
}

func TestAClusterThatIsReleasedKeepsItsMachines(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	at := l.cluster()
	l.machine()
	if err := l.ReleaseCluster(t.Context(), wantCluster); err != nil {
		t.Fatal(err)
	}
	if !l.endpoints[0].closed || l.container().State != containers.Running {
		t.Errorf("endpoint closed %v, container %v", l.endpoints[0].closed, l.container().State)
	}
	if err := l.ResumeCluster(t.Context(), wantCluster); err != nil || len(l.endpoints) != 2 {
		t.Errorf("resumed: %v, endpoints %v", err, l.endpoints)
	}
	if again := l.cluster(); again != at {
		t.Errorf("the endpoint is %s, was %s", again, at)
	}
}

func TestContainersAreNamedAfterTheirMachines(t *testing.T) {
	t.Parallel()
	a, b := containerName("m0", "c1", "local://ns/demo/m0"), containerName("m0", "c2", "local://ns/demo/m0")
	if a == b || !strings.HasPrefix(a, "m0-") {
		t.Errorf("%s and %s, want two that say m0", a, b)
	}
	long := containerName(strings.Repeat("A.b", 40), "c1", "x")
	if err := (containers.Spec{Name: long, Root: []string{"/x"}, Args: []string{"/x"}}).Validate(); err != nil {
		t.Errorf("%s: %v", long, err)
	}
}

func TestCapacityIsReportedForAutoscaler(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	o := l.Offer(wantMachine().Spec)
	if o.Capacity.Memory().Value() != 512<<20 || o.Capacity.Cpu().IsZero() || o.NodeInfo.OperatingSystem != "linux" {
		t.Errorf("offer %+v", o)
	}
	if o := l.Offer(infrav1.LocalMachineSpec{Container: &infrav1.LocalMachineContainer{}}); !o.Capacity.Memory().IsZero() {
		t.Errorf("without a limit: %v", o.Capacity.Memory())
	}
	if id := l.ProviderID(types.NamespacedName{Namespace: "ns", Name: "m0"}, "demo"); id != "local://ns/demo/m0" {
		t.Errorf("provider ID %s", id)
	}
}
