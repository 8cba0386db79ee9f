// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// TestTheMainThreadIsSpared tries it often: the thread of a goroutine is random.
func TestTheMainThreadIsSpared(t *testing.T) {
	for range 1000 {
		onThreadOfItsOwn(func() {
			if unix.Gettid() == unix.Getpid() {
				t.Error("it runs on the main thread")
			}
		})
	}
}

func TestAGroupWithProcessesGivesNothingOn(t *testing.T) {
	for name, tc := range map[string]struct {
		files map[string]string
		want  bool
	}{
		"the root of a host":          {map[string]string{"cgroup.procs": "1\n", "cgroup.subtree_control": "\n"}, false},
		"that of a container":         {map[string]string{"cgroup.procs": "1\n", "cgroup.subtree_control": "\n", "cgroup.type": "domain\n"}, true},
		"one that was divided before": {map[string]string{"cgroup.procs": "", "cgroup.subtree_control": "cpu memory\n", "cgroup.type": "domain\n"}, false},
		"one without a process":       {map[string]string{"cgroup.procs": "", "cgroup.subtree_control": "\n", "cgroup.type": "domain\n"}, false},
	} {
		dir := t.TempDir()
		for file, text := range tc.files {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := occupied(dir); got != tc.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestProbeReportsThisHost compares the facts with what the kernel shows elsewhere, and
// checks that nothing of this process is changed.
func TestProbeReportsThisHost(t *testing.T) {
	if os.Geteuid() != 0 {
		if got := Probe(); !reflect.DeepEqual(got, Facts{}) {
			t.Errorf("a plain user is tested: %+v", got)
		}
		t.Skip("only root's processes are tested")
	}
	namespaces := func() (all []string) {
		for _, kind := range []string{"mnt", "net", "uts", "ipc", "cgroup"} {
			ns, err := os.Readlink("/proc/self/ns/" + kind)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, ns)
		}
		return all
	}
	before := namespaces()
	t.Setenv("TMPDIR", t.TempDir())
	f := Probe()
	if after := namespaces(); !slices.Equal(before, after) {
		t.Errorf("the process is in %v, was in %v", after, before)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "CapEff:")
	effective, err := strconv.ParseUint(strings.Fields(after)[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	_, err = os.Stat("/sys/fs/cgroup/cgroup.controllers")
	if !f.Root || f.Resource != (effective&(1<<unix.CAP_SYS_RESOURCE) != 0) || f.Unified != (err == nil) {
		t.Errorf("got %+v, capabilities are %x, version 2 of control groups: %v", f, effective, err)
	}
	if text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances"); err != nil || strings.TrimSpace(string(text)) != strconv.FormatInt(f.Instances, 10) {
		t.Errorf("%d inotify instances, the kernel has %q, %v", f.Instances, text, err)
	}
	if f.Namespaces != "" && f.Overlay+f.Veth+f.Bridge+f.NAT != "" {
		t.Errorf("without namespaces it tested the host: %+v", f)
	}
}

// TestDroppingNamesChainsThatForwardNothing: chains of other hooks, of other families and
// with another policy let packets of containers pass.
func TestDroppingNamesChainsThatForwardNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("creates a network namespace")
	}
	drop, accept := nftables.ChainPolicyDrop, nftables.ChainPolicyAccept
	var got []string
	var err error
	onThreadOfItsOwn(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		var c *nftables.Conn
		if c, err = nftables.New(); err != nil {
			return
		}
		for table, family := range map[string]nftables.TableFamily{"filter": nftables.TableFamilyIPv4, "fw": nftables.TableFamilyINet, "six": nftables.TableFamilyIPv6} {
			of := c.AddTable(&nftables.Table{Name: table, Family: family})
			for _, chain := range []nftables.Chain{
				{Name: "FORWARD", Hooknum: nftables.ChainHookForward, Policy: &drop},
				{Name: "open", Hooknum: nftables.ChainHookForward, Policy: &accept},
				{Name: "INPUT", Hooknum: nftables.ChainHookInput, Policy: &drop},
			} {
				chain.Table, chain.Type, chain.Priority = of, nftables.ChainTypeFilter, nftables.ChainPriorityFilter
				c.AddChain(&chain)
			}
			c.AddChain(&nftables.Chain{Name: "jumped-to", Table: of})
		}
		if err = c.Flush(); err == nil {
			got = dropping()
		}
	})
	slices.Sort(got)
	if want := []string{"chain FORWARD of table filter", "chain FORWARD of table fw"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
