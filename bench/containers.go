// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/host/cgroups"
)

// Containers is the cost of container machines on the host.
type Containers struct {
	// WorkerMiB and ControlPlaneMiB are the largest private memory of a machine in steady
	// state, including its supervising processes: without the page cache.
	WorkerMiB       int64 `json:"workerMiB"`
	ControlPlaneMiB int64 `json:"controlPlaneMiB"`
	// DiskMiB is the disk space of all machines, including what they share with their
	// image.
	DiskMiB int64 `json:"diskMiB"`
	// RemovalSeconds is from the deletion of a worker's Machine until it no longer
	// exists.
	RemovalSeconds float64 `json:"removalSeconds"`
}

// table prints them for people.
func (c *Containers) table(row func(what, format string, args ...any)) {
	row("machines in steady state", "a control plane at most %d MiB, a worker at most %d MiB; %d MiB of disk for all", c.ControlPlaneMiB, c.WorkerMiB, c.DiskMiB)
	row("removal of a worker", "%.2f s", c.RemovalSeconds)
}

// useContainers gives the plane a folder for container machines next to the images, since
// hard links cannot cross file systems. The returned function removes it.
func (b *bench) useContainers(images string) (remove func(), err error) {
	if images == "" {
		return nil, errors.New("container machines need a node image: -images names a folder of them")
	}
	if images, err = filepath.Abs(images); err != nil {
		return nil, err
	}
	if b.containers, err = os.MkdirTemp(filepath.Dir(images), "bench-"); err != nil {
		return nil, fmt.Errorf("make a folder for container machines: %w", err)
	}
	remove = func() { _ = os.RemoveAll(b.containers) }
	if err := os.Symlink(images, filepath.Join(b.containers, "images")); err != nil {
		remove()
		return nil, err
	}
	b.flags = append(b.flags, "--containers-dir="+b.containers)
	return remove, nil
}

// footprint measures the cost of the machines in steady state, and how long it takes to
// delete one.
func (b *bench) footprint(ctx context.Context, r *Result) error {
	if !b.scenario.Containers {
		return nil
	}
	var machines clusterv1.MachineList
	if err := b.mgmt.List(ctx, &machines, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list Machines: %w", err)
	}
	groups, err := groupsOfContainers()
	if err != nil {
		return err
	}
	c, worker := &r.Containers, (*clusterv1.Machine)(nil)
	for i, m := range machines.Items {
		used, err := memoryOf(groups, m.Name)
		if err != nil {
			return err
		}
		if _, ok := m.Labels[clusterv1.MachineControlPlaneLabel]; ok {
			c.ControlPlaneMiB = max(c.ControlPlaneMiB, used>>20)
			continue
		}
		worker = &machines.Items[i]
		c.WorkerMiB = max(c.WorkerMiB, used>>20)
	}
	written, err := diskOf(b.containers)
	if err != nil {
		return err
	}
	c.DiskMiB = written >> 20
	if worker == nil {
		return nil
	}
	begin := time.Now()
	if err := b.mgmt.Delete(ctx, worker); err != nil {
		return fmt.Errorf("delete Machine %s: %w", worker.Name, err)
	}
	err = until(ctx, func() (bool, error) {
		err := b.mgmt.Get(ctx, client.ObjectKeyFromObject(worker), &clusterv1.Machine{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	c.RemovalSeconds = round(time.Since(begin).Seconds())
	return err
}

// groupsOfContainers returns the folders of the control groups that account for the
// memory of containers, by the container's name.
func groupsOfContainers() (map[string]string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	dir, pattern := cgroups.Mountpoint, "" // under systemd, its scope is above ours
	if !cgroups.Parse(string(mounts)).Unified {
		dir = filepath.Join(dir, "memory")
	}
	found := map[string]string{}
	for range 4 {
		pattern = filepath.Join(pattern, "*")
		all, err := filepath.Glob(filepath.Join(dir, pattern, cgroups.Container))
		if err != nil {
			return nil, err
		}
		for _, g := range all {
			if strings.Contains(g, "/"+cgroups.Prefix) {
				found[filepath.Base(filepath.Dir(g))] = filepath.Dir(g)
			}
		}
	}
	return found, nil
}

// memoryOf is the private memory in bytes of a machine's container, whose name starts
// with the machine's.
func memoryOf(groups map[string]string, machine string) (int64, error) {
	for name, dir := range groups {
		if !strings.HasPrefix(name, machine+"-") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
		if err != nil {
			return 0, err
		}
		return anonymous(string(text))
	}
	return 0, fmt.Errorf("Machine %s has no control group", machine) // a kind's name
}

// anonymous reads from a memory.stat file, of either version of control groups, the
// memory of the group and of those below it that is not page cache.
func anonymous(stat string) (int64, error) {
	for line := range strings.Lines(stat) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == "total_rss" || key == "anon" {
			return strconv.ParseInt(value, 10, 64)
		}
	}
	return 0, errors.New("read memory.stat: neither total_rss nor anon is in it")
}

// diskOf is the disk space in bytes of the files below a folder, each counted once,
// regardless of the number of its links: those that it shares with an image count too.
func diskOf(dir string) (bytes int64, err error) {
	seen := map[uint64]bool{} // by inode: the folder is on one file system
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = e.Info()
		}
		if errors.Is(err, fs.ErrNotExist) { // machines are running
			return nil
		}
		if err != nil {
			return err
		}
		s, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return fmt.Errorf("measure %s: the blocks of files are not known here", e.Name())
		}
		if !seen[s.Ino] {
			seen[s.Ino] = true
			bytes += s.Blocks * blockSize
		}
		return nil
	})
	return bytes, err
}

// blockSize is the unit of stat's blocks, in bytes.
const blockSize = 512
