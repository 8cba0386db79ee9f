// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// summary returns a step in one line.
func summary(s Step) string {
	text := fmt.Sprint(s.Op, " ", s.Target, " ", s.Source, " ", s.Data, " ", s.Except)
	if s.Flags&RO != 0 {
		text += " ro"
	}
	return strings.Join(strings.Fields(text), " ")
}

func TestMachineRoot(t *testing.T) {
	groups := []Group{{"cpu,cpuacct", "cgroup", "cpu,cpuacct"}, {"systemd", "cgroup", "none,name=systemd"}}
	tests := map[string]struct {
		root Machine
		from Op     // the relevant part starts with the first step of this kind
		at   string // and target
		want []string
	}{
		"the root comes first, and settings of the kernel are guarded": {Machine{}, Overlay, "", []string{
			"overlay", "mount /proc proc", "freeze /proc/sys /proc/sys/net", "freeze /proc/sysrq-trigger",
		}},
		"version 1 is on a folder that takes no other hierarchy": {Machine{Groups: groups}, Mount, "/sys/fs/cgroup", []string{
			"mount /sys/fs/cgroup tmpfs mode=0755",
			"mount /sys/fs/cgroup/cpu,cpuacct cgroup cpu,cpuacct",
			"link /sys/fs/cgroup/cpu cpu,cpuacct", "link /sys/fs/cgroup/cpuacct cpu,cpuacct",
			"mount /sys/fs/cgroup/systemd cgroup none,name=systemd",
			"readonly /sys/fs/cgroup",
		}},
		"version 2": {Machine{Unified: true, Groups: groups}, Mount, "/sys/fs/cgroup", []string{"mount /sys/fs/cgroup cgroup2", "mount /dev tmpfs mode=0755"}},
		"only devices that are there": {Machine{Devices: []string{"net/tun", "null"}}, Mount, "/dev", []string{
			"mount /dev tmpfs mode=0755", "bind /dev/net/tun /dev/net/tun", "bind /dev/null /dev/null", "mount /dev/pts devpts newinstance,ptmxmode=0666,mode=620,gid=5",
		}},
		"what lies in a mount comes after it, shadows last": {
			Machine{
				Binds:   []Step{{Op: Bind, Source: "/b", Target: "/var/lib", Flags: RO}, {Op: Bind, Source: "/c", Target: "/zed"}, {Op: Bind, Source: "/a", Target: "/var"}},
				Shadows: map[string]string{"/proc/meminfo": "/s/1", "/proc/cpuinfo": "/s/0"},
			}, Bind, "/var", []string{
				"bind /var /a", "bind /var/lib /b ro", "bind /zed /c",
				"bind /proc/cpuinfo /s/0 ro", "bind /proc/meminfo /s/1 ro",
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			steps := tc.root.Root().Steps
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
	for _, s := range (Machine{Devices: MachineDevices()}).Root().Steps {
		for _, bad := range []string{"sd", "vd", "nvme", "loop", "mem", "dm-", "mapper", "kvm"} {
			if strings.HasPrefix(s.Target, "/dev/"+bad) {
				t.Errorf("%s is there", s.Target)
			}
		}
	}
}
