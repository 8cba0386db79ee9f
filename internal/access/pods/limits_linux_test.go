// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/containers/cgroups"
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

// planeVariable has this program hold a sandbox, as a plane that is killed.
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
		t.Errorf("beside a running plane: got %v", err)
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

// BenchmarkRest tells what 20 holders cost while nothing happens.
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
