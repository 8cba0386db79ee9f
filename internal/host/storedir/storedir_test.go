// SPDX-License-Identifier: Apache-2.0

package storedir

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

func open(t *testing.T) Dir {
	t.Helper()
	d, err := Open(filepath.Join(t.TempDir(), "store"), "things")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestStoreFolderIsPrivate(t *testing.T) {
	t.Parallel()
	d := open(t)
	for _, name := range []string{"", "things", "tmp"} {
		if info, err := os.Stat(d.Join(name)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%q: got %v, %v; want a folder of its owner alone", name, info, err)
		}
	}
}

func TestOneAtATimeIsLocked(t *testing.T) {
	t.Parallel()
	d := open(t)
	var inside, most atomic.Int32 // the race detector does not support these locks
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			err := d.Locked(func() error {
				if now := inside.Add(1); now > most.Load() {
					most.Store(now)
				}
				inside.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := most.Load(); n != 1 {
		t.Errorf("%d were inside at once, want 1", n)
	}
}

func TestWhatADeadProcessLeftIsSwept(t *testing.T) {
	t.Parallel()
	d := open(t)
	dead := d.Join(tmpDir, "dead")
	if err := os.MkdirAll(filepath.Join(dead, "half"), 0o700); err != nil {
		t.Fatal(err)
	}
	mine, done, err := d.Temp()
	if err != nil {
		t.Fatal(err)
	}
	_, other, err := d.Temp()
	if err != nil {
		t.Fatal(err)
	}
	defer other()
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what was left is there: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("what is in use is gone: %v", err)
	}
	done()
	if _, err := os.Stat(mine); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what is done is there: %v", err)
	}
}

func TestTheFirstThatIsPublishedStays(t *testing.T) {
	t.Parallel()
	d := open(t)
	tmp, done, err := d.Temp()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	place := d.Join("things", "one")
	for _, name := range []string{"first", "second"} {
		from := filepath.Join(tmp, name)
		if err := errors.Join(os.Mkdir(from, 0o700), os.WriteFile(filepath.Join(from, "name"), []byte(name), 0o600), d.Publish(from, place)); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := os.ReadFile(filepath.Join(place, "name")); string(text) != "first" || err != nil {
		t.Errorf("got %q, %v; want the first", text, err)
	}
}
