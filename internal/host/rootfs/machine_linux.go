// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// Machine is the root of a container machine.
type Machine struct {
	Top         string
	Layers      []string // topmost first
	Upper, Work string
	Binds       []Step            // of kind Bind
	Shadows     map[string]string // files of the host by the path in the root
	Devices     []string          // the available ones of the host's /dev
	Unified     bool              // control groups are version 2
	Groups      []Group           // otherwise each hierarchy
}

// Group is a hierarchy of control groups as a container mounts it.
type Group struct{ Name, Type, Data string }

// MachineDevices are the devices of a machine: none that holds data of the host.
func MachineDevices() []string {
	return []string{"full", "fuse", "kmsg", "net/tun", "null", "random", "tty", "urandom", "zero"}
}

// Root returns how to create the root: the layers; the kernel's file systems,
// read-only where writes would change the host; empty folders in memory; the mounts
// of the spec; and the shadows, which no other mount may hide. Programs that create
// namespaces in a machine, such as kubelet, expect its mounts there.
func (m Machine) Root() Root {
	const none = NoSUID | NoDev | NoExec
	steps := []Step{
		{Op: Overlay, Layers: m.Layers, Upper: m.Upper, Work: m.Work},
		{Op: Mount, Target: "/proc", Source: "proc", Type: "proc", Flags: none, Exact: true},
		// Writes to settings of the kernel are for the host, except for those of the
		// network, which is the machine's own. So are the keys that reboot the host.
		{Op: Freeze, Target: "/proc/sys", Except: "/proc/sys/net"},
		{Op: Freeze, Target: "/proc/sysrq-trigger", Optional: true}, // not every kernel has it
		{Op: Mount, Target: "/sys", Source: "sysfs", Type: "sysfs", Flags: none, Exact: true},
		{Op: ReadOnly, Target: "/sys"},
	}
	steps = append(steps, m.groups()...)
	steps = append(steps, Step{Op: Mount, Target: "/dev", Source: "tmpfs", Type: "tmpfs", Data: "mode=0755", Flags: NoSUID | NoExec, Exact: true})
	steps = append(steps, bindDevices(m.Devices)...)
	steps = append(steps,
		Step{Op: Mount, Target: "/dev/pts", Source: "devpts", Type: "devpts", Data: "newinstance,ptmxmode=0666,mode=620,gid=5", Flags: NoSUID | NoExec},
		Step{Op: Mount, Target: "/dev/shm", Source: "tmpfs", Type: "tmpfs", Data: "mode=1777", Flags: NoSUID | NoDev},
		Step{Op: Mount, Target: "/dev/mqueue", Source: "mqueue", Type: "mqueue", Flags: none},
		Step{Op: Link, Target: "/dev/ptmx", Source: "pts/ptmx"},
	)
	steps = append(steps, streams()...)
	steps = append(steps,
		Step{Op: Mount, Target: "/run", Source: "tmpfs", Type: "tmpfs", Data: "mode=0755", Flags: NoSUID | NoDev},
		Step{Op: Mount, Target: "/tmp", Source: "tmpfs", Type: "tmpfs", Data: "mode=1777", Flags: NoSUID | NoDev},
	)
	// Parents come before their children, or they would hide them.
	steps = append(steps, slices.SortedFunc(slices.Values(m.Binds), func(a, b Step) int { return cmp.Compare(a.Target, b.Target) })...)
	for _, p := range slices.Sorted(maps.Keys(m.Shadows)) {
		steps = append(steps, Step{Op: Bind, Target: p, Source: m.Shadows[p], Flags: RO})
	}
	return Root{Top: m.Top, Steps: steps, Shared: true}
}

func (m Machine) groups() []Step {
	const at = "/sys/fs/cgroup"
	const flags = NoSUID | NoDev | NoExec
	if m.Unified {
		return []Step{{Op: Mount, Target: at, Source: "cgroup2", Type: "cgroup2", Flags: flags}}
	}
	steps := []Step{{Op: Mount, Target: at, Source: "tmpfs", Type: "tmpfs", Data: "mode=0755", Flags: flags}}
	for _, g := range m.Groups {
		steps = append(steps, Step{Op: Mount, Target: path.Join(at, g.Name), Source: g.Type, Type: g.Type, Data: g.Data, Flags: flags})
		// Programs look for each of the controllers that share a hierarchy.
		if all := strings.Split(g.Name, ","); len(all) > 1 {
			for _, one := range all {
				steps = append(steps, Step{Op: Link, Target: path.Join(at, one), Source: g.Name})
			}
		}
	}
	// systemd would mount missing controllers here, which would remove them from the
	// host's hierarchy of version 2.
	return append(steps, Step{Op: ReadOnly, Target: at})
}
