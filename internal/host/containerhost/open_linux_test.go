// SPDX-License-Identifier: Apache-2.0

package containerhost

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/host/containers"
	"github.com/capstan-dev/capstan/internal/host/nodeimages"
	"github.com/capstan-dev/capstan/internal/kit/dialguard"
)

// nested is set in a test that runs again as another process.
const nested = "CAPSTAN_TEST_NESTED"

// again runs a test as another process.
func again(t *testing.T, attr *syscall.SysProcAttr) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.Dir, cmd.SysProcAttr = append(os.Environ(), nested+"=yes", "TMPDIR=/tmp"), "/", attr
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
}

func asRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("container machines need root")
	}
}

// never is a check of the host that fails the test if it runs.
func never(t *testing.T) func(context.Context) []containers.Problem {
	return func(context.Context) []containers.Problem {
		t.Error("the host was checked")
		return nil
	}
}

func TestOpenNamesRemedyWithoutRoot(t *testing.T) {
	if os.Getenv(nested) == "" && os.Geteuid() == 0 {
		const nobody = 65534
		again(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}})
		return
	}
	dir := filepath.Join(t.TempDir(), "machines")
	_, _, err := Open(t.Context(), Options{Dir: dir, check: never(t)})
	if err == nil || err.Error() != "only root can run container machines: start the plane as root, or choose spec.simulated" {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder: %v", err)
	}
}

func TestOnePlaneAtATimeHasAFolder(t *testing.T) {
	asRoot(t)
	dir := filepath.Join(t.TempDir(), "machines")
	for range 2 { // the second time after the first has released it
		_, stop, err := Open(t.Context(), Options{Dir: dir, check: never(t)})
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = Open(t.Context(), Options{Dir: dir})
		if held, ok := errors.AsType[*containers.HeldError](err); !ok || held.Dir != filepath.Join(dir, "containers") || !strings.Contains(err.Error(), "stop that, or choose another folder") {
			t.Errorf("a second one got %v", err)
		}
		if _, stop, err := Open(t.Context(), Options{Dir: t.TempDir()}); err != nil {
			t.Errorf("in another folder: %v", err)
		} else if err := stop(); err != nil {
			t.Error(err)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"images", "containers", "machines"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v, want it for root alone", name, info.Mode(), err)
		}
	}
}

func TestAMachineWithoutAnImageSaysWhichAndHow(t *testing.T) {
	asRoot(t)
	if os.Getenv(nested) == "" {
		again(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET})
		return
	}
	guard := &dialguard.Guard{}
	b, stop, err := Open(t.Context(), Options{Dir: t.TempDir(), Namespaces: []string{"ns"}, Guard: guard})
	if err != nil {
		t.Fatal(err)
	}
	cluster := localinfra.Cluster{ID: "c1"}
	cluster.Namespace, cluster.Name = "ns", "demo"
	at, err := b.EnsureCluster(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := netip.MustParseAddrPort(at.String())
	if err := guard.Check(endpoint); err != nil {
		t.Errorf("Pods do not reach the endpoint: %v", err)
	}
	if guard.Check(netip.AddrPortFrom(endpoint.Addr(), 22)) == nil {
		t.Error("Pods reach another port of the host")
	}
	machine := localinfra.Machine{Cluster: "demo", ClusterID: "c1", Version: "v1.1.1", BootstrapData: []byte("#cloud-config\n")}
	machine.Namespace, machine.Name = "ns", "m0"
	_, err = b.EnsureMachine(t.Context(), machine)
	if _, missing := errors.AsType[*nodeimages.MissingError](err); !missing || !strings.Contains(err.Error(), `"capstan image build --kubernetes-version v1.1.1"`) {
		t.Errorf("got %v", err)
	}
	if err := errors.Join(b.DeleteCluster(t.Context(), cluster), stop()); err != nil {
		t.Error(err)
	}
	if left, err := net.Interfaces(); err != nil || len(left) != 1 {
		t.Errorf("links %v, %v, want loopback alone", left, err)
	}
}

func TestFactsAreThoseOfThisHost(t *testing.T) {
	t.Parallel()
	h, err := hostFacts()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(h.MemInfo, "MemTotal:") || h.MaxOpenFiles == 0 {
		t.Errorf("memory %q, files %d", h.MemInfo, h.MaxOpenFiles)
	}
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); h.CgroupV1 != errors.Is(err, fs.ErrNotExist) {
		t.Errorf("control groups are of version 1: %v, and %v", h.CgroupV1, err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, bounding, _ := strings.Cut(string(status), "CapBnd:\t")
	digit := bounding[16-1-unix.CAP_SYS_RESOURCE/4] // of 16, the last has the lowest four
	if has := strings.IndexByte("0123456789abcdef", digit)>>(unix.CAP_SYS_RESOURCE%4)&1 == 1; h.LowersOOMScores != has {
		t.Errorf("may spare processes: %v, capabilities %s", h.LowersOOMScores, bounding[:16])
	}
}

func TestNetworksOfTheHostAreTaken(t *testing.T) {
	asRoot(t)
	if os.Getenv(nested) == "" {
		again(t, &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET})
		return
	}
	launcher, err := containers.Open(t.TempDir(), containers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := containers.Network{Name: "net", Address: netip.MustParsePrefix("172.31.88.1/24")}
	if err := launcher.EnsureNetwork(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	if got, err := networks(); err != nil || !slices.Contains(got, n.Address.Masked()) {
		t.Errorf("got %v, %v", got, err)
	}
	if err := errors.Join(launcher.RemoveNetwork(t.Context(), "net"), launcher.Close()); err != nil {
		t.Error(err)
	}
}
