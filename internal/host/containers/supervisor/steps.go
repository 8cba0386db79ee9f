// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
)

// Op is a kind of step.
type Op string

// The kinds of steps.
const (
	Overlay  Op = "overlay"  // Layers, topmost first, below Upper, with Work, are the root
	Mount    Op = "mount"    // a file system of Type with Data
	Bind     Op = "bind"     // a folder or file of the host with everything mounted below it
	Again    Op = "again"    // Target is mounted over itself, so that it has separate flags
	Keep     Op = "keep"     // the present mount at Target is saved
	Restore  Op = "restore"  // and restored over later mounts
	ReadOnly Op = "readonly" // what is mounted at Target refuses writes
	Locked   Op = "locked"   // so do all mounts below it
	Folder   Op = "folder"   // Target is a folder
	Link     Op = "link"     // Target is a link to Source
	Terminal Op = "terminal" // Target is the console
)

// Step is one step to create a root. Targets are paths in it, and no link in them
// is followed out of it.
type Step struct {
	Op     Op
	Target string   `json:",omitempty"`
	Source string   `json:",omitempty"`
	Type   string   `json:",omitempty"`
	Data   string   `json:",omitempty"`
	Flags  []string `json:",omitempty"` // ro, nosuid, nodev, noexec
	Layers []string `json:",omitempty"`
	Upper  string   `json:",omitempty"`
	Work   string   `json:",omitempty"`
	// Where means to skip the step if the target does not exist.
	Where bool `json:",omitempty"`
}

// Root is the desired state of a root.
type Root struct {
	Layers      []string // topmost first
	Upper, Work string
	Binds       []Step            // of kind Bind, each optionally followed by Locked in Flags as "ro"
	Shadows     map[string]string // files of the host by the path in the root
	Devices     []string          // the available ones of the host's /dev
	Unified     bool              // control groups are version 2
	Groups      []Group           // otherwise each hierarchy
}

// Group is a hierarchy of control groups as a container mounts it.
type Group struct{ Name, Type, Data string }

// Devices are the devices of a container: none that holds data of the host.
func Devices() []string {
	return []string{"full", "fuse", "kmsg", "net/tun", "null", "random", "tty", "urandom", "zero"}
}

// Plan returns the steps to create a root, in order: the layers; the kernel's file
// systems, read-only where writes would change the host; empty folders in memory;
// the mounts of the spec; and the shadows, which no other mount may hide.
func Plan(r Root) []Step {
	steps := []Step{
		{Op: Overlay, Layers: r.Layers, Upper: r.Upper, Work: r.Work},
		{Op: Mount, Target: "/proc", Source: "proc", Type: "proc", Flags: []string{"nosuid", "nodev", "noexec"}},
	}
	steps = append(steps, guardedProc()...)
	steps = append(steps,
		Step{Op: Mount, Target: "/sys", Source: "sysfs", Type: "sysfs", Flags: []string{"nosuid", "nodev", "noexec"}},
		Step{Op: ReadOnly, Target: "/sys"},
	)
	steps = append(steps, groups(r)...)
	steps = append(steps, devices(r.Devices)...)
	for _, dir := range []Step{{Target: "/run", Data: "mode=0755"}, {Target: "/tmp", Data: "mode=1777"}} {
		steps = append(steps, Step{Op: Mount, Target: dir.Target, Source: "tmpfs", Type: "tmpfs", Data: dir.Data, Flags: []string{"nosuid", "nodev"}})
	}
	// Parents come before their children, or they would hide them.
	binds := slices.SortedFunc(slices.Values(r.Binds), func(a, b Step) int { return cmp.Compare(a.Target, b.Target) })
	for _, b := range binds {
		locked := slices.Contains(b.Flags, "ro")
		steps = append(steps, Step{Op: Bind, Target: b.Target, Source: b.Source})
		if locked {
			steps = append(steps, Step{Op: Locked, Target: b.Target})
		}
	}
	for _, p := range slices.Sorted(maps.Keys(r.Shadows)) {
		steps = append(steps, Step{Op: Bind, Target: p, Source: r.Shadows[p]}, Step{Op: ReadOnly, Target: p})
	}
	return steps
}

// guardedProc refuses writes to what belongs to the host: settings of the kernel
// except those of the network, which is the container's own, and the keys that
// reboot the host.
func guardedProc() []Step {
	return []Step{
		{Op: Keep, Target: "/proc/sys/net"},
		{Op: Again, Target: "/proc/sys"},
		{Op: ReadOnly, Target: "/proc/sys"},
		{Op: Restore, Target: "/proc/sys/net"},
		{Op: Again, Target: "/proc/sysrq-trigger", Where: true}, // not every kernel has it
		{Op: ReadOnly, Target: "/proc/sysrq-trigger", Where: true},
	}
}

func groups(r Root) []Step {
	const at = "/sys/fs/cgroup"
	flags := []string{"nosuid", "nodev", "noexec"}
	if r.Unified {
		return []Step{{Op: Mount, Target: at, Source: "cgroup2", Type: "cgroup2", Flags: flags}}
	}
	steps := []Step{{Op: Mount, Target: at, Source: "tmpfs", Type: "tmpfs", Data: "mode=0755", Flags: flags}}
	for _, g := range r.Groups {
		dir := path.Join(at, g.Name)
		steps = append(steps, Step{Op: Folder, Target: dir}, Step{Op: Mount, Target: dir, Source: g.Type, Type: g.Type, Data: g.Data, Flags: flags})
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

func devices(there []string) []Step {
	steps := []Step{{Op: Mount, Target: "/dev", Source: "tmpfs", Type: "tmpfs", Data: "mode=0755", Flags: []string{"nosuid", "noexec"}}}
	for _, d := range there {
		steps = append(steps, Step{Op: Bind, Target: "/dev/" + d, Source: "/dev/" + d})
	}
	return append(steps,
		Step{Op: Folder, Target: "/dev/pts"},
		Step{Op: Mount, Target: "/dev/pts", Source: "devpts", Type: "devpts", Data: "newinstance,ptmxmode=0666,mode=620,gid=5", Flags: []string{"nosuid", "noexec"}},
		Step{Op: Folder, Target: "/dev/shm"},
		Step{Op: Mount, Target: "/dev/shm", Source: "tmpfs", Type: "tmpfs", Data: "mode=1777", Flags: []string{"nosuid", "nodev"}},
		Step{Op: Folder, Target: "/dev/mqueue"},
		Step{Op: Mount, Target: "/dev/mqueue", Source: "mqueue", Type: "mqueue", Flags: []string{"nosuid", "nodev", "noexec"}},
		Step{Op: Link, Target: "/dev/ptmx", Source: "pts/ptmx"},
		Step{Op: Link, Target: "/dev/fd", Source: "/proc/self/fd"},
		Step{Op: Link, Target: "/dev/stdin", Source: "/proc/self/fd/0"},
		Step{Op: Link, Target: "/dev/stdout", Source: "/proc/self/fd/1"},
		Step{Op: Link, Target: "/dev/stderr", Source: "/proc/self/fd/2"},
		Step{Op: Terminal, Target: "/dev/console"},
	)
}
