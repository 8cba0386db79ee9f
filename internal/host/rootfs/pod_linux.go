// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"fmt"
	"maps"
	"slices"
)

const (
	// podTop is where a root is assembled. It hides the host's folder in this mount
	// namespace alone.
	podTop = "/tmp"
	// imageFolder is the layer below the memory of a root.
	imageFolder = "/lower"
)

// podDevices are those of a container; everything else in /dev is created.
var podDevices = []string{"full", "null", "random", "tty", "urandom", "zero"}

// hidden are files of /proc that reveal data of the host, and frozen those that
// change it.
var (
	hidden = []string{"acpi", "asound", "interrupts", "kallsyms", "kcore", "keys", "key-users", "kmsg", "kpagecgroup", "kpagecount", "kpageflags", "latency_stats", "sched_debug", "scsi", "timer_list", "timer_stats", "vmallocinfo"}
	frozen = []string{"bus", "fs", "irq", "sys", "sysrq-trigger"}
)

// Pod is the root of a container of a Pod.
type Pod struct {
	// Image is a Bind of the unpacked image, without target.
	Image Step
	// Scratch is how many bytes may be written to the root, which are in memory.
	Scratch int64
	Files   map[string][]byte
	Mounts  []Step // of kind Bind, Mount or Message; parents come first
	// ReadOnly refuses writes to the root, and ReadOnlyProc to /proc: a file of each
	// process has the weight of the Pod's session.
	ReadOnly, ReadOnlyProc bool
}

// Root returns how to create the root: the image with memory above it, also for a
// read-only root, where mount points that the image lacks are created; small files
// of the sandbox; /proc and a /dev with a few devices, but no /sys; and the mounts.
func (p Pod) Root() Root {
	const none = NoSUID | NoDev | NoExec
	image := p.Image
	image.Op, image.Target = Bind, imageFolder
	steps := []Step{
		{Op: Memory, Data: Limits(p.Scratch) + ",mode=755", Flags: NoSUID | NoDev},
		{Op: Folder, Target: "/upper"},
		{Op: Folder, Target: "/work"},
		image,
		{Op: Overlay, Target: "/root", Layers: []string{podTop + imageFolder}, Upper: podTop + "/upper", Work: podTop + "/work", Data: ",userxattr", Flags: NoSUID | NoDev},
	}
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		steps = append(steps, Step{Op: File, Target: name, Content: p.Files[name]})
	}
	steps = append(steps, Step{Op: Mount, Target: "/dev", Source: "tmpfs", Type: "tmpfs", Data: "size=64k,nr_inodes=64,mode=755", Flags: NoSUID | NoExec, Exact: true})
	steps = append(steps, bindDevices(podDevices)...)
	steps = append(steps, streams()...)
	proc := uint64(none)
	if p.ReadOnlyProc {
		proc |= RO
	}
	steps = append(steps,
		Step{Op: Mount, Target: "/dev/shm", Source: "tmpfs", Type: "tmpfs", Data: Limits(16<<20) + ",mode=1777", Flags: none},
		Step{Op: Mount, Target: "/proc", Source: "proc", Type: "proc", Flags: proc, Exact: true},
	)
	for _, name := range hidden {
		steps = append(steps, Step{Op: Hide, Target: "/proc/" + name, Optional: true})
	}
	for _, name := range frozen {
		steps = append(steps, Step{Op: Freeze, Target: "/proc/" + name, Optional: true})
	}
	steps = append(steps, p.Mounts...)
	if p.ReadOnly {
		steps = append(steps, Step{Op: ReadOnly, Target: "/"})
	}
	return Root{Top: podTop, Steps: steps, Strict: true}
}

// Empty is a root that has only the present /proc: open files of a process in it
// lead nowhere else.
func Empty() Root {
	return Root{Top: podTop, Strict: true, Steps: []Step{
		{Op: Memory, Data: "size=4k,mode=555", Flags: NoSUID | NoDev | NoExec},
		{Op: Bind, Source: "/proc", Target: "/proc"},
		{Op: ReadOnly, Target: "/"},
	}}
}

// Limits returns the limits of memory: bytes, and as many files as fill them with
// blocks of the smallest size, since files without content take memory, too.
func Limits(bytes int64) string {
	return fmt.Sprintf("size=%d,nr_inodes=%d", bytes, max(bytes>>12, 16))
}
