// SPDX-License-Identifier: Apache-2.0

// Package preflight checks whether a host can run containers: Probe tests the
// features that they need, in temporary namespaces, and Evaluate returns what is
// missing and the remedies.
package preflight

import (
	"fmt"
	"slices"
	"strings"
)

// Facts are the results of Probe.
type Facts struct {
	Root bool
	// Namespaces is why a process cannot get separate namespaces; "" if it can.
	Namespaces string
	// Overlay, Veth, Bridge and NAT are why each is not available; "" if it is. They
	// are not tested without namespaces.
	Overlay, Veth, Bridge, NAT string
	// Openat2 and Setattr are why the kernel does not support these calls.
	Openat2, Setattr string
	// Unified is true if control groups are version 2; Controllers are those that
	// limits need, of either version.
	Unified     bool
	Groups      string // why control groups cannot be detected
	Controllers []string
	// Occupied is true if processes are in the group of version 2 above ours: the
	// kernel does not delegate controllers from such a group, except at the root of a
	// host and where systemd assigns groups.
	Occupied bool
	// Instances is fs.inotify.max_user_instances, and Files the hard limit of
	// open files.
	Instances, Files int64
	// Resource is true if this process has CAP_SYS_RESOURCE.
	Resource bool
	// Dropping are the nftables chains of other programs that drop forwarded packets
	// unless one of their own rules accepts them.
	Dropping []string
}

// Finding is something that a host lacks.
type Finding struct {
	What, Remedy string
	Warning      bool // containers run anyway
}

const (
	// leastInstances is what seven times three containers with systemd, containerd and
	// kubelet use: three were measured to use 72.
	leastInstances = 512
	// leastFiles is the number of files that such a container may open: etcd and API
	// servers need thousands.
	leastFiles = 8192
)

// Evaluate returns the problems among the facts, the worst first.
func Evaluate(f Facts) []Finding {
	if !f.Root {
		return []Finding{{What: "this process is not root", Remedy: "run capstan as root, or use simulated machines"}}
	}
	var found []Finding
	lacks := func(why, what, remedy string) {
		if why != "" {
			found = append(found, Finding{What: what + " (" + why + ")", Remedy: remedy})
		}
	}
	lacks(f.Namespaces, "processes get no namespaces of their own", "raise the sysctls user.max_*_namespaces, and start capstan outside of containers that forbid it")
	lacks(f.Openat2, "the kernel does not know openat2", "use Linux 5.12 or newer, and start capstan outside of containers that forbid it")
	lacks(f.Setattr, "the kernel does not know mount_setattr", "use Linux 5.12 or newer, and start capstan outside of containers that forbid it")
	lacks(f.Overlay, "there is no overlayfs", "load the kernel module overlay")
	lacks(f.Veth, "there are no pairs of links", "load the kernel module veth")
	lacks(f.Bridge, "there are no bridges", "load the kernel module bridge")
	lacks(f.NAT, "nftables does not translate addresses", "load the kernel modules nf_tables, nft_masq and nft_ct")
	lacks(f.Groups, "control groups are unknown", "mount cgroup2 at /sys/fs/cgroup")
	for _, c := range []string{"cpu", "memory", "pids"} {
		if f.Groups == "" && !slices.Contains(f.Controllers, c) {
			remedy := "mount it below /sys/fs/cgroup"
			if f.Unified {
				remedy = "take it off the kernel's option cgroup_disable, or start capstan where it is delegated"
			}
			found = append(found, Finding{What: "there is no control group controller " + c, Remedy: remedy})
		}
	}
	if f.Occupied {
		found = append(found, Finding{
			What:   "control groups cannot be divided: processes are in the one at /sys/fs/cgroup, which is that of a container",
			Remedy: "move them into one below it, such as /sys/fs/cgroup/init, before capstan starts, or start capstan outside of the container",
		})
	}
	if f.Instances < leastInstances {
		found = append(found, Finding{
			What:    fmt.Sprintf("root may have %d inotify instances, which is enough for about %d containers with systemd", f.Instances, f.Instances/25), // 72 were measured with 3
			Remedy:  fmt.Sprintf("set the sysctl fs.inotify.max_user_instances to %d or more", leastInstances),
			Warning: true,
		})
	}
	if f.Files < leastFiles {
		found = append(found, Finding{
			What: fmt.Sprintf("a process may open %d files", f.Files), Remedy: fmt.Sprintf("raise the hard limit of open files, RLIMIT_NOFILE, to %d or more", leastFiles), Warning: true,
		})
	}
	if !f.Resource {
		found = append(found, Finding{
			What: "this process has no CAP_SYS_RESOURCE, so no container may raise its limits", Remedy: "give it that capability, or expect nodes with lower limits", Warning: true,
		})
	}
	if len(f.Dropping) > 0 {
		found = append(found, Finding{
			What:   "a firewall of this host drops what containers send elsewhere: " + strings.Join(f.Dropping, ", "),
			Remedy: "have it accept what is forwarded from and to the bridges whose names begin with b and the folder's identity", Warning: true,
		})
	}
	return found
}
