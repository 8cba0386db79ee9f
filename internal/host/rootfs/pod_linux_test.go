// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"slices"
	"strings"
	"testing"
)

// at returns the position of the first step with a summary; -1 if there is none.
func at(r Root, text string) int {
	return slices.IndexFunc(r.Steps, func(s Step) bool { return summary(s) == text })
}

// TestPodRootOrder: a step must not hide an earlier one that protects the host.
func TestPodRootOrder(t *testing.T) {
	p := Pod{
		Scratch: 1 << 20, Files: map[string][]byte{"/etc/hosts": nil},
		Mounts: []Step{{Op: Bind, Target: "/etc", Source: "/volume", Flags: RO}, {Op: Mount, Target: "/cache", Source: "tmpfs"}},
	}
	order := []string{
		"memory size=1048576,nr_inodes=256,mode=755", "bind /lower", "overlay /root ,userxattr", "file /etc/hosts", "mount /dev tmpfs size=64k,nr_inodes=64,mode=755",
		"bind /dev/null /dev/null", "mount /proc proc", "hide /proc/kcore", "freeze /proc/sys", "bind /etc /volume ro", "mount /cache tmpfs",
	}
	last := -1
	for _, text := range order {
		i := at(p.Root(), text)
		if i <= last {
			t.Errorf("%q is step %d, want one after %d", text, i, last)
		}
		last = i
	}
	if got := at(p.Root(), "readonly /"); got >= 0 {
		t.Errorf("step %d makes the root read-only", got)
	}
	if !p.Root().Strict || p.Root().Shared {
		t.Error("links of an image are followed like those of a machine")
	}
}

func TestPodRootIsReadOnlyWhereAsked(t *testing.T) {
	root := Pod{ReadOnly: true, ReadOnlyProc: true}.Root()
	if i := at(root, "readonly /"); i != len(root.Steps)-1 {
		t.Errorf("the root becomes read-only in step %d of %d, want the last: mount points are created before", i, len(root.Steps))
	}
	if at(root, "mount /proc proc ro") < 0 {
		t.Error("/proc can be written: it has the weight of sessions")
	}
}

// TestPodRootHasNothingOfHost: neither /sys nor devices with data of the host are in a
// Pod, and no file system there honors set-user-ID bits or devices.
func TestPodRootHasNothingOfHost(t *testing.T) {
	for _, s := range append(Pod{}.Root().Steps, Empty().Steps...) {
		if strings.HasPrefix(s.Target, "/sys") {
			t.Errorf("%s is there", summary(s))
		}
		if mounts := s.Op == Memory || s.Op == Overlay || s.Op == Mount; mounts && s.Flags&NoSUID == 0 {
			t.Errorf("%s honors set-user-ID bits", summary(s))
		}
		if s.Op == Bind && s.Source != "" && s.Source != "/proc" && !slices.Contains(podDevices, strings.TrimPrefix(s.Source, "/dev/")) {
			t.Errorf("%s is of the host", summary(s))
		}
		if (s.Op == Hide || s.Op == Freeze) && !s.Optional {
			t.Errorf("%s fails on kernels without it", summary(s))
		}
	}
}

// TestLimitsBoundFilesToo: files without content take memory of the kernel.
func TestLimitsBoundFilesToo(t *testing.T) {
	for bytes, want := range map[int64]string{0: "size=0,nr_inodes=16", 4096: "size=4096,nr_inodes=16", 1 << 30: "size=1073741824,nr_inodes=262144"} {
		if got := Limits(bytes); got != want {
			t.Errorf("%d bytes: got %s, want %s", bytes, got, want)
		}
	}
}
