// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/embed"
)

// TestEtcdElectsItselfWithoutATick uses the longest tick that etcd accepts, with
// new data and with the data of the previous start.
func TestEtcdElectsItselfWithoutATick(t *testing.T) {
	const tick = 10 * time.Second
	dir := shortDir(t)
	for _, data := range []string{"new", "old"} {
		for attempt := 1; attempt < 4; attempt++ { // a machine may be that busy once
			began := time.Now()
			m := startMember(t, dir, func(cfg *embed.Config) { cfg.TickMs, cfg.ElectionMs = 10_000, 50_000 })
			took := time.Since(began)
			stopMember(t, m)
			if took < tick {
				break
			}
			if attempt == 3 {
				t.Fatalf("with %s data, etcd led after more than %s, three times", data, tick)
			}
		}
	}
}

// TestAnElectionWaitsForWhatAStartApplies stops etcd with more applied entries in
// its log than it caches in memory, and no snapshot yet. An election at the wrong
// moment panics; on a busy machine there are such moments.
func TestAnElectionWaitsForWhatAStartApplies(t *testing.T) {
	const rounds, writes = 12, 350
	for range 2 * runtime.NumCPU() {
		go func() {
			for t.Context().Err() == nil {
			}
		}()
	}
	for range rounds {
		dir := shortDir(t)
		m := startMember(t, dir, func(cfg *embed.Config) { cfg.UnsafeNoFsync = true })
		for i := range writes {
			if _, err := m.server.Put(t.Context(), &pb.PutRequest{Key: []byte(strconv.Itoa(i)), Value: make([]byte, 2000)}); err != nil {
				t.Fatal(err)
			}
		}
		m.server.HardStop()
		stopMember(t, m)
		stopMember(t, startMember(t, dir, func(*embed.Config) {}))
	}
}

// TestTheLogStaysShort writes much more than the retained size of the log, and
// checks how much the next start leaves of it; all writes must exist at the start
// after that.
func TestTheLogStaysShort(t *testing.T) {
	const writes, value = 3500, 8 << 10
	dir := shortDir(t)
	m := startMember(t, dir, func(cfg *embed.Config) { cfg.UnsafeNoFsync = true })
	for i := range writes {
		if _, err := m.server.Put(t.Context(), &pb.PutRequest{Key: []byte(strconv.Itoa(i)), Value: make([]byte, value)}); err != nil {
			t.Fatal(err)
		}
	}
	stopMember(t, m)
	m = startMember(t, dir, func(*embed.Config) {})
	deadline := time.After(2 * time.Minute)
	for size := logSize(t, dir); size > segments*(segmentBytes+2*value); size = logSize(t, dir) {
		select {
		case <-time.After(time.Millisecond): // the log is truncated concurrently with the rest of a start
		case <-deadline:
			t.Fatalf("%d MiB of log are left", size>>20)
		}
	}
	stopMember(t, m)
	m = startMember(t, dir, func(*embed.Config) {})
	defer stopMember(t, m)
	all, err := m.server.Range(t.Context(), &pb.RangeRequest{Key: []byte{0}, RangeEnd: []byte{0}, CountOnly: true})
	if err != nil || all.Count != writes {
		t.Errorf("%v keys, %v; want %d", all, err, writes)
	}
}

// logSize returns the size of the write-ahead log on disk.
func logSize(t *testing.T, dir string) (size int64) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(dir, "data", "member", "wal", "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, segment := range segments {
		if info, err := os.Stat(segment); err == nil { // otherwise it was just deleted
			size += info.Size()
		}
	}
	return size
}

// shortDir returns a directory whose path is short enough for a socket, which that
// of t.TempDir is not.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// startMember returns etcd once it leads.
func startMember(t *testing.T, dir string, change func(*embed.Config)) *member {
	t.Helper()
	cfg := etcdConfig(filepath.Join(dir, "data"), filepath.Join(dir, clientSocket), filepath.Join(dir, peerSocket))
	change(cfg)
	m := &member{plane: &Plane{errs: make(chan error, 1)}, ready: make(chan struct{}), stopping: make(chan struct{}), ended: make(chan struct{}), lost: make(chan struct{})}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(func(err error) { m.plane.errs <- err }))
	go m.run(cfg)
	select {
	case <-m.ready:
	case err := <-m.plane.errs:
		t.Fatal(err)
	}
	return m
}

func stopMember(t *testing.T, m *member) {
	t.Helper()
	if err := m.stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
