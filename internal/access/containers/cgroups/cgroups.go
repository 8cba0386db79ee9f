// SPDX-License-Identifier: Apache-2.0

// Package cgroups makes, limits and removes control groups, in both versions of
// them, for containers.
//
// A container has a group with two below it:
//
//	<base>/<name>/supervisor   the process that looks after it
//	<base>/<name>/container    what its processes see as the root of all groups
//
// They are apart because a group of version 2 that has processes gives no
// controller to the groups below it: with the supervisor among them, systemd in
// a container could limit nothing.
package cgroups

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Mountpoint is where hosts have their control groups.
const Mountpoint = "/sys/fs/cgroup"

// Prefix is what the names of all our groups begin with.
const Prefix = "capstan"

// The groups of a container, below its own.
const (
	Supervisor = "supervisor"
	Container  = "container"
)

// Hierarchy is one tree of groups.
type Hierarchy struct {
	// Dir is where the host has it mounted.
	Dir string
	// Type is cgroup or cgroup2, as mount knows it.
	Type string
	// Data is what mount needs to be told to mount the same one.
	Data string
	// Controllers are those of version 1; none means that it only groups.
	Controllers []string
}

// Name is what the folder of a hierarchy of version 1 is called; "" for the only
// one of version 2.
func (h Hierarchy) Name() string {
	return strings.TrimPrefix(strings.TrimPrefix(h.Dir, Mountpoint), "/")
}

// Find tells from a process's file of groups which one of the hierarchy it is in.
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

// Host is what control groups a host has.
type Host struct {
	// Unified says that there is one hierarchy, of version 2, and no other.
	Unified bool
	// Hierarchies are all that are mounted, in the order of their folders.
	Hierarchies []Hierarchy
}

// Limits are what the processes of a container may use together; 0 is no limit.
type Limits struct {
	Memory   int64 // bytes
	MilliCPU int64 // thousandths of a core
	PIDs     int64 // processes and threads
}

// Parse reads from a mountinfo file what control groups a host has.
func Parse(mountinfo string) Host {
	var h Host
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		place, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(place) < 5 || len(kind) < 3 {
			continue
		}
		dir := place[4]
		if dir == Mountpoint { // it hides what was mounted there before
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

// controllers tells the controllers among the options of a mounted hierarchy of
// version 1, and how to mount it again.
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

// notControllers are the other options that a hierarchy of version 1 may show.
var notControllers = []string{"rw", "ro", "relatime", "noatime", "nosuid", "nodev", "noexec", "noprefix", "clone_children", "xattr", "cpuset_v2_mode", "favordynmods"}

// Dirs are the folders of a group, one in each hierarchy.
func (h Host) Dirs(group string) []string {
	var dirs []string
	for _, t := range h.Hierarchies {
		dirs = append(dirs, path.Join(t.Dir, group))
	}
	return dirs
}

// Unified2 is the folder of a group in the hierarchy of version 2, which new
// processes can be born into; "" if there is none.
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

// up are the folders of a group and of all above it.
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

// period is the time in which a share of the processors is counted, in
// microseconds: the kernel's default.
const period = 100000

// Settings are the files that set limits for a group.
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
