// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEvaluate(t *testing.T) {
	good := Facts{Root: true, Unified: true, Controllers: []string{"cpu", "memory", "pids"}, Instances: 8192, Files: 1 << 20, Resource: true}
	with := func(change func(*Facts)) Facts {
		f := good
		change(&f)
		return f
	}
	for name, tc := range map[string]struct {
		facts Facts
		want  []string // the start of each, with ! if containers cannot run
	}{
		"nothing is missing": {good, nil},
		"no root":            {Facts{}, []string{"!this process is not root"}},
		"an old kernel": {with(func(f *Facts) { f.Openat2, f.Setattr = "ENOSYS", "ENOSYS" }), []string{
			"!the kernel does not know openat2 (ENOSYS)", "!the kernel does not know mount_setattr (ENOSYS)",
		}},
		"no namespaces": {with(func(f *Facts) { f.Namespaces = "EPERM" }), []string{"!processes get no namespaces"}},
		"no modules": {with(func(f *Facts) { f.Overlay, f.Veth, f.Bridge, f.NAT = "a", "b", "c", "d" }), []string{
			"!there is no overlayfs (a)", "!there are no pairs of links (b)", "!there are no bridges (c)", "!nftables does not translate addresses (d)",
		}},
		"no control groups": {with(func(f *Facts) { f.Groups, f.Controllers = "none", nil }), []string{"!control groups are unknown (none)"}},
		"no memory controller": {with(func(f *Facts) { f.Controllers = []string{"cpu", "pids"} }), []string{
			"!there is no control group controller memory",
		}},
		"in a container that gives nothing on": {with(func(f *Facts) { f.Occupied = true }), []string{"!control groups cannot be divided"}},
		"low limits": {with(func(f *Facts) { f.Instances, f.Files, f.Resource = 128, 1024, false }), []string{
			"root may have 128 inotify instances, which is enough for about 5", "a process may open 1024 files", "this process has no CAP_SYS_RESOURCE",
		}},
		"a firewall": {with(func(f *Facts) { f.Dropping = []string{"chain FORWARD of table filter"} }), []string{
			"a firewall of this host drops what containers send elsewhere: chain FORWARD of table filter",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for i, p := range Evaluate(tc.facts) {
				line := p.What
				if !p.Warning {
					line = "!" + line
				}
				if i < len(tc.want) && strings.HasPrefix(line, tc.want[i]) {
					line = tc.want[i]
				}
				got = append(got, line)
				if p.Remedy == "" {
					t.Errorf("%s: no remedy", p.What)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
