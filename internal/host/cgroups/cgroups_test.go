// SPDX-License-Identifier: Apache-2.0

package cgroups

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	version1 = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/x,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
42 31 0:38 / /somewhere/else/memory rw,relatime - cgroup cgroup rw,memory
`
	version2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"
)

func TestParse(t *testing.T) {
	hybrid := Host{Hierarchies: []Hierarchy{
		{Dir: "/sys/fs/cgroup/cpu,cpuacct", Type: "cgroup", Data: "cpu,cpuacct", Controllers: []string{"cpu", "cpuacct"}},
		{Dir: "/sys/fs/cgroup/memory", Type: "cgroup", Data: "memory", Controllers: []string{"memory"}},
		{Dir: "/sys/fs/cgroup/systemd", Type: "cgroup", Data: "none,name=systemd"},
		{Dir: "/sys/fs/cgroup/unified", Type: "cgroup2"},
	}}
	unified := Host{Unified: true, Hierarchies: []Hierarchy{{Dir: "/sys/fs/cgroup", Type: "cgroup2"}}}
	for name, tc := range map[string]struct {
		mountinfo string
		want      Host
	}{
		"version 1 next to version 2":    {version1, hybrid},
		"version 2 alone":                {version2, unified},
		"version 2 over all the others":  {version1 + version2, unified},
		"none":                           {"23 1 8:1 / / rw - ext4 /dev/sda1 rw\n", Host{}},
		"a line that is cut off":         {"23 1 8:1 /\n", Host{}},
		"the same one mounted twice":     {version1 + "50 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n", hybrid},
		"a tmpfs that hides the earlier": {version2 + version1, hybrid},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Parse(tc.mountinfo)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		mountinfo string
		limits    Limits
		want      []Setting
	}{
		"no limit": {version1, Limits{}, nil},
		"version 1": {version1, Limits{Memory: 1 << 30, MilliCPU: 1500}, []Setting{
			{"/sys/fs/cgroup/cpu,cpuacct/g/cpu.cfs_period_us", "100000"},
			{"/sys/fs/cgroup/cpu,cpuacct/g/cpu.cfs_quota_us", "150000"},
			{"/sys/fs/cgroup/memory/g/memory.limit_in_bytes", "1073741824"},
		}},
		"version 2": {version2, Limits{Memory: 1 << 30, MilliCPU: 10, PIDs: 512}, []Setting{
			{"/sys/fs/cgroup/g/memory.max", "1073741824"},
			{"/sys/fs/cgroup/g/cpu.max", "1000 100000"},
			{"/sys/fs/cgroup/g/pids.max", "512"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Parse(tc.mountinfo).Settings("/g", tc.limits)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestGroupsOfAProcessAreFound(t *testing.T) {
	const text = "9:name=systemd:/a\n4:memory:/b:c\n2:cpu,cpuacct:/d\n0::/e\n"
	want := map[string]string{"cpu,cpuacct": "/d", "memory": "/b:c", "systemd": "/a", "unified": "/e"}
	got := map[string]string{}
	for _, h := range Parse(version1).Hierarchies {
		if group, ok := h.Find(text); ok {
			got[h.Name()] = group
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if _, ok := (Hierarchy{Controllers: []string{"pids"}}).Find(text); ok {
		t.Error("it found what is not there")
	}
}
