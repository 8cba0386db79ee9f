// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Detect returns the control groups of this host.
func Detect() (Host, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Host{}, fmt.Errorf("detect control groups: %w", err)
	}
	h := Parse(string(info))
	if len(h.Hierarchies) == 0 {
		return Host{}, fmt.Errorf("detect control groups: none is mounted at %s: mount cgroup2 there", Mountpoint)
	}
	return h, nil
}

// Make creates a group in every hierarchy, and the groups between it and the
// existing group above. Those delegate all their controllers to the groups below
// them. The new group itself may have processes.
func (h Host) Make(above, group string) error {
	rest, ok := strings.CutPrefix(group, above)
	if !ok {
		return fmt.Errorf("make control group %s: it is not below %s", group, above)
	}
	for _, t := range h.Hierarchies {
		at := path.Join(t.Dir, above)
		for part := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
			if t.Type == "cgroup2" {
				if err := delegate(at); err != nil {
					return err
				}
			}
			above := at
			at = path.Join(at, part)
			if err := os.Mkdir(at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("make control group: %w", err)
			}
			if slices.Contains(t.Controllers, "cpuset") {
				if err := inherit(above, at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// delegate delegates all controllers of a group to the groups below it. It ignores
// a controller that cannot be delegated: setting its limit will fail.
func delegate(dir string) error {
	have, err := os.ReadFile(path.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("read the controllers of a control group: %w", err)
	}
	for _, c := range strings.Fields(string(have)) {
		_ = os.WriteFile(path.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0)
	}
	return nil
}

// inherit copies the processors and memory nodes of the group above: a new group of
// version 1 has none, and cannot contain processes until it has some.
func inherit(above, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		value, err := os.ReadFile(path.Join(above, file))
		if err == nil {
			err = os.WriteFile(path.Join(dir, file), value, 0)
		}
		if err != nil {
			return fmt.Errorf("give a control group its processors: %w", err)
		}
	}
	// Groups that the container creates below inherit automatically.
	if err := os.WriteFile(path.Join(dir, "cgroup.clone_children"), []byte("1"), 0); err != nil {
		return fmt.Errorf("let control groups inherit: %w", err)
	}
	return nil
}

// Limit sets the limits of a group.
func (h Host) Limit(group string, l Limits) error {
	if !h.Unified {
		if l.Memory > 0 && !h.Controls("memory") || l.MilliCPU > 0 && !h.Controls("cpu") || l.PIDs > 0 && !h.Controls("pids") {
			return fmt.Errorf("limit control group %s: the host has not mounted the controller: mount memory, cpu and pids below %s, or ask for no limit", group, Mountpoint)
		}
	}
	for _, s := range h.Settings(group, l) {
		if err := set(s); err != nil {
			return fmt.Errorf("limit control group %s: %w", group, err)
		}
	}
	return nil
}

// set writes a setting. The file is missing if the group lacks the controller.
func set(s Setting) error {
	f, err := os.OpenFile(s.File, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		controller, _, _ := strings.Cut(path.Base(s.File), ".")
		return fmt.Errorf("it has no controller %s: take that off the kernel's option cgroup_disable, start capstan where it is delegated, or ask for no limit", controller)
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(s.Value)
	return errors.Join(err, f.Close())
}

// Weigh sets the share of the processors that a group gets if others need them,
// too; 100 is that of any other group. It returns false if the group lacks the
// controller.
func (h Host) Weigh(group string, weight int64) (bool, error) {
	for _, t := range h.Hierarchies {
		s := Setting{File: path.Join(t.Dir, group, "cpu.weight"), Value: format(weight)}
		switch {
		case h.Unified:
		case slices.Contains(t.Controllers, "cpu"):
			s = Setting{File: path.Join(t.Dir, group, "cpu.shares"), Value: format(weight * usualShares / usualWeight)}
		default:
			continue
		}
		if _, err := os.Stat(s.File); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err := set(s); err != nil {
			return false, fmt.Errorf("weigh control group %s: %w", group, err)
		}
		return true, nil
	}
	return false, nil
}

// Weighed reports whether a process is in a group that has a weight. text is its
// cgroup file. The root of all groups has no weight, nor has a group without the
// controller.
func (h Host) Weighed(text string) bool {
	for _, t := range h.Hierarchies {
		group, ok := t.Find(text)
		switch {
		case !ok:
		case slices.Contains(t.Controllers, "cpu"):
			return group != "/"
		case h.Unified:
			return slices.ContainsFunc(t.up(group), func(dir string) bool {
				_, err := os.Stat(path.Join(dir, "cpu.weight"))
				return err == nil
			})
		}
	}
	return false
}

// MaxPIDs is the lowest process limit among the groups that a process is in.
func (h Host) MaxPIDs(text string) int64 {
	var lowest int64 = math.MaxInt64
	for _, t := range h.Hierarchies {
		group, ok := t.Find(text)
		if !ok || !h.Unified && !slices.Contains(t.Controllers, "pids") {
			continue
		}
		for _, dir := range t.up(group) {
			text, err := os.ReadFile(path.Join(dir, "pids.max"))
			if err != nil {
				continue // the root has none
			}
			if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // else there is no limit
				lowest = min(lowest, n)
			}
		}
	}
	return lowest
}

// Enter moves a process with all its threads into a group, in every hierarchy.
func (h Host) Enter(group string, pid int) error {
	for _, dir := range h.Dirs(group) {
		if err := EnterDir(dir, pid); err != nil {
			return err
		}
	}
	return nil
}

// EnterDir moves a process into one group, given its folder.
func EnterDir(dir string, pid int) error {
	if err := os.WriteFile(path.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return fmt.Errorf("enter a control group: %w", err)
	}
	return nil
}

// Processes returns the processes in a group and below it.
func Processes(dir string) (pids []int, err error) {
	err = walk(dir, func(root *os.Root, group string) error {
		text, err := root.ReadFile(path.Join(group, "cgroup.procs"))
		for _, f := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(f); err == nil {
				pids = append(pids, pid)
			}
		}
		return missing(err)
	})
	return pids, err
}

// walk calls do for all groups below a folder, and for the folder, the lowest first. A
// container may have chosen their names: package fs refuses those that are not UTF-8,
// and the kernel paths that are longer than its limit.
func walk(dir string, do func(root *os.Root, group string) error) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return missing(err)
	}
	defer func() { _ = root.Close() }() // only read
	var from func(group string) error
	from = func(group string) error {
		f, err := root.Open(group)
		if err != nil {
			return missing(err)
		}
		entries, err := f.ReadDir(-1)
		errs := []error{missing(err), f.Close()}
		for _, e := range entries {
			if e.IsDir() {
				errs = append(errs, from(path.Join(group, e.Name())))
			}
		}
		return errors.Join(append(errs, do(root, group))...)
	}
	return from(".")
}

// Sub returns the names of the groups below a group, in any hierarchy.
func (h Host) Sub(group string) ([]string, error) {
	var names []string
	for _, dir := range h.Dirs(group) {
		entries, err := os.ReadDir(dir)
		if missing(err) != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Remove kills the processes in a group and below it, and removes the groups in
// every hierarchy. The group may not exist.
func (h Host) Remove(group string) error {
	for _, dir := range h.Dirs(group) {
		if err := Empty(dir); err != nil {
			return err
		}
		if err := missing(os.Remove(dir)); err != nil {
			return fmt.Errorf("remove control group: %w", err)
		}
	}
	return nil
}

const (
	// removal is the time limit for the processes of a group to exit. The kernel takes
	// milliseconds, except for a process that waits for a device.
	removal = 10 * time.Second
	// pause is the time between two checks. Groups of version 1 send no notification
	// when their last process exits.
	pause = 5 * time.Millisecond
)

// Empty kills the processes in a group and below it, and removes the groups below
// it.
func Empty(dir string) error {
	// A path above our groups would end all processes of the host.
	if !strings.Contains(dir, "/"+Prefix) {
		return fmt.Errorf("empty control group %s: it is none of ours, whose names begin with %s", dir, Prefix)
	}
	for deadline := time.Now().Add(removal); ; time.Sleep(pause) {
		pids, err := Processes(dir)
		if err != nil {
			return fmt.Errorf("read a control group: %w", err)
		}
		for _, pid := range pids {
			if pid == os.Getpid() {
				return fmt.Errorf("empty control group %s: this process is in it", dir)
			}
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have exited already
		}
		if err := thaw(dir); err != nil {
			return fmt.Errorf("thaw a control group: %w", err)
		}
		if len(pids) == 0 {
			if err = removeBelow(dir); err == nil {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("empty control group %s: %d processes do not go, such as %v, last error: %w", dir, len(pids), pids[:min(len(pids), 3)], errors.Join(err, os.ErrDeadlineExceeded))
		}
	}
}

func removeBelow(dir string) error {
	return walk(dir, func(root *os.Root, group string) error {
		if group == "." {
			return nil
		}
		return missing(root.Remove(group))
	})
}

// thaw lets processes of version 1 that a container froze receive their signals.
func thaw(dir string) error {
	return walk(dir, func(root *os.Root, group string) error {
		f, err := root.OpenFile(path.Join(group, "freezer.state"), os.O_WRONLY, 0)
		if err != nil {
			return missing(err)
		}
		_, err = f.WriteString("THAWED")
		return errors.Join(missing(err), f.Close())
	})
}

// missing drops an error that means that a group does not exist, also if it is
// removed while it is read, or that another group lists the processes of its threads.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EOPNOTSUPP) {
		return nil
	}
	return err
}
