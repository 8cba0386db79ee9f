// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/access/localinfra"
)

// damages are what can happen to a file. nil is a file that does not exist.
var damages = map[string]func([]byte) []byte{
	"gone":              func([]byte) []byte { return nil },
	"empty":             func([]byte) []byte { return []byte{} },
	"half":              func(d []byte) []byte { return d[:len(d)/2] },
	"without last line": func(d []byte) []byte { return d[:bytes.LastIndexByte(d[:len(d)-1], '\n')+1] },
	"rubbish":           func(d []byte) []byte { return slices.Concat(d[:len(d)/3], []byte("rubbish\n"), d[len(d)/3+8:]) },
	"one bit":           func(d []byte) []byte { d = bytes.Clone(d); d[len(d)/2] ^= 1; return d },
}

func TestDamagedFileIsReportedAndClusterIsDeletable(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	worker := l.mustRun("w-1", l.workerData())
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	worker.Provisioned = true
	for _, name := range []string{clusterFile, journalFile, machineFile(worker.UID), machineFile("uid-cp-1")} {
		for _, how := range slices.Sorted(maps.Keys(damages)) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(l.dir)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, string(l.cluster.UID), name)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if data = damages[how](data); data == nil {
				err = os.Remove(file)
			} else {
				err = os.WriteFile(file, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			b, err := New(Options{Dir: dir})
			if err != nil {
				t.Errorf("%s %s: %v: other clusters would not start", name, how, err)
				continue
			}
			reportsAndDeletes(t, b, l.cluster, worker, name, how)
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func reportsAndDeletes(t *testing.T, b *Backend, c clusterSpec, worker machineSpec, name, how string) {
	t.Helper()
	_, err := b.ensureCluster(c)
	founder := machineSpec{Namespace: "ns", Name: "cp-1", UID: "uid-cp-1", Cluster: "prod", Provisioned: true}
	if how == "gone" && strings.HasPrefix(name, machinePrefix) { // the cluster is intact; only the machine's file records its machine
		if err != nil {
			t.Errorf("%s %s: %v", name, how, err)
		}
		if _, err = b.ensureMachine(worker); name == machineFile(founder.UID) {
			_, err = b.ensureMachine(founder)
		}
	}
	if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "put a copy of the file back, or delete the Cluster") {
		t.Errorf("%s %s: got %v, want an error that names the file and what to do", name, how, err)
	}
	for _, m := range []machineSpec{worker, founder} {
		m.Namespace, m.Cluster, m.ClusterUID = c.Namespace, c.Name, c.UID
		if err := b.deleteMachine(m); err != nil {
			t.Errorf("%s %s: deleting machine %s: %v", name, how, m.Name, err)
		}
	}
	if err := b.deleteCluster(c); err != nil {
		t.Errorf("%s %s: deleting the cluster: %v", name, how, err)
	}
	if left, err := os.ReadDir(b.dir.Path); err != nil || len(left) > 1 { // the addresses stay
		t.Errorf("%s %s: %v left, %v", name, how, left, err)
	}
}

func TestFilesOfEarlierVersionsAreRead(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(l.dir, string(l.cluster.UID))
	for _, name := range []string{clusterFile, machineFile("uid-cp-1"), journalFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		var old []byte
		for line := range bytes.Lines(data) {
			if i := bytes.IndexByte(line, '{'); i >= 0 {
				old = append(old, line[i:]...)
			}
		}
		if name != journalFile {
			old = bytes.TrimSuffix(old, []byte("\n"))
		}
		if err := os.WriteFile(filepath.Join(dir, name), old, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l.start()
	l.node("cp-1")
	l.token("ffffff", nil) // the first write replaces the journal
	l.restart()
	l.node("cp-1")
	l.mustRun("w-1", l.workerData())
}

// TestSlowFolderDelaysNoOtherCluster reads the journal of a cluster from
// a pipe that has no data yet.
func TestSlowFolderDelaysNoOtherCluster(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.controlPlane(1)
	worker := l.mustRun("w-1", l.workerData())
	worker.Provisioned, worker.ClusterUID = true, l.cluster.UID
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(l.dir, string(l.cluster.UID), journalFile)
	if err := errors.Join(os.Remove(pipe), unix.Mkfifo(pipe, 0o600)); err != nil {
		t.Fatal(err)
	}
	b, err := New(Options{Dir: l.dir})
	if err != nil {
		t.Fatal(err)
	}
	changes, opened := b.MachineChanges(t.Context()), make(chan error)
	go func() { opened <- b.resumeCluster(l.cluster) }()
	writer, err := os.OpenFile(pipe, os.O_WRONLY, 0) // once there is a reader
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ensureMachine(worker); !errors.Is(err, localinfra.ErrOpening) {
		t.Errorf("a machine of it: %v", err)
	}
	other := clusterSpec{Namespace: "ns", Name: "other", UID: l.cluster.UID + "-other"}
	if _, err := b.ensureCluster(other); err != nil {
		t.Errorf("another cluster: %v", err)
	}
	if err := b.deleteCluster(other); err != nil {
		t.Errorf("delete the other cluster: %v", err)
	}
	if _, err := writer.WriteString("rubbish\n"); err != nil {
		t.Error(err)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
	if err := <-opened; err == nil || !strings.Contains(err.Error(), journalFile) {
		t.Errorf("the cluster: %v", err)
	}
	if got := <-changes; got != worker.Key() {
		t.Errorf("reported %v, want %v", got, worker.Key())
	}
	if err := os.Remove(pipe); err != nil {
		t.Error(err)
	}
	if _, err := b.ensureMachine(worker); err == nil || !strings.Contains(err.Error(), journalFile) {
		t.Errorf("the machine again: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
