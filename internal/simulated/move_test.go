// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
)

// plane opens another backend on the folder of a lab.
func (l *lab) plane(name string) *Backend {
	l.t.Helper()
	b, err := New(Options{Dir: l.dir, Holder: name, Clock: l.clock, Links: l.t.TempDir()})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			l.t.Error(err)
		}
	})
	return b
}

// moved is a machine as its object describes it after a move: with another UID,
// without a status or bootstrap data.
func moved(m machineSpec) machineSpec {
	m.UID, m.BootstrapData, m.Provisioned = "moved-"+m.UID, nil, true
	return m
}

func TestAClusterMovesFromOneBackendToAnotherAndBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	machines := append(l.controlPlane(3), l.mustRun("w-1", l.workerData()))
	before := l.versions()
	source, other := l.b, l.plane("the target")
	l.cluster.Object = types.NamespacedName{Namespace: "ns", Name: "infra"}
	for range 3 {
		free := other.ClusterChanges(t.Context())
		if err := other.resumeCluster(l.cluster); !isHeld(err) {
			t.Fatalf("resumed while another runs it: %v", err)
		}
		if _, err := other.ensureMachine(moved(machines[0])); err == nil {
			t.Fatal("a machine of it is run by two")
		}
		l.node("w-1") // the source serves as long as it holds it
		if err := source.releaseCluster(l.cluster); err != nil {
			t.Fatal(err)
		}
		if got := <-free; got != l.cluster.Object {
			t.Fatalf("reported %s", got)
		}
		changes := other.MachineChanges(t.Context())
		if err := other.resumeCluster(l.cluster); err != nil {
			t.Fatal(err)
		}
		for range machines { // all are reconciled again
			<-changes
		}
		l.b = other
		for _, m := range machines {
			if s := l.ensure(moved(m)); !s.Done() || s.NodeName != m.Name {
				t.Errorf("machine %s is at %+v", m.Name, s)
			}
		}
		made := l.cluster
		made.Made, made.Endpoint = true, l.endpoint
		if at, err := other.ensureCluster(made); err != nil || at != l.endpoint {
			t.Errorf("answers at %v, %v, want %v", at, err, l.endpoint)
		}
		if diff := cmp.Diff(before, l.versions()); diff != "" {
			t.Fatalf("objects (-before +after):\n%s", diff)
		}
		source, other = other, source
	}
	m := moved(machines[3])
	if err := source.deleteMachine(m); err != nil || nodeReady(l.node("w-1")) != "Unknown" {
		t.Errorf("a machine that was moved is not deleted: %v", err)
	}
	if err := source.deleteCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	if err := other.resumeCluster(l.cluster); !errors.Is(err, localinfra.ErrNotHere) {
		t.Errorf("of one that was deleted where it had been moved to: %v", err)
	}
	l.b = other
}

func TestManyClustersMoveAroundThreeBackends(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	planes := []*Backend{l.b, l.plane("second"), l.plane("third")}
	var clusters []clusterSpec
	at, nodes := map[types.UID]clusterv1.APIEndpoint{}, map[types.UID]types.UID{}
	look := func(c clusterSpec) types.UID {
		l.endpoint = at[c.UID]
		return l.node("cp").UID
	}
	for i := range 20 {
		name := fmt.Sprintf("c-%d", i)
		c := clusterSpec{Namespace: "ns", Name: name, UID: l.cluster.UID + types.UID("-"+name), Object: types.NamespacedName{Namespace: "ns", Name: name}}
		endpoint, err := l.b.ensureCluster(c)
		if err != nil {
			t.Fatal(err)
		}
		l.endpoint, at[c.UID] = endpoint, endpoint
		m := l.machine("cp", l.initData())
		m.Cluster, m.UID = c.Name, "cp-"+types.UID(name)
		if s := l.ensure(m); !s.Done() {
			t.Fatalf("%s: %+v", name, s)
		}
		nodes[c.UID], clusters = look(c), append(clusters, c)
	}
	for hop := range 6 {
		from, to := planes[hop%3], planes[(hop+1)%3]
		free := to.ClusterChanges(t.Context())
		for _, c := range clusters {
			if err := to.resumeCluster(c); !isHeld(err) {
				t.Fatalf("%s: %v", c.Name, err)
			}
		}
		for _, c := range clusters {
			if err := from.releaseCluster(c); err != nil {
				t.Fatal(err)
			}
		}
		for range clusters {
			<-free
		}
		for _, c := range clusters {
			if err := to.resumeCluster(c); err != nil {
				t.Fatal(err)
			}
			if got := look(c); got != nodes[c.UID] {
				t.Errorf("hop %d: Node of %s is %s, was %s", hop, c.Name, got, nodes[c.UID])
			}
		}
	}
}

func isHeld(err error) bool {
	_, ok := errors.AsType[*localinfra.HeldError](err)
	return ok
}

func TestAKilledBackendLosesWhatItHeldToWhoWaits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	other := l.plane("the target")
	l.cluster.Object = types.NamespacedName{Namespace: "ns", Name: "infra"}
	free := other.ClusterChanges(t.Context())
	if err := other.resumeCluster(l.cluster); !isHeld(err) {
		t.Fatal(err)
	}
	if err := l.b.Close(); err != nil { // for what is kept it is the same
		t.Fatal(err)
	}
	<-free
	if err := other.resumeCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	l.node("cp-1")
	again := l.plane("the source") // starts again
	if err := again.resumeCluster(l.cluster); !isHeld(err) {
		t.Errorf("resumed by who had it before: %v", err)
	}
	if err := again.deleteCluster(l.cluster); err != nil {
		t.Error(err)
	}
	l.node("cp-1") // which no longer belonged to it
}

func TestOneThatAnotherWaitsForIsLeftToIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	other := l.plane("the target")
	l.cluster.Object = types.NamespacedName{Namespace: "ns", Name: "infra"}
	free := other.ClusterChanges(t.Context())
	if err := other.resumeCluster(l.cluster); !isHeld(err) {
		t.Fatal(err)
	}
	if err := l.b.deleteCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	<-free
	if err := other.resumeCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	l.node("cp-1")
}

func TestOneThatAnotherRanLastIsNotDeleted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	other := l.plane("of a copy")
	if err := other.deleteCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	l.start()
	l.node("cp-1")
}

func TestWhatIsNotOnThisHostIsNotMade(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	elsewhere := clusterSpec{Namespace: "ns", Name: "elsewhere", UID: "elsewhere", Made: true}
	if _, err := l.b.ensureCluster(elsewhere); !errors.Is(err, localinfra.ErrNotHere) || !strings.Contains(err.Error(), "there is no "+l.b.clusterDir("elsewhere")) {
		t.Errorf("a cluster: %v", err)
	}
	m := l.machine("cp-9", l.initData())
	m.Cluster, m.ClusterUID = "elsewhere", "elsewhere"
	if _, err := l.b.ensureMachine(m); !errors.Is(err, localinfra.ErrNotHere) {
		t.Errorf("a machine of it: %v", err)
	}
	if err := errors.Join(l.b.deleteMachine(m), l.b.deleteCluster(elsewhere)); err != nil {
		t.Errorf("to delete them: %v", err)
	}
	lost := l.mustRun("w-1", l.workerData())
	if err := errors.Join(l.b.Close(), os.Remove(filepath.Join(l.dir, string(l.cluster.UID), machineFile(lost.UID)))); err != nil {
		t.Fatal(err)
	}
	l.start()
	lost.Provisioned = true
	for range 2 {
		if _, err := l.b.ensureMachine(lost); !errors.Is(err, localinfra.ErrNotHere) {
			t.Errorf("a machine that ran once: %v", err)
		}
		if got := nodeReady(l.node("w-1")); got != "Unknown" { // for health checks to see
			t.Errorf("its Node is Ready %s", got)
		}
	}
	if left, err := os.ReadDir(l.dir); err != nil || len(left) != 2 {
		t.Errorf("made %v, %v", left, err)
	}
}

func TestAnIdentityIsOfOneClusterAndAProviderIDOfOneMachine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	first := l.controlPlane(1)[0]
	second := l.cluster
	second.Name = "copy"
	if _, err := l.b.ensureCluster(second); !isHeld(err) || !strings.Contains(err.Error(), "held by cluster ns/prod") {
		t.Errorf("a copy of the cluster: %v", err)
	}
	m := l.machine("copy", l.workerData())
	m.ProviderID = first.ProviderID
	if _, err := l.b.ensureMachine(m); err == nil || !strings.Contains(err.Error(), "provider ID simulated://ns/prod/cp-1 is that of machine cp-1") {
		t.Errorf("a copy of a machine: %v", err)
	}
	if err := l.b.deleteMachine(m); err != nil {
		t.Error(err)
	}
	l.node("cp-1")
	// A copy on disk is not the cluster that it describes.
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	second.UID += "-copy"
	if err := os.CopyFS(filepath.Join(l.dir, string(second.UID)), os.DirFS(filepath.Join(l.dir, string(l.cluster.UID)))); err != nil {
		t.Fatal(err)
	}
	l.start()
	if _, err := l.b.ensureCluster(second); err == nil || !strings.Contains(err.Error(), "is a copy of what is kept of the cluster with the identity "+string(l.cluster.UID)) {
		t.Errorf("a copied folder: %v", err)
	}
}

func TestStateOfALaterVersionIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(l.dir, string(l.cluster.UID), clusterFile)
	var r map[string]any
	if err := readJSON(file, &r); err != nil {
		t.Fatal(err)
	}
	r["version"] = formatVersion + 1
	if err := writeJSON(file, r, false); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l.b = l.plane("")
	for range 2 {
		if _, err := l.b.ensureCluster(l.cluster); err == nil || !strings.Contains(err.Error(), file+" was written by a later version of this program: start that one") {
			t.Errorf("got %v", err)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("it was written, or: %v", err)
	}
	other := l.cluster
	other.Name, other.UID = "other", other.UID+"-other"
	if _, err := l.b.ensureCluster(other); err != nil {
		t.Errorf("another cluster: %v", err)
	}
}

func TestAddressStaysWithItsCluster(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if err := l.b.releaseCluster(l.cluster); err != nil { // releases the address
		t.Fatal(err)
	}
	other := l.plane("another")
	same := clusterSpec{Namespace: "ns", Name: "other", UID: l.cluster.UID + "-other", Endpoint: l.endpoint}
	if _, err := other.ensureCluster(same); err == nil || !strings.Contains(err.Error(), "belongs to another cluster") {
		t.Errorf("it was given away: %v", err)
	}
	if conn, err := net.Dial("tcp", l.server()); err == nil {
		t.Errorf("a server listens: %v", conn.Close())
	}
	if at, err := l.b.ensureCluster(l.cluster); err != nil || at != l.endpoint {
		t.Errorf("at %v, %v, want %v", at, err, l.endpoint)
	}
	if err := l.b.deleteCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	if at, err := other.ensureCluster(same); err != nil || at != l.endpoint {
		t.Errorf("given up, it is not free: %v, %v", at, err)
	}
}

func TestACopyThatGoesTakesNothingWithIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	l.cluster.Owner = "uid-of-object"
	if _, err := l.b.ensureCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	former := l.cluster
	former.Owner = "uid-of-former"
	if err := errors.Join(l.b.releaseCluster(former), l.b.deleteCluster(former)); err != nil {
		t.Fatal(err)
	}
	l.node("cp-1")
}

func TestAMoveToAnotherNamespaceIsTakenUp(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.controlPlane(1)[0]
	if err := l.b.releaseCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	l.cluster.Namespace, m.Namespace, m.ClusterUID = "elsewhere", "elsewhere", l.cluster.UID
	if _, err := l.b.ensureMachine(moved(m)); !errors.Is(err, localinfra.ErrNoCluster) {
		t.Errorf("before its LocalCluster reports it: %v", err)
	}
	changes := l.b.MachineChanges(t.Context())
	if err := l.b.resumeCluster(l.cluster); err != nil {
		t.Fatal(err)
	}
	if got := <-changes; got != m.Key() {
		t.Errorf("reported %s, want %s", got, m.Key())
	}
	if s := l.ensure(moved(m)); !s.Done() || s.ProviderID != "simulated://ns/prod/cp-1" {
		t.Errorf("machine is at %+v", s)
	}
	var kept struct{ Namespace string }
	data, err := os.ReadFile(filepath.Join(l.b.clusterDir(l.cluster.UID), machineFile("uid-cp-1")))
	if line, _, _ := strings.Cut(string(data), "\n"); err != nil || json.Unmarshal([]byte(line), &kept) != nil || kept.Namespace != "elsewhere" {
		t.Errorf("kept as of %q, %v", kept.Namespace, err)
	}
}
