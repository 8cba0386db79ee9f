// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// TestHolderIsReadAfterCrash: a process can end between the two writes of its record, and
// its cluster is still that of the holder.
func TestHolderIsReadAfterCrash(t *testing.T) {
	t.Parallel()
	record := func(holder string) string { return `{"holder":"` + holder + `","pid":7}` + "\n" }
	tests := map[string]struct{ content, before string }{
		"whole":                           {record("plane a"), "plane a"},
		"before the rest was cut":         {record("plane a") + `er than it","pid":12345}` + "\n", "plane a"},
		"of itself":                       {record("plane b"), ""},
		"of a long name":                  {record(strings.Repeat("x", 5000)), strings.Repeat("x", 5000)},
		"empty, as after a release":       {"", ""},
		"of zeros, as after a power loss": {strings.Repeat("\x00", 40), ""},
		"of which half is there":          {`{"holder":"pla`, ""},
		"of another form":                 {`["plane a"]`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir()
			must(t, os.Mkdir(filepath.Join(path, "x"), 0o700))
			must(t, os.WriteFile(filepath.Join(path, "x", lockFile), []byte(tc.content), 0o600))
			kept, err := List(path)
			if err != nil || len(kept) != 1 || kept[0].Held || kept[0].Bytes != int64(len(tc.content)) {
				t.Errorf("got %+v, error %v, want one that is not held", kept, err)
			}
			d := open(t, path, "", "plane b")
			h := take(t, d, "x")
			if h.Before != tc.before {
				t.Errorf("got %q as holder, want %q", h.Before, tc.before)
			}
			raw, err := os.ReadFile(filepath.Join(path, "x", lockFile))
			var is holder
			if err != nil || json.Unmarshal(raw, &is) != nil || is.Holder != "plane b" || is.PID != os.Getpid() {
				t.Errorf("the record is %q, error %v", raw, err)
			}
			must(t, h.Close())
		})
	}
}

// TestLeaveKeepsHolder: who checks the state of another holder changes nothing of it.
func TestLeaveKeepsHolder(t *testing.T) {
	t.Parallel()
	path, links := t.TempDir(), t.TempDir()
	a, b := open(t, path, "", "plane a, with a name that is long"), open(t, path, links, "b")
	must(t, take(t, a, "x").Close())
	h := take(t, b, "x")
	if got := names(t, links); got != "x" {
		t.Errorf("links %q while it is held", got)
	}
	must(t, h.Leave())
	if got := names(t, links); got != "" {
		t.Errorf("links %q after it was left", got)
	}
	if again := take(t, open(t, path, "", "c"), "x"); again.Before != "plane a, with a name that is long" {
		t.Errorf("got holder %q", again.Before)
	}
}

func TestHeldErrorNamesHolder(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path, "", "")
	h := take(t, d, "x")
	for content, want := range map[string]string{"": "it is held by another process", `{"holder":"plane a","pid":7}`: "it is held by plane a (process 7)"} {
		must(t, os.WriteFile(filepath.Join(path, "x", lockFile), []byte(content), 0o600))
		if _, err := d.Take("x", false); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	must(t, h.Close())
}

// TestOpenSweepsItsFolderAlone: a path can have characters that have a meaning in patterns.
func TestOpenSweepsItsFolderAlone(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, name := range []string{"[ab]", "[", "a"} {
		must(t, os.MkdirAll(filepath.Join(top, name, "x"+deleted, "deep"), 0o700))
	}
	for _, name := range []string{"[ab]", "["} {
		open(t, filepath.Join(top, name), "", "p")
		if got := names(t, filepath.Join(top, name)); got != addresses {
			t.Errorf("left %s in %s", got, name)
		}
	}
	if got := names(t, filepath.Join(top, "a")); got != "x"+deleted {
		t.Errorf("left %s in the folder of another process", got)
	}
}

func TestOpenRefusesWhatIsNoFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, nil, 0o600))
	for name, o := range map[string]Options{"no path": {}, "a file": {Path: path}, "a file for links": {Path: t.TempDir(), Links: path}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestDeletionIsOneStep: what another process finds of it is nothing, or swept.
func TestDeletionIsOneStep(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path, "", "a")
	for _, leftover := range []bool{false, true} {
		if leftover { // of a process that ended while it deleted
			must(t, os.MkdirAll(filepath.Join(path, "x"+deleted, "deep"), 0o700))
		}
		h := take(t, d, "x")
		must(t, os.WriteFile(filepath.Join(d.Folder("x"), "cluster.json"), []byte("state"), 0o600))
		must(t, h.Delete())
		if got := names(t, path); got != addresses {
			t.Errorf("left %s", got)
		}
		if _, err := d.Take("x", false); !errors.Is(err, ErrNone) {
			t.Errorf("got %v, want that nothing is kept", err)
		}
	}
}

func TestRemoveKeepsWhatIsInUse(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path, "", "plane a")
	must(t, Remove(path, "absent"))
	h := take(t, d, "x")
	err := Remove(path, "x")
	if held, ok := errors.AsType[*HeldError](err); !ok || !strings.HasPrefix(held.Holder, "plane a (process ") {
		t.Errorf("of what is held: %v", err)
	}
	must(t, h.Close())
	wanted, err := os.OpenFile(filepath.Join(path, "x", wantedFile), os.O_RDONLY|os.O_CREATE, 0o600)
	must(t, err)
	must(t, lockfile.TryShared(wanted))
	if _, ok := errors.AsType[*HeldError](Remove(path, "x")); !ok || names(t, path) != addresses+" x" {
		t.Errorf("of what is waited for: removed, left %s", names(t, path))
	}
	if kept, err := List(path); err != nil || len(kept) != 1 || kept[0].Holder != "plane a" {
		t.Errorf("got %+v, error %v, want the earlier holder", kept, err)
	}
	must(t, lockfile.Unlock(wanted))
	must(t, Remove(path, "x"))
	if all, _, err := Count(path); all != 0 || err != nil {
		t.Errorf("%d are left, error %v", all, err)
	}
}

func TestListDescribesWhatIsKept(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path, "", "plane a")
	held, idle := take(t, d, "b/held"), take(t, d, "a-idle")
	must(t, os.WriteFile(filepath.Join(d.Folder("a-idle"), "cluster.json"), []byte("12345"), 0o600))
	must(t, idle.Release())
	must(t, os.WriteFile(filepath.Join(path, "file"), nil, 0o600))
	must(t, os.Mkdir(filepath.Join(path, "x"+deleted), 0o700))
	kept, err := List(path)
	if err != nil || len(kept) != 2 {
		t.Fatalf("got %+v, error %v, want two", kept, err)
	}
	if k := kept[0]; k.ID != "a-idle" || k.Path != d.Folder("a-idle") || k.Held || k.Holder != "" || k.Bytes != 5 {
		t.Errorf("got %+v", k)
	}
	if k := kept[1]; k.ID != "b_held" || !k.Held || k.Holder != "plane a" {
		t.Errorf("got %+v", k)
	}
	must(t, held.Close())
	if kept, err := List(filepath.Join(path, "none")); err != nil || len(kept) != 0 {
		t.Errorf("of no folder: %+v, error %v", kept, err)
	}
}

// TestReserveEndsAtBrokenLink: a link that cannot be followed is no free address.
func TestReserveEndsAtBrokenLink(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	d := open(t, path, "", "a")
	must(t, take(t, d, "x").Close())
	at := netip.MustParseAddrPort("[::1]:6443")
	must(t, os.Symlink(at.String(), d.address(at))) // to itself
	reserved := make(chan error, 1)
	go func() { reserved <- d.Reserve(at, "x") }()
	select {
	case err := <-reserved:
		if err == nil || errors.Is(err, ErrTaken) {
			t.Errorf("got %v, want why the link cannot be followed", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	must(t, d.Free(at, "x")) // which does not have it
	if _, err := os.Lstat(d.address(at)); err != nil {
		t.Error(err)
	}
}

func TestAwaitReportsErrors(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), "", "a")
	if err := d.Await("absent", func() { t.Error("it was free") }); err == nil {
		t.Error("of what is not kept: no error")
	}
	d.Forget("absent")
	d.Close()
	must(t, d.Await("absent", func() { t.Error("it was free") })) // after the end
}
