// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/cgroups"
)

func TestAContainerWithoutMemoryIsEnded(t *testing.T) {
	h := open(t, Options{})
	if h.rootless {
		t.Skip("without root there are no limits of memory")
	}
	for name, change := range map[string]func(*Spec, *Container){
		"its own limit": func(_ *Spec, c *Container) { c.Memory = 64 << 20 },
		"that of a Pod": func(s *Spec, _ *Container) { s.Memory = 64 << 20 },
	} {
		t.Run(name, func(t *testing.T) {
			c := container(t, "memory")
			s := start(t, h, func(s *Spec) { s.Name = strings.ReplaceAll(name, " ", "-"); change(s, &c) })
			if out, _, e := outcome(t, s, c); e.Signal != int(unix.SIGKILL) || !e.OOMKilled {
				t.Errorf("got %q, %+v", out, e)
			}
			if out, _, e := outcome(t, s, container(t, "echo", "fine")); out != "fine\n" || e.OOMKilled {
				t.Errorf("the next one: got %q, %+v", out, e)
			}
		})
	}
}

func TestProcessesHaveALimit(t *testing.T) {
	s := start(t, open(t, Options{}), func(s *Spec) { s.PIDs = 100 })
	c := container(t, "forks")
	out, failed, e := outcome(t, s, c)
	if e.Code != 0 && e.Code != 2 { // the Go runtime ends a program that gets no thread
		t.Errorf("got %q, %+v", out, e)
	}
	if !strings.Contains(out+failed, "stopped after") && !strings.Contains(out+failed, "failed to create new OS thread") {
		t.Errorf("got %q %.300q", out, failed)
	}
	if out, _, _ := outcome(t, s, container(t, "echo", "fine")); out != "fine\n" {
		t.Errorf("afterwards: got %q", out)
	}
}

func TestProcessLimitHoldsForAllContainersTogether(t *testing.T) {
	s := start(t, open(t, Options{}), func(s *Spec) { s.PIDs = 200 })
	first := container(t, "threads", "120")
	p, err := s.Run(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "has all\n")
	second := container(t, "threads", "120")
	second.Name = "second"
	p, err = s.Run(soon(t), second)
	if err != nil {
		t.Fatal(err)
	}
	// The Go runtime ends a program that gets no thread.
	if e, failed := p.Wait(), all(t, p.Stderr()); e.Code != 2 || !strings.Contains(failed, "failed to create new OS thread") {
		t.Errorf("a second container: got %+v %.300q", e, failed)
	}
}

func TestDefaultProcessLimitIsThatOfTheBook(t *testing.T) {
	h := open(t, Options{})
	s := start(t, h)
	if s.spec.PIDs != min(512, max(64, h.budget/8)) {
		t.Errorf("a Pod may have %d processes of %d of all Pods", s.spec.PIDs, h.budget)
	}
	c := container(t, "cat", "/proc/self/limits")
	if out, _, e := outcome(t, s, c); e.Code != 0 || !regexp.MustCompile(fmt.Sprintf(`(?m)^Max processes +%d +%[1]d `, s.spec.PIDs)).MatchString(out) {
		t.Errorf("got %+v, want %d processes:\n%s", e, s.spec.PIDs, out)
	}
	if h.rootless {
		return
	}
	for group, want := range map[string]int64{h.group: h.budget, s.containersGroup(): s.spec.PIDs} {
		file := filepath.Join(cgroups.Mountpoint, "pids", group, "pids.max")
		if h.groups.Unified {
			file = filepath.Join(cgroups.Mountpoint, group, "pids.max")
		}
		if got, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(got)) != fmt.Sprint(want) {
			t.Errorf("%s: got %q, %v, want %d", file, got, err, want)
		}
	}
}

// TestPodsGetHalfOfTheProcessesOfAUser lowers the limit of this process, which is a plain
// user's.
func TestPodsGetHalfOfTheProcessesOfAUser(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root has no such limit")
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &old); err != nil {
		t.Fatal(err)
	}
	low := unix.Rlimit{Cur: min(4000, old.Max), Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NPROC, &old); err != nil {
			t.Error(err)
		}
	})
	h := open(t, Options{})
	if h.budget > int64(low.Cur)/2 || h.budget < 1 {
		t.Fatalf("all Pods may have %d processes, the user %d", h.budget, low.Cur)
	}
	h.budget = 130 // two Pods
	first := start(t, h)
	start(t, h, func(s *Spec) { s.Name, s.Address = "default_test_2", netip.AddrFrom4([4]byte{10, 244, 0, 8}) })
	third := first.spec
	third.Name, third.PIDs = "default_test_3", 0
	if _, err := h.Start(t.Context(), third); err == nil || !strings.Contains(err.Error(), "only 2 processes are left for Pods") || !strings.Contains(err.Error(), "ulimit -u") {
		t.Errorf("a Pod too many: %v", err)
	}
	if err := first.Stop(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Start(t.Context(), third); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}

func TestProcessorsHaveALimit(t *testing.T) {
	h := open(t, Options{})
	if h.rootless {
		t.Skip("without root there are no limits of processors")
	}
	s := start(t, h, func(s *Spec) { s.MilliCPU = 500 })
	for _, set := range h.groups.Settings(s.containersGroup(), cgroups.Limits{MilliCPU: 500}) {
		got, err := os.ReadFile(set.File)
		if err != nil || strings.TrimSpace(string(got)) != set.Value {
			t.Errorf("%s: got %q, %v, want %s", set.File, got, err, set.Value)
		}
	}
}

// planeVariable makes this program hold a sandbox, like a plane that is killed.
const planeVariable = "CAPSTAN_TEST_PODS_PLANE"

func TestNothingOutlivesThePlane(t *testing.T) {
	if dir := os.Getenv(planeVariable); dir != "" {
		h, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := start(t, h)
		if _, err := s.Run(t.Context(), container(t, "stubborn")); err != nil {
			t.Fatal(err)
		}
		fmt.Println("holder", s.holder.Pid)
		<-t.Context().Done() // it is killed before
		return
	}
	needProbe(t)
	dir := filepath.Join(t.TempDir(), "state")
	plane := exec.Command("/proc/self/exe", "-test.run=^TestNothingOutlivesThePlane$")
	plane.Env = append(os.Environ(), planeVariable+"="+dir, rootlessVariable+"="+probe)
	out, err := plane.StdoutPipe()
	if err == nil {
		err = plane.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	holder := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if n, ok := strings.CutPrefix(lines.Text(), "holder "); ok {
			if holder, err = strconv.Atoi(n); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if holder == 0 {
		t.Fatal("the other plane started no sandbox")
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "another plane runs there") {
		t.Errorf("next to a running plane: got %v", err)
	}
	end, err := unix.PidfdOpen(holder, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(end) }()
	if err := plane.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = plane.Wait() // it was killed
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(end), Events: unix.POLLIN}}, int((20 * time.Second).Milliseconds())); n != 1 || err != nil {
		t.Fatalf("the holder lives on: %v", err)
	}
	h, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}()
	if !h.rootless {
		for _, d := range h.groups.Dirs(h.group) {
			if _, err := os.Stat(d); err == nil {
				t.Errorf("%s is left", d)
			}
		}
	}
}

func BenchmarkFirstLine(b *testing.B) {
	h := open(b, Options{})
	c := container(b, "echo", "first")
	for b.Loop() {
		s := start(b, h)
		if out, _, e := outcome(b, s, c); out != "first\n" {
			b.Fatalf("got %q, %+v", out, e)
		}
		if err := s.Stop(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDial(b *testing.B) {
	s := start(b, open(b, Options{}))
	p, err := s.Run(b.Context(), container(b, "serve", ":9443"))
	if err != nil {
		b.Fatal(err)
	}
	until(b, p.Stdout(), "listening\n")
	for b.Loop() {
		c, err := s.Dial(b.Context(), 9443)
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRest measures the cost of 20 idle holders.
func BenchmarkRest(b *testing.B) {
	h := open(b, Options{})
	var all []*Sandbox
	for i := range 20 {
		all = append(all, start(b, h, func(s *Spec) {
			s.Name, s.Address = fmt.Sprint("default_test_", i), netip.AddrFrom4([4]byte{10, 244, 0, byte(i + 1)})
		}))
	}
	used := func() (ticks int) {
		for _, s := range all {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.holder.Pid))
			if err != nil {
				b.Fatal(err)
			}
			fields := strings.Fields(string(text))
			for _, f := range fields[13:15] {
				n, err := strconv.Atoi(f)
				if err != nil {
					b.Fatal(err)
				}
				ticks += n
			}
		}
		return ticks
	}
	before := used()
	second, seconds := time.NewTicker(time.Second), 0
	defer second.Stop()
	for b.Loop() {
		<-second.C
		seconds++
	}
	anonymous, pss := 0, 0
	for _, s := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", s.holder.Pid))
		if err != nil {
			b.Skip("a plain user may not see into a holder")
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if n, err := strconv.Atoi(f[1]); err == nil && f[0] == "Pss:" {
				pss += n
			} else if err == nil && f[0] == "Anonymous:" {
				anonymous += n
			}
		}
	}
	b.ReportMetric(float64(used()-before)/100/float64(seconds), "cores")
	b.ReportMetric(float64(anonymous)/20, "KiB-anon/pod")
	b.ReportMetric(float64(pss)/20, "KiB-pss/pod")
}

func TestPodsLeaveDescriptorsForTheNext(t *testing.T) {
	t.Parallel()
	const all = 1000
	d := &descriptors{all: all}
	took := func(s *Sandbox) (n int) {
		for ; d.take(s, ofConnection) == nil; n += ofConnection {
			if n > all {
				t.Fatal("a Pod takes without end")
			}
		}
		return n
	}
	first, second, third := &Sandbox{}, &Sandbox{}, &Sandbox{}
	for _, tc := range []struct {
		of   *Sandbox
		want int
	}{{first, 500}, {second, 250}, {third, 124}, {first, 0}} {
		if got := took(tc.of); got != tc.want {
			t.Errorf("took %d, want %d", got, tc.want)
		}
	}
	d.give(first, 500)
	if got := took(second); got != 188 { // half of 1000-124 is 438
		t.Errorf("once others are closed: took %d more, want 188", got)
	}
	if d.taken != 250+188+124 {
		t.Errorf("%d are taken", d.taken)
	}
}

func TestConnectionsOfAllPodsHaveALimit(t *testing.T) {
	o := &outside{}
	h := open(t, Options{Network: o, Descriptors: 400})
	refused := make(chan string, 10)
	reports := func(s *Spec) { s.Refused = func(why string) { refused <- why } }
	s := start(t, h, reports)
	out, failed, e := outcome(t, s, container(t, "dialmany", "203.0.113.9:81")) // 300 of them
	if want := (400/2 - ofSandbox - ofContainer) / ofConnection; e.Code != 0 || out != fmt.Sprintf("open %d reset %d\n", want, 300-want) {
		t.Errorf("got %q %q, %+v", out, failed, e)
	}
	if why := <-refused; !strings.Contains(why, "of 400 for all of them") || !strings.Contains(why, "ulimit -n") {
		t.Errorf("reported %q", why)
	}
	if len(refused) > 0 {
		t.Errorf("reported again: %q", <-refused)
	}
	other := start(t, h, func(s *Spec) { s.Name, s.Address = "default_other_2", netip.MustParseAddr("10.244.0.8") })
	if out, failed, _ := outcome(t, other, container(t, "dial", "203.0.113.9:80")); !strings.Contains(out, "to 203.0.113.9:80") {
		t.Errorf("another Pod: got %q %q", out, failed)
	}
	o.mu.Lock()
	for _, c := range o.held {
		_ = c.Close()
	}
	o.held = nil
	o.mu.Unlock()
	if out, failed, _ := outcome(t, s, container(t, "dial", "203.0.113.9:80")); !strings.Contains(out, "to 203.0.113.9:80") {
		t.Errorf("when others are closed: got %q %q", out, failed)
	}
	if err := errors.Join(s.Stop(t.Context(), 0), other.Stop(t.Context(), 0)); err != nil {
		t.Error(err)
	}
	if got := h.descriptors.taken; got != 0 {
		t.Errorf("%d descriptors are taken in the end", got)
	}
}

func TestAPodWithoutDescriptorsDoesNotStart(t *testing.T) {
	h := open(t, Options{Descriptors: 2*(ofSandbox+ofContainer) - 1})
	s := start(t, h)
	_, err := s.Run(t.Context(), container(t, "echo", "fine"))
	if err == nil || !strings.Contains(err.Error(), "raise the limit of the plane (ulimit -n)") {
		t.Errorf("a container: %v", err)
	}
	_, err = h.Start(t.Context(), Spec{Name: "default_other_2", Hostname: "other", Address: netip.MustParseAddr("10.244.0.8")})
	if err == nil || !strings.Contains(err.Error(), "raise the limit of the plane (ulimit -n)") {
		t.Errorf("another Pod: %v", err)
	}
}
