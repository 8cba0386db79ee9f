// SPDX-License-Identifier: Apache-2.0

package rootfs

import "golang.org/x/sys/unix"

// Op is a kind of step.
type Op string

// The kinds of steps.
const (
	Memory   Op = "memory"   // Data are the limits of memory that is the root
	Overlay  Op = "overlay"  // Layers, topmost first, below Upper, with Work, are the root; it is mounted at Target of the previous root
	Mount    Op = "mount"    // a file system of Type with Data
	Bind     Op = "bind"     // a folder or file of the host
	Message  Op = "message"  // a file in memory with a limit; a descriptor of it is sent through the socket Descriptor
	ReadOnly Op = "readonly" // what is mounted at Target refuses writes
	Freeze   Op = "freeze"   // Target refuses writes, unlike the rest of its mount and Except
	Hide     Op = "hide"     // Target is empty
	Folder   Op = "folder"   // Target is a folder
	File     Op = "file"     // Target is a file with Content, and replaces a file or link
	Link     Op = "link"     // Target is a link to Source
)

// Attributes of mounts.
const (
	RO     = unix.MOUNT_ATTR_RDONLY // equal to unix.MS_RDONLY, and so are the others
	NoSUID = unix.MOUNT_ATTR_NOSUID
	NoDev  = unix.MOUNT_ATTR_NODEV
	NoExec = unix.MOUNT_ATTR_NOEXEC
)

// Step is one step to create a root. Targets are paths in it, and no link in them
// is followed out of it.
type Step struct {
	Op     Op
	Target string `json:",omitempty"`
	Source string `json:",omitempty"`
	// SubPath is a path below the Source of a Bind, out of which no link leads.
	SubPath string `json:",omitempty"`
	// Descriptor is that of a detached mount instead of the Source of a Bind.
	Descriptor int    `json:",omitempty"`
	Type       string `json:",omitempty"`
	Data       string `json:",omitempty"`
	// Flags are attributes of what is mounted. Those of a Bind are added to the ones
	// that it has.
	Flags  uint64   `json:",omitempty"`
	Layers []string `json:",omitempty"`
	Upper  string   `json:",omitempty"`
	Work   string   `json:",omitempty"`
	// Content is that of a File.
	Content []byte `json:",omitempty"`
	// Except is a path below the target of a Freeze.
	Except string `json:",omitempty"`
	// Below includes everything that is mounted below the Source of a Bind.
	Below bool `json:",omitempty"`
	// Optional means to skip the step if the target does not exist.
	Optional bool `json:",omitempty"`
	// Exact means that no part of the target may be a link.
	Exact bool `json:",omitempty"`
}

// Root is how a root is created.
type Root struct {
	// Top is a folder of the host where it is assembled; other processes of the host
	// see nothing there.
	Top   string
	Steps []Step
	// Strict refuses a link that leads out of the root. Otherwise it is followed like
	// by a process whose root it is.
	Strict bool `json:",omitempty"`
	// Shared makes mounts visible in mount namespaces that are created later from that
	// of the container.
	Shared bool `json:",omitempty"`
}

// bindDevices binds devices of the host.
func bindDevices(names []string) (steps []Step) {
	for _, d := range names {
		steps = append(steps, Step{Op: Bind, Target: "/dev/" + d, Source: "/dev/" + d})
	}
	return steps
}

// streams are the links in /dev that programs expect.
func streams() []Step {
	return []Step{
		{Op: Link, Target: "/dev/fd", Source: "/proc/self/fd"},
		{Op: Link, Target: "/dev/stdin", Source: "/proc/self/fd/0"},
		{Op: Link, Target: "/dev/stdout", Source: "/proc/self/fd/1"},
		{Op: Link, Target: "/dev/stderr", Source: "/proc/self/fd/2"},
	}
}
