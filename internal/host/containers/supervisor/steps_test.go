// SPDX-License-Identifier: Apache-2.0

package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// summary returns a step in one line.
func summary(s Step) string {
	return strings.Join(strings.Fields(fmt.Sprint(s.Op, " ", s.Target, " ", s.Source, " ", s.Data)), " ")
}

func TestPlan(t *testing.T) {
	groups := []Group{{"cpu,cpuacct", "cgroup", "cpu,cpuacct"}, {"systemd", "cgroup", "none,name=systemd"}}
	tests := map[string]struct {
		root Root
		from Op     // the relevant part starts with the first step of this kind
		at   string // and target
		want []string
	}{
		"the root comes first, and settings of the kernel are guarded": {Root{}, Overlay, "", []string{
			"overlay", "mount /proc proc", "keep /proc/sys/net", "again /proc/sys", "readonly /proc/sys", "restore /proc/sys/net",
		}},
		"version 1 is on a folder that takes no other hierarchy": {Root{Groups: groups}, Mount, "/sys/fs/cgroup", []string{
			"mount /sys/fs/cgroup tmpfs mode=0755",
			"folder /sys/fs/cgroup/cpu,cpuacct", "mount /sys/fs/cgroup/cpu,cpuacct cgroup cpu,cpuacct",
			"link /sys/fs/cgroup/cpu cpu,cpuacct", "link /sys/fs/cgroup/cpuacct cpu,cpuacct",
			"folder /sys/fs/cgroup/systemd", "mount /sys/fs/cgroup/systemd cgroup none,name=systemd",
			"readonly /sys/fs/cgroup",
		}},
		"version 2": {Root{Unified: true, Groups: groups}, Mount, "/sys/fs/cgroup", []string{"mount /sys/fs/cgroup cgroup2", "mount /dev tmpfs mode=0755"}},
		"only devices that are there": {Root{Devices: []string{"net/tun", "null"}}, Mount, "/dev", []string{
			"mount /dev tmpfs mode=0755", "bind /dev/net/tun /dev/net/tun", "bind /dev/null /dev/null", "folder /dev/pts",
		}},
		"what lies in a mount comes after it, shadows last": {
			Root{
				Binds:   []Step{{Source: "/b", Target: "/var/lib", Flags: []string{"ro"}}, {Source: "/c", Target: "/zed"}, {Source: "/a", Target: "/var"}},
				Shadows: map[string]string{"/proc/meminfo": "/s/1", "/proc/cpuinfo": "/s/0"},
			}, Bind, "/var", []string{
				"bind /var /a", "bind /var/lib /b", "locked /var/lib", "bind /zed /c",
				"bind /proc/cpuinfo /s/0", "readonly /proc/cpuinfo", "bind /proc/meminfo /s/1", "readonly /proc/meminfo",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			steps := Plan(tc.root)
			first := slices.IndexFunc(steps, func(s Step) bool { return s.Op == tc.from && s.Target == tc.at })
			var got []string
			for _, s := range steps[first:min(first+len(tc.want), len(steps))] {
				got = append(got, summary(s))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestNoDeviceHoldsDataOfTheHost(t *testing.T) {
	for _, s := range Plan(Root{Devices: Devices()}) {
		for _, bad := range []string{"sd", "vd", "nvme", "loop", "mem", "dm-", "mapper", "kvm"} {
			if strings.HasPrefix(s.Target, "/dev/"+bad) {
				t.Errorf("%s is there", s.Target)
			}
		}
	}
}

func TestRebootsInALoopComeSeldom(t *testing.T) {
	for name, tc := range map[string]struct{ ran, last, want time.Duration }{
		"an ordinary reboot":       {time.Hour, 0, 0},
		"too soon":                 {time.Second, 0, time.Second},
		"too soon again":           {time.Second, 4 * time.Second, 8 * time.Second},
		"too soon for a long time": {time.Second, 29 * time.Second, 30 * time.Second},
		"repaired":                 {time.Minute, 30 * time.Second, 0},
	} {
		if got := pauseBefore(tc.ran, tc.last); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
