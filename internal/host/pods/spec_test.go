// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestSandboxesThatCannotBeAreRefused(t *testing.T) {
	good := Spec{Name: "default_a_1", Hostname: "a", Address: netip.MustParseAddr("10.244.0.1")}
	if err := good.validate(); err != nil {
		t.Errorf("a good one: %v", err)
	}
	tests := map[string]struct {
		change func(*Spec)
		want   string
	}{
		"no name":            {func(s *Spec) { s.Name = "" }, "Name"},
		"a path":             {func(s *Spec) { s.Name = "a/b" }, "Name"},
		"the folder above":   {func(s *Spec) { s.Name = ".." }, "Name"},
		"no address":         {func(s *Spec) { s.Address = netip.Addr{} }, "Address"},
		"one of loopback":    {func(s *Spec) { s.Address = netip.MustParseAddr("127.0.0.2") }, "Address"},
		"one of version 6":   {func(s *Spec) { s.Address = netip.MustParseAddr("fd00::1") }, "Address"},
		"a long host name":   {func(s *Spec) { s.Hostname = strings.Repeat("a", 65) }, "Hostname"},
		"less than no limit": {func(s *Spec) { s.Memory = -1 }, "Memory"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := good
			tc.change(&s)
			if err := s.validate(); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want one of %s", err, tc.want)
			}
		})
	}
}

func TestContainersThatCannotBeAreRefused(t *testing.T) {
	good := func() Container { return Container{Name: "c", Root: "/image", Args: []string{"p"}, User: 1, Group: 1} }
	tests := map[string]struct {
		change   func(*Container)
		rootless bool
		want     string // "" is allowed
	}{
		"one":                           {change: func(*Container) {}},
		"no name":                       {change: func(c *Container) { c.Name = "" }, want: "Name"},
		"a root that is not absolute":   {change: func(c *Container) { c.Root = "image" }, want: "Root"},
		"no program":                    {change: func(c *Container) { c.Args = nil }, want: "Args"},
		"a user outside the range":      {change: func(c *Container) { c.User = 65536 }, want: "User"},
		"a group below it":              {change: func(c *Container) { c.Group = -1 }, want: "User"},
		"groups":                        {change: func(c *Container) { c.Groups = []int64{5} }},
		"groups without root":           {change: func(c *Container) { c.Groups = []int64{5} }, rootless: true, want: "Groups"},
		"its own group without root":    {change: func(c *Container) { c.Groups = []int64{1} }, rootless: true},
		"a variable that ends early":    {change: func(c *Container) { c.Env = []string{"A=\x00"} }, want: "Args, Env, Dir"},
		"too many mounts":               {change: func(c *Container) { c.Mounts = make([]Mount, 201) }, want: "Mounts"},
		"a mount over the root":         {change: func(c *Container) { c.Mounts = []Mount{{Source: "/a", Target: "/x/.."}} }, want: "mount Target"},
		"a mount over /proc":            {change: func(c *Container) { c.Mounts = []Mount{{Source: "/a", Target: "/proc/self"}} }, want: "mount Target"},
		"a mount over /dev":             {change: func(c *Container) { c.Mounts = []Mount{{Source: "/a", Target: "/dev"}} }, want: "mount Target"},
		"a mount over a device":         {change: func(c *Container) { c.Mounts = []Mount{{Source: "/a", Target: "/dev/null"}} }, want: "mount Target"},
		"a mount below a link":          {change: func(c *Container) { c.Mounts = []Mount{{Source: "/a", Target: "/dev/fd/3"}} }, want: "mount Target"},
		"a file in /dev":                {change: func(c *Container) { c.Mounts = []Mount{{Source: "/a", Target: "/dev/termination-log"}} }},
		"memory at /dev/shm":            {change: func(c *Container) { c.Mounts = []Mount{{Tmpfs: true, Target: "/dev/shm"}} }},
		"a source that is not absolute": {change: func(c *Container) { c.Mounts = []Mount{{Source: "a", Target: "/a"}} }, want: "mount /a"},
		"a subpath that leaves":         {change: func(c *Container) { c.Mounts = []Mount{{Source: "/a", SubPath: "b/../../c", Target: "/a"}} }, want: "mount /a"},
		"a subpath that stays":          {change: func(c *Container) { c.Mounts = []Mount{{Source: "/a", SubPath: "b/c", Target: "/a"}} }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := good()
			tc.change(&c)
			err := c.validate(tc.rootless)
			if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want one of %q", err, tc.want)
			}
		})
	}
}

func TestPodsShareTheProcessesOfTheirUser(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ wanted, free, want int64 }{
		"the default":               {0, 10000, 512},
		"one that wants fewer":      {100, 10000, 100},
		"one that wants more":       {2000, 10000, 1250},
		"when few are left":         {0, 2048, 256},
		"when very few are left":    {0, 500, 64},
		"the last":                  {0, 64, 64},
		"when none are left":        {0, 63, 0},
		"when others have too many": {0, -5, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := limitOfPod(tc.wanted, tc.free)
			if got != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
	// Together they never get more than the free ones.
	free, pods := int64(16384), 0
	for {
		n, err := limitOfPod(0, free)
		if err != nil {
			break
		}
		if free -= n; free < 0 {
			t.Fatalf("Pod %d gets %d too many", pods, -free)
		}
		pods++
	}
	if pods < 40 {
		t.Errorf("%d Pods run, want at least 40", pods)
	}
}

func TestRefusalsReportsAtBoundedRate(t *testing.T) {
	t.Parallel()
	var r refusals
	start := time.Unix(1000, 0)
	at := func(n byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, n}), 1) }
	limit := netip.AddrPort{}
	for i, step := range []struct {
		to    netip.AddrPort
		after time.Duration
		want  bool
	}{
		{at(1), 0, true}, {at(1), time.Second, false}, {at(2), time.Second, true}, {at(3), time.Second, true}, {at(4), time.Second, true},
		{at(5), time.Second, false}, // a scan of ports
		{limit, time.Second, true},  // is not hidden by it
		{limit, time.Second, false}, {at(1), refusedEvery, false},
		{at(5), refusedEvery + 1, true}, {at(1), refusedEvery + 1, true}, {limit, refusedEvery + 1, true},
	} {
		if got := r.first(step.to, start.Add(step.after)); got != step.want {
			t.Errorf("step %d, %s: got %t, want %t", i, step.to, got, step.want)
		}
	}
}
