// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAPodLeavesInotifyToTheHost: the kernel counts the instances of all Pods of a user
// among those of this user.
func TestAPodLeavesInotifyToTheHost(t *testing.T) {
	b, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		t.Fatal(err)
	}
	all, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, open(t, Options{}))
	taken := 0
	for user := range int64(4) {
		c := container(t, "inotify")
		c.Name, c.User, c.Stdin = fmt.Sprint("c", user), 1000+user, true
		p, err := s.Run(soon(t), c)
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscanf(line, "took %d", &n); err != nil {
			t.Fatalf("got %q: %v", line, err)
		}
		if taken += n; user == 0 && n == 0 {
			t.Error("a container got no instance")
		}
	}
	if taken > all/4 {
		t.Errorf("a Pod took %d instances of %d", taken, all)
	}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatalf("the plane's user gets no instance: %v", err)
	}
	_ = unix.Close(fd)
}

// TestAPodHasLimitsOfKernelObjects: everything that the kernel counts for users has
// a limit.
func TestAPodHasLimitsOfKernelObjects(t *testing.T) {
	s := start(t, open(t, Options{}))
	if s.host.rootless {
		t.Skip("a container has a namespace in that of the Pod, and sees the limits of its own")
	}
	names, err := os.ReadDir("/proc/sys/user")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range names {
		out, failed, _ := outcome(t, s, container(t, "cat", "/proc/sys/user/"+f.Name()))
		if n, err := strconv.Atoi(strings.TrimSpace(out)); err != nil || n > 1<<16 {
			t.Errorf("%s: got %q %q, want at most %d", f.Name(), out, failed, 1<<16)
		}
	}
}

// TestPodsLeaveSendingDescriptorsToPlane: the kernel counts the descriptors that all
// processes of a user have sent and that are not received yet.
func TestPodsLeaveSendingDescriptorsToPlane(t *testing.T) {
	h := open(t, Options{})
	s := start(t, h)
	c := container(t, "inflight")
	c.Stdin = true
	p, err := s.Run(soon(t), c)
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "sent ")
	if out, code := command(t, s, "echo", "fine"); out != "fine\n" {
		t.Errorf("a command of the Pod: got %q, %d", out, code)
	}
	other := start(t, h, func(s *Spec) { s.Name, s.Address = "default_other_2", netip.MustParseAddr("10.244.0.8") })
	if out, failed, e := outcome(t, other, container(t, "echo", "fine")); out != "fine\n" {
		t.Errorf("another Pod: got %q %q, %+v", out, failed, e)
	}
}
