// SPDX-License-Identifier: Apache-2.0

//go:build linux

package simulated

import (
	"hash/fnv"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
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
