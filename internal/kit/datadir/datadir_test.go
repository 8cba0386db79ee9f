// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAcquireRefusesASecondHolderByName(t *testing.T) {
	t.Parallel()
	d := Dir(filepath.Join(t.TempDir(), "deep", "data"))
	since := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	lock, err := Acquire(d, Holder{PID: 42, Since: since})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Acquire(d, Holder{PID: 43})
	held, ok := errors.AsType[*HeldError](err)
	if !ok || held.Holder.PID != 42 {
		t.Fatalf("error %v, want held by 42", err)
	}
	for _, want := range []string{"held by process 42 since 2026-05-04T03:02:01Z", "capstan down --data-dir " + string(d)} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := Acquire(d, Holder{PID: 43})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}

func TestRunningReturnsHolder(t *testing.T) {
	t.Parallel()
	d := Dir(t.TempDir())
	if _, running, err := Running(d); running || err != nil {
		t.Errorf("a fresh directory: running %t, %v", running, err)
	}
	long := Holder{PID: 42, Version: strings.Repeat("v", 300)}
	lock, err := Acquire(d, long)
	if err != nil {
		t.Fatal(err)
	}
	short := Holder{PID: 42, Address: "127.0.0.1:6443", Ready: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for _, want := range []Holder{long, short} {
		if err := lock.Describe(want); err != nil {
			t.Fatal(err)
		}
		got, running, err := Running(d)
		if err != nil || !running {
			t.Fatalf("running %t, %v", running, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("holder (-want +got):\n%s", diff)
		}
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	last, running, err := Running(d)
	if diff := cmp.Diff(short, last); running || err != nil || diff != "" {
		t.Errorf("after release: running %t, %v, holder (-want +got):\n%s", running, err, diff)
	}
	if err := os.WriteFile(d.lock(), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, running, err := Running(d); running || err != nil {
		t.Errorf("an invalid lock without holder: running %t, %v", running, err)
	}
}

func TestADirectoryThatOthersMayWriteToIsRefused(t *testing.T) {
	t.Parallel()
	for mode, want := range map[os.FileMode]string{
		0o700: "", 0o500: "", 0o750: "", 0o755: "",
		0o777: "has mode 0777, so others may write to it", 0o770: "has mode 0770", 0o702: "has mode 0702", 0o777 | os.ModeSticky: "has mode 0777",
	} {
		d := Dir(t.TempDir())
		if err := os.Chmod(string(d), mode); err != nil {
			t.Fatal(err)
		}
		err := Make(d)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), "data directory "+string(d)+" "+want) {
			t.Errorf("mode %v: error %v, want %q", mode, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "chmod go-w "+string(d)) {
			t.Errorf("mode %v: error %v names no remedy", mode, err)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can give a folder away
	}
	d := Dir(t.TempDir())
	if err := os.Chown(string(d), 12345, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Acquire(d, Holder{}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
		t.Errorf("a directory of another user: error %v", err)
	}
}

func TestAcquireReportsADirectoryThatIsNone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Acquire(Dir(file), Holder{}); err == nil || !strings.Contains(err.Error(), "make data directory") || !strings.Contains(err.Error(), file) {
		t.Errorf("error %v", err)
	}
}

func TestSizeCountsWhatIsOnDisk(t *testing.T) {
	t.Parallel()
	d := Dir(t.TempDir())
	if err := os.MkdirAll(d.Etcd(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.Etcd(), "wal"), make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Size(d)
	if err != nil || got < 100<<10 || got > 200<<10 {
		t.Errorf("size %d, %v: want about 100 KiB", got, err)
	}
	if got, err := Size(Dir(filepath.Join(string(d), "none"))); got != 0 || err != nil {
		t.Errorf("size of nothing is %d, %v", got, err)
	}
}

func TestSizeSkipsFoldersNestedTooDeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "wal"), make([]byte, 100<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	for range 30 {
		if err == nil {
			err = root.Mkdir(strings.Repeat("n", 200), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		above := root
		root, err = above.OpenRoot(strings.Repeat("n", 200))
		err = errors.Join(err, above.Close())
	}
	if err := errors.Join(err, root.Close()); err != nil {
		t.Fatal(err)
	}
	if got, err := Size(Dir(dir)); err != nil || got < 100<<10 {
		t.Errorf("size %d, %v", got, err)
	}
}
