// SPDX-License-Identifier: Apache-2.0

// Package cgroups creates, limits and removes control groups of both versions for
// containers.
//
// A container has a group with two groups below it:
//
//	<base>/<name>/supervisor   the supervisor process
//	<base>/<name>/container    the root of all groups, as its processes see it
//
// They are separate because a group of version 2 that has processes delegates no
// controller to the groups below it: if it contained the supervisor, systemd in a
// container could not limit anything.
//
// Package containerproc imports this one, so it imports nothing that is initialized
// late, such as path/filepath.
package cgroups

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mountpoint is where hosts mount their control groups.
const Mountpoint = "/sys/fs/cgroup"

// Prefix starts the names of all our groups.
const Prefix = "capstan"

// The groups of a container, below its main group.
const (
	Supervisor = "supervisor"
	Container  = "container"
)

// Hierarchy is one tree of groups.
type Hierarchy struct {
	// Dir is its mount point on the host.
	Dir string
	// Type is cgroup or cgroup2, as for mount.
	Type string
	// Data is the mount data with which mount gives the same hierarchy.
	Data string
	// Controllers are those of version 1; empty if the hierarchy only groups
	// processes.
	Controllers []string
}

// Name is the folder name of a hierarchy of version 1; "" for that of version 2.
func (h Hierarchy) Name() string {
	return strings.TrimPrefix(strings.TrimPrefix(h.Dir, Mountpoint), "/")
}

// Find returns the group of the hierarchy that a process is in. text is the
// process's cgroup file.
func (h Hierarchy) Find(text string) (group string, ok bool) {
	want := strings.Join(h.Controllers, ",")
	if want == "" {
		want = strings.TrimPrefix(h.Data, "none,") // the name, or nothing for version 2
	}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3) // number, controllers, group
		if len(parts) == 3 && parts[1] == want {
			return parts[2], true
		}
	}
	return "", false
}

// Host describes the control groups of a host.
type Host struct {
	// Unified is true if the only hierarchy is of version 2.
	Unified bool
	// Hierarchies are the mounted hierarchies, in the order of their folders.
	Hierarchies []Hierarchy
}

// Limits are the limits for all processes of a container together; 0 is no limit.
type Limits struct {
	Memory   int64 // bytes
	MilliCPU int64 // thousandths of a core
	PIDs     int64 // processes and threads
}

// Parse reads the control groups of a host from a mountinfo file.
func Parse(mountinfo string) Host {
	var h Host
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(place) < 5 || len(kind) < 3 {
			continue
		}
		dir := place[4]
		if dir == Mountpoint { // it hides earlier mounts
			h = Host{Unified: kind[0] == "cgroup2"}
		}
		if dir != Mountpoint && path.Dir(dir) != Mountpoint || kind[0] != "cgroup" && kind[0] != "cgroup2" {
			continue
		}
		found := Hierarchy{Dir: dir, Type: kind[0]}
		if found.Type == "cgroup" {
			found.Controllers, found.Data = controllers(kind[2])
		}
		h.Hierarchies = slices.DeleteFunc(h.Hierarchies, func(other Hierarchy) bool { return other.Dir == dir })
		h.Hierarchies = append(h.Hierarchies, found)
	}
	slices.SortFunc(h.Hierarchies, func(a, b Hierarchy) int { return cmp.Compare(a.Dir, b.Dir) })
	return h
}

// controllers returns the controllers among the mount options of a hierarchy of
// version 1, and the data with which it can be mounted again.
func controllers(options string) (names []string, data string) {
	var again []string
	for o := range strings.SplitSeq(options, ",") {
		switch {
		case strings.HasPrefix(o, "name="):
			again = append(again, "none", o)
		case slices.Contains(notControllers, o) || strings.Contains(o, "="):
		default:
			names, again = append(names, o), append(again, o)
		}
	}
	return names, strings.Join(again, ",")
}

// notControllers are other options that a hierarchy of version 1 may have.
var notControllers = []string{"rw", "ro", "relatime", "noatime", "nosuid", "nodev", "noexec", "noprefix", "clone_children", "xattr", "cpuset_v2_mode", "favordynmods"}

// Dirs are the folders of a group, one in each hierarchy.
func (h Host) Dirs(group string) []string {
	var dirs []string
	for _, t := range h.Hierarchies {
		dirs = append(dirs, path.Join(t.Dir, group))
	}
	return dirs
}

// Unified2 is the folder of a group in the hierarchy of version 2, in which new
// processes can be started; "" if there is no such hierarchy.
func (h Host) Unified2(group string) string {
	for _, t := range h.Hierarchies {
		if t.Type == "cgroup2" {
			return path.Join(t.Dir, group)
		}
	}
	return ""
}

// Controls reports whether a controller of version 1 is mounted.
func (h Host) Controls(name string) bool {
	return slices.ContainsFunc(h.Hierarchies, func(t Hierarchy) bool { return slices.Contains(t.Controllers, name) })
}

// up returns the folders of a group and of all groups above it.
func (h Hierarchy) up(group string) []string {
	dirs := []string{path.Join(h.Dir, group)}
	for group = path.Join("/", group); group != "/"; {
		group = path.Dir(group)
		dirs = append(dirs, path.Join(h.Dir, group))
	}
	return dirs
}

// usualWeight and usualShares are the kernel's defaults, in the two versions, for the part
// of the processors that a group gets if others need them, too.
const usualWeight, usualShares = 100, 1024

// Setting is a value for a file of a group.
type Setting struct{ File, Value string }

// period is the interval, in microseconds, over which a share of the processors is
// measured: the kernel's default.
const period = 100000

// Settings are the file contents that set the limits of a group.
func (h Host) Settings(group string, l Limits) []Setting {
	var all []Setting
	set := func(dir, file, value string) { all = append(all, Setting{path.Join(dir, group, file), value}) }
	for _, t := range h.Hierarchies {
		if l.Memory > 0 {
			switch {
			case h.Unified:
				set(t.Dir, "memory.max", format(l.Memory))
			case slices.Contains(t.Controllers, "memory"):
				set(t.Dir, "memory.limit_in_bytes", format(l.Memory))
			}
		}
		if l.MilliCPU > 0 {
			quota := format(l.MilliCPU * period / 1000)
			switch {
			case h.Unified:
				set(t.Dir, "cpu.max", quota+" "+format(period))
			case slices.Contains(t.Controllers, "cpu"):
				set(t.Dir, "cpu.cfs_period_us", format(period))
				set(t.Dir, "cpu.cfs_quota_us", quota)
			}
		}
		if l.PIDs > 0 && (h.Unified || slices.Contains(t.Controllers, "pids")) {
			set(t.Dir, "pids.max", format(l.PIDs))
		}
	}
	return all
}

func format(n int64) string { return strconv.FormatInt(n, 10) }
