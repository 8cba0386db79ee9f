// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func TestASubnetOverlapsWithNothingOfTheHost(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		taken []string
		want  string
	}{
		"nothing is taken":                  {nil, "10.208.0.0/20"},
		"another network":                   {[]string{"192.168.1.0/24"}, "10.208.0.0/20"},
		"another plane has the first":       {[]string{"10.208.0.0/20"}, "10.208.16.0/20"},
		"a single address within the first": {[]string{"10.208.3.4/32"}, "10.208.16.0/20"},
		"a wide network":                    {[]string{"10.0.0.0/8"}, "172.28.0.0/20"},
		"two wide networks":                 {[]string{"10.0.0.0/8", "172.16.0.0/12"}, "192.168.192.0/20"},
		"all":                               {[]string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := freeSubnet(prefixes(tc.taken...))
			if tc.want == "" {
				if !errors.Is(err, ErrNoSubnet) {
					t.Errorf("got %s, %v, want ErrNoSubnet", got, err)
				}
				return
			}
			if err != nil || got.String() != tc.want || !inPool(got.Addr()) {
				t.Errorf("got %s, %v, want %s", got, err, tc.want)
			}
		})
	}
}

func TestNoTwoMachinesHaveOneAddress(t *testing.T) {
	t.Parallel()
	subnet := netip.MustParsePrefix("10.208.0.0/29") // .1 is the host, .7 for broadcasts
	taken := map[netip.Addr]bool{}
	var got []string
	for {
		a, err := freeAddress(subnet, taken)
		if err != nil {
			break
		}
		taken[a] = true
		got = append(got, a.String())
	}
	want := []string{"10.208.0.2", "10.208.0.3", "10.208.0.4", "10.208.0.5", "10.208.0.6"}
	if diff := cmp.Diff(want, got); diff != "" || gatewayOf(subnet).String() != "10.208.0.1" {
		t.Errorf("gateway %s, addresses (-want +got):\n%s", gatewayOf(subnet), diff)
	}
	delete(taken, netip.MustParseAddr("10.208.0.4"))
	if a, err := freeAddress(subnet, taken); err != nil || a.String() != "10.208.0.4" {
		t.Errorf("after one was freed: %s, %v", a, err)
	}
}

func TestRoutesOfTheHostAreRead(t *testing.T) {
	t.Parallel()
	table := "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
		"eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n" +
		"tun0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n" +
		"what is this\n"
	if diff := cmp.Diff(prefixes("192.168.1.0/24", "10.0.0.0/8"), Routes(table), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}
