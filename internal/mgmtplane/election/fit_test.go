// SPDX-License-Identifier: Apache-2.0

package election

import (
	"strings"
	"testing"
)

func TestFit(t *testing.T) {
	t.Parallel()
	there := Member{Name: "a", Host: "one", Dir: "/a", Address: "10.0.0.1:6443", Version: "v1.2.0"}
	local := there
	local.Address = "127.0.0.1:6443"
	tests := map[string]struct {
		self, other Member
		want        string // "" means that it fits
	}{
		"another host":                      {Member{Name: "b", Host: "two", Address: "10.0.0.2:6443", Version: "v1.2.0"}, there, ""},
		"a newer program":                   {Member{Name: "b", Host: "two", Address: "10.0.0.2:6443", Version: "v1.3.0-rc.1"}, there, ""},
		"a program in the making":           {Member{Name: "b", Host: "two", Address: "10.0.0.2:6443", Version: "(devel)"}, there, ""},
		"the same data directory again":     {Member{Name: "a", Host: "one", Address: "10.0.0.1:6443", Version: "v1.1.0"}, there, ""},
		"two of one host on its loopback":   {Member{Name: "b", Host: "one", Address: "127.0.0.1:6444", Version: "v1.2.0"}, local, ""},
		"the address of another":            {Member{Name: "b", Host: "two", Address: "10.0.0.1:6443"}, there, "address 10.0.0.1:6443 is that of the plane at 10.0.0.1:6443 on one in /a: choose another one with --listen, or wait for 9s after that one was lost"},
		"an address of its own host alone":  {Member{Name: "b", Host: "two", Address: "127.0.0.1:6443"}, there, "address 127.0.0.1:6443 is of use on this host alone, and the plane at 10.0.0.1:6443 on one in /a has to reach it: choose an address of the network with --listen"},
		"one that cannot be reached":        {Member{Name: "b", Host: "two", Address: "10.0.0.2:6443"}, local, "the plane at 127.0.0.1:6443 on one in /a has an address that is of use on its own host alone"},
		"by name":                           {Member{Name: "b", Host: "two", Address: "localhost:6443"}, there, "address localhost:6443 is of use on this host alone"},
		"an older program":                  {Member{Name: "b", Host: "two", Address: "10.0.0.2:6443", Version: "v1.1.9"}, there, "this program is version v1.1.9, and the plane at 10.0.0.1:6443 on one in /a is of v1.2.0: start one that is as new"},
		"an earlier build of what is ahead": {Member{Name: "b", Host: "two", Address: "10.0.0.2:6443", Version: "v1.2.0-0.20260101000000-abcdefabcdef+dirty"}, there, "is of v1.2.0"},
	}
	for name, tc := range tests {
		err := Fit(tc.self, []Member{tc.other})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q", name, err, tc.want)
		}
	}
}
