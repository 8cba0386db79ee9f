// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestFullDiskIsReportedWithoutLoss(t *testing.T) {
	disk := builder.SmallDisk(t, 1)
	if disk == "" {
		return
	}
	l := newLab(t)
	if err := l.b.Close(); err != nil {
		t.Fatal(err)
	}
	l.dir = filepath.Join(disk, "simulated")
	l.start()
	machines := append(l.controlPlane(1), l.mustRun("w-1", l.workerData()))
	before := l.versions()
	filler := filepath.Join(disk, "filler")
	var full error
	for full == nil {
		full = appendTo(filler, 4<<10)
	}
	other := clusterSpec{Namespace: "ns", Name: "other", UID: l.cluster.UID + "-other"}
	if _, err := l.b.ensureCluster(other); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("another cluster: %v", err)
	}
	if _, err := l.b.ensureMachine(l.machine("w-2", l.workerData())); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("another machine: %v", err)
	}
	if err := l.b.Close(); err != nil && !errors.Is(err, unix.ENOSPC) { // the counter of machines was not kept
		t.Fatal(err)
	}
	l.start() // what exists runs anyway
	for _, m := range machines {
		if s := l.ensure(m); !s.Done() {
			t.Errorf("machine %s is at %+v", m.Name, s)
		}
	}
	for name, version := range before {
		if now := l.versions()[name]; now != version {
			t.Errorf("%s is at %q, was at %q", name, now, version)
		}
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	l.mustRun("w-2", l.workerData())
	if _, err := l.b.ensureCluster(other); err != nil {
		t.Errorf("another cluster, once there is room: %v", err)
	}
	junk, err := filepath.Glob(filepath.Join(l.dir, "*", "*.new"))
	if err != nil || len(junk) > 0 {
		t.Errorf("left %v, %v", junk, err)
	}
}

func appendTo(name string, size int) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, size))
	return errors.Join(err, f.Close())
}
