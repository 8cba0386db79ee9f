// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"net/netip"
	"os"
	"strings"
	"testing"
)

// TestCheckTriesAndLeavesNothing runs on a host where the other tests have run
// containers: Check must find nothing that prevents them.
func TestCheckTriesAndLeavesNothing(t *testing.T) {
	requireRoot(t)
	links, mounts := state(t)
	for _, p := range Check(t.Context()) {
		t.Log(p)
		if !p.Warning {
			t.Errorf("containers run here, yet %s", p)
		}
	}
	linksAfter, mountsAfter := state(t)
	if links != linksAfter || mounts != mountsAfter {
		t.Errorf("it left something:\n%s\n%s", linksAfter, mountsAfter)
	}
}

// state returns the links and mounts of this process.
func state(t *testing.T) (links, mounts string) {
	t.Helper()
	dev, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(dev)) {
		name, _, _ := strings.Cut(line, ":") // counters follow
		links += name + "\n"
	}
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return links, string(text)
}

func TestCheckReportsNetworkOfAnotherFolder(t *testing.T) {
	if !ownNetwork(t) {
		return
	}
	one, two := newLab(t), newLab(t)
	n := Network{Name: "net", Address: netip.MustParsePrefix("172.31.93.1/24")}
	if err := one.EnsureNetwork(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	for b, want := range map[*lab]int{one: 0, two: 1} {
		if got, err := b.CheckNetwork(n); err != nil || len(got) != want {
			t.Errorf("got %v, %v, want %d", got, err, want)
		}
	}
}
