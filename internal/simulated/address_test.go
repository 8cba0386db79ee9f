// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulated

import (
	"cmp"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/loopback"
	"github.com/capstan-dev/capstan/internal/simulated/statedir"
)

func TestOnlyAddressesOfTheirOwnAreGiven(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const theirs = "leave it empty to get one, or choose an address from 127.64.0.1 to 127.127.255.254"
	for endpoint, want := range map[clusterv1.APIEndpoint]string{
		{Host: "127.66.1.1"}:                     "",
		{Host: "127.127.255.254", Port: 6443}:    "",
		{Port: 6443}:                             theirs,
		{Host: "0.0.0.0", Port: 6443}:            theirs,
		{Host: "::", Port: 6443}:                 theirs,
		{Host: "::1", Port: 6443}:                theirs,
		{Host: "::1%lo", Port: 6443}:             theirs,
		{Host: "::ffff:127.66.1.2", Port: 6443}:  theirs,
		{Host: "2001:db8::1"}:                    theirs,
		{Host: "127.0.0.1", Port: 6443}:          theirs,
		{Host: "127.63.255.254"}:                 theirs,
		{Host: "127.128.0.1"}:                    theirs,
		{Host: "127.64.0.0"}:                     theirs,
		{Host: "127.66.7.255"}:                   theirs,
		{Host: "127.127.255.255"}:                theirs,
		{Host: "10.0.0.1"}:                       theirs,
		{Host: "256.1.1.1"}:                      theirs,
		{Host: "127.66.1"}:                       theirs,
		{Host: "127.66.1.1;"}:                    theirs,
		{Host: "127.066.1.1"}:                    theirs,
		{Host: "example.com", Port: 6443}:        theirs,
		{Host: "localhost"}:                      theirs,
		{Host: "127.66.1.2", Port: 22}:           theirs,
		{Host: "127.66.1.2", Port: 6444}:         theirs,
		{Host: "127.66.1.2", Port: 70000}:        theirs,
		{Host: "127.66.1.2", Port: 6443 + 1<<16}: theirs,
		{Host: "127.66.1.2", Port: -1}:           theirs,
	} {
		uid := statedir.FileName(endpoint.String())
		_, err := l.b.ensureCluster(clusterSpec{Namespace: "ns", Name: uid, UID: types.UID(uid), Endpoint: endpoint})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", endpoint, err, want)
		}
		if checked := l.b.CheckEndpoint(endpoint); (checked == nil) != (err == nil) {
			t.Errorf("%s: got %v before and %v after", endpoint, checked, err)
		}
	}
}

// The guard allows an address exactly while the API server of a cluster of this backend
// listens there, and ignores which objects name it.
func TestGuardAllowsEndpointsWhileTheyListen(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	at := netip.MustParseAddrPort(l.server())
	expect := func(want bool, when string) {
		t.Helper()
		if err := l.guard.Check(at); (err == nil) != want {
			t.Errorf("%s: got %v, want allowed %t", when, err, want)
		}
	}
	set := func(faults ...infrav1.ClusterFault) {
		t.Helper()
		l.cluster.Faults = faults
		if _, err := l.b.ensureCluster(l.cluster); err != nil {
			t.Fatal(err)
		}
	}
	expect(false, "before a machine has an API server")
	l.controlPlane(1)
	expect(true, "with an API server")
	for _, claimed := range []string{"127.0.0.1", "127.0.0.1:2379", "0.0.0.0", "127.66.1.2:22", l.endpoint.Host} {
		host, port, _ := strings.Cut(claimed, ":")
		number, _ := strconv.ParseInt(port, 10, 32)
		endpoint := clusterv1.APIEndpoint{Host: host, Port: int32(number)}
		if _, err := l.b.ensureCluster(clusterSpec{Namespace: "ns", Name: "claim", UID: l.cluster.UID + "-claim", Endpoint: endpoint}); err == nil {
			t.Errorf("%s is given to another cluster", claimed)
		}
		to := netip.AddrPortFrom(netip.MustParseAddr(host), cmp.Or(uint16(number), loopback.Port))
		if err := l.guard.Check(to); err == nil && to != at {
			t.Errorf("%s is allowed since an object names it", claimed)
		}
	}
	expect(true, "when another cluster named its address")
	set(infrav1.ClusterFaultAPIServerRefuses)
	expect(false, "while the API server refuses connections")
	set()
	expect(true, "when it listens again")
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	expect(false, "when the plane stopped")
	l.start()
	expect(true, "after a restart")
	l.cluster.Object = types.NamespacedName{Namespace: "ns", Name: "infra"}
	if err := l.b.releaseCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	expect(false, "when another plane can run it")
	l.restart()
	expect(true, "when it is run here again")
	if err := l.b.deleteCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	expect(false, "after its deletion")
	thief, err := net.Listen("tcp", at.String()) // the address is free for any process
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = thief.Close() })
	expect(false, "when another process listens there")
}

func TestWhenAllAddressesAreTakenOneIsNamed(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	other := clusterSpec{Namespace: "ns", Name: "other", UID: "other"}
	h := fnv.New32a()
	_, _ = h.Write([]byte(other.UID))
	for i := range uint32(probes) {
		if err := l.b.dir.Reserve(loopback.Candidate(h.Sum32()+i), string(l.cluster.UID)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.b.ensureCluster(other)
	last := loopback.Candidate(h.Sum32() + probes - 1).String()
	if want := "as by --listen 0.0.0.0:6443, have it use another port: reserve the address " + last + ": another cluster of this host has it"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}

// A version that gave out any address may have kept one.
func TestAKeptAddressOfOthersIsNotListenedOn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.dir, string(l.cluster.UID), clusterFile)
	var r record
	if err := readJSON(file, &r); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{"0.0.0.0:6443", "[::]:6443", "127.66.1.2:22"} {
		r.Address = netip.MustParseAddrPort(address)
		if err := writeJSON(file, r, false); err != nil {
			t.Fatal(err)
		}
		b, err := New(Options{Dir: l.dir, Clock: l.clock})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.ensureCluster(l.cluster); err == nil || !strings.Contains(err.Error(), address+" is not an address for simulated clusters: delete the Cluster") {
			t.Errorf("%s: got %v, want it refused", address, err)
		}
		if err := b.deleteCluster(l.cluster); err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
