// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"bytes"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables"
)

// left is what the host has of the lab, or could have, as sorted lines: links,
// routes, rules, settings, mounts in any namespace, groups, files and processes.
func (l *lab) left(t *testing.T) []string {
	t.Helper()
	all := slices.Concat(network(t), l.namespaces(t), l.groups(t), l.files(t))
	for name := range l.supervisors(t) {
		all = append(all, "process of container "+name)
	}
	slices.Sort(all)
	return all
}

// network is what the tests' network namespace has.
func network(t *testing.T) (all []string) {
	t.Helper()
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range links {
		all = append(all, "link "+i.Name)
	}
	for _, file := range []string{"/proc/net/route", "/proc/sys/net/ipv4/ip_forward"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file+": "+string(text))
	}
	tables, err := (&nftables.Conn{}).ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		all = append(all, fmt.Sprintf("rules in table %s of family %d", table.Name, table.Family))
	}
	return all
}

// namespaces are those of processes of the host in which something of the lab is
// mounted, with what it is.
func (l *lab) namespaces(t *testing.T) (all []string) {
	t.Helper()
	seen := map[string]bool{}
	for pid := range processes(t) {
		at := fmt.Sprintf("/proc/%d", pid)
		ns, err := os.Readlink(at + "/ns/mnt")
		if err != nil || seen[ns] {
			continue // it has ended, or is a zombie
		}
		seen[ns] = true
		mounts, _ := os.ReadFile(at + "/mountinfo")
		for line := range bytes.Lines(mounts) {
			if bytes.Contains(line, []byte(l.containers)) {
				all = append(all, fmt.Sprintf("mount in %s: %s", ns, line))
			}
		}
	}
	return all
}

func (l *lab) groups(t *testing.T) (all []string) {
	t.Helper()
	identity, err := os.ReadFile(filepath.Join(l.containers, "containers", "identity"))
	if err != nil {
		t.Fatal(err)
	}
	of := strings.TrimSpace(string(identity))
	err = filepath.WalkDir("/sys/fs/cgroup", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return nil // another's that has just been deleted
		}
		if strings.Contains(filepath.Dir(path), of) {
			all = append(all, "group "+path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (l *lab) files(t *testing.T) (all []string) {
	t.Helper()
	for _, dir := range []string{"containers/containers", "machines/machines", "machines/clusters"} {
		err := filepath.WalkDir(filepath.Join(l.containers, dir), func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				all = append(all, "file "+path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// leavesNothing deletes a cluster, the last of the lab, and checks the host.
func (c *cluster) leavesNothing(t *testing.T, before []string) {
	t.Helper()
	if now := c.left(t); len(now) < len(before)+3*c.machines {
		t.Errorf("with %d machines the host has no more than %d things: leftovers would not be noticed", c.machines, len(now))
	}
	c.run(t, "delete", "cluster", c.name, "--yes", "--timeout", creating.String())
	if diff := cmp.Diff(before, c.left(t)); diff != "" {
		t.Errorf("the host afterwards (-want +got):\n%s", diff)
	}
}
