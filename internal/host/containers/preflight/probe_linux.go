// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
	"github.com/capstan-dev/capstan/internal/host/containers/network"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Probe collects the facts of this host. It runs its tests in namespaces of a
// temporary thread.
func Probe() Facts {
	f := Facts{Root: os.Geteuid() == 0}
	if !f.Root {
		return f
	}
	probeGroups(&f)
	f.Instances = number("/proc/sys/fs/inotify/max_user_instances")
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		f.Files = int64(min(limit.Max, 1<<62))
	}
	f.Resource = hasResource()
	f.Dropping = dropping()
	if fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}); err != nil {
		f.Openat2 = err.Error()
	} else {
		_ = unix.Close(fd) // opened with O_PATH
	}
	onThreadOfItsOwn(func() { probeNamespaces(&f) })
	return f
}

// onThreadOfItsOwn calls a function that changes the namespaces of its thread. The
// thread is never unlocked, so it exits, which removes its namespaces and
// everything in them.
func onThreadOfItsOwn(do func()) {
	done := make(chan struct{})
	go recovery.Func(context.Background(), func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread never exits, and its namespaces are those of the process as
			// others see them. While it is locked, the call gets another thread.
			onThreadOfItsOwn(do)
			runtime.UnlockOSThread()
			return
		}
		do()
	})()
	<-done
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func number(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // the kernel wrote it
	return n
}

func probeGroups(f *Facts) {
	h, err := cgroups.Detect()
	f.Groups, f.Unified = reason(err), h.Unified
	for _, t := range h.Hierarchies {
		f.Controllers = append(f.Controllers, t.Controllers...)
		if h.Unified {
			text, _ := os.ReadFile(filepath.Join(t.Dir, "cgroup.controllers")) // empty if it cannot be read
			f.Controllers = append(f.Controllers, strings.Fields(string(text))...)
			f.Occupied = occupied(t.Dir)
		}
	}
}

// occupied reports whether a group of version 2 has processes, which prevents it
// from delegating controllers. The root of a host may have some: it has no type.
func occupied(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil {
		return false
	}
	given, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control")) // what is delegated was possible
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err == nil && len(strings.TrimSpace(string(given))) == 0 && len(text) > 0
}

func hasResource() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[unix.CAP_SYS_RESOURCE/32].Effective&(1<<(unix.CAP_SYS_RESOURCE%32)) != 0
}

// probeNamespaces tests the features that containers use in new namespaces.
func probeNamespaces(f *Facts) {
	const all = unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWCGROUP
	err := unix.Unshare(all)
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	if f.Namespaces = reason(err); err != nil {
		return
	}
	f.Veth = reason(netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "probe0"}, PeerName: "probe1"}))
	f.Bridge = reason(netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "probe2"}}))
	f.NAT = reason(network.SetRules(network.Bridge{Name: "probe2", Table: "probe", Address: netip.MustParsePrefix("192.0.2.1/24")}))
	f.Overlay, f.Setattr = probeMounts()
}

// probeMounts mounts an overlay in memory on an unused folder.
func probeMounts() (overlay, setattr string) {
	at, err := os.MkdirTemp("", "capstan-preflight-")
	if err != nil {
		return err.Error(), ""
	}
	defer func() { _ = os.Remove(at) }() // it is empty when nothing is mounted on it
	if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
		return err.Error(), ""
	}
	defer func() { _ = unix.Unmount(at, unix.MNT_DETACH) }() // the namespace's end unmounts it anyway
	for _, d := range []string{"lower", "upper", "work", "root"} {
		err = errors.Join(err, os.Mkdir(filepath.Join(at, d), 0o700))
	}
	if err == nil {
		data := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", at)
		err = unix.Mount("overlay", filepath.Join(at, "root"), "overlay", 0, data)
	}
	return reason(err), reason(unix.MountSetattr(unix.AT_FDCWD, at, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
}

// dropping returns the chains of other programs that drop packets that none of
// their rules accepts.
func dropping() []string {
	c, err := nftables.New()
	if err != nil {
		return nil // SetRules reports it
	}
	chains, err := c.ListChains()
	if err != nil {
		return nil
	}
	var names []string
	for _, ch := range chains {
		if ch.Hooknum != nil && *ch.Hooknum == *nftables.ChainHookForward && ch.Policy != nil && *ch.Policy == nftables.ChainPolicyDrop &&
			slices.Contains([]nftables.TableFamily{nftables.TableFamilyIPv4, nftables.TableFamilyINet}, ch.Table.Family) {
			names = append(names, "chain "+ch.Name+" of table "+ch.Table.Name)
		}
	}
	return names
}
