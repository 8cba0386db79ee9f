// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, path, links, holder string) *Dir {
	t.Helper()
	d, err := Open(Options{Path: path, Links: links, Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func take(t *testing.T, d *Dir, id string) *Held {
	t.Helper()
	h, err := d.Take(id, true)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

func TestAFolderThatOthersMayWriteToIsRefused(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	must(t, os.Chmod(path, 0o777))
	if _, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), path+" has mode 0777, so others may write to it") {
		t.Errorf("got %v", err)
	}
	must(t, os.Chmod(path, 0o755))
	d := open(t, path, "", "a")
	must(t, take(t, d, "x").Close())
	for dir, want := range map[string]os.FileMode{path: 0o755, d.Folder("x"): 0o700} {
		if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", dir, info.Mode(), err, want)
		}
	}
}

func TestAcquireReportsHolder(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	a, b := open(t, path, "", "plane a"), open(t, path, "", "plane b")
	if _, err := a.Take("x", false); !errors.Is(err, ErrNone) {
		t.Errorf("of nothing: %v", err)
	}
	h := take(t, a, "x")
	_, err := b.Take("x", true)
	if held, ok := errors.AsType[*HeldError](err); !ok || !strings.HasPrefix(held.Holder, "plane a (process ") {
		t.Errorf("of what a holds: %v", err)
	}
	must(t, h.Close())
	other, err := b.Take("x", false)
	if err != nil || other.Before != "plane a" {
		t.Errorf("of what a holds when it runs again: %+v, %v", other, err)
	}
	must(t, other.Release())
	if again := take(t, a, "x"); again.Before != "" {
		t.Errorf("of what b has released: before %q", again.Before)
	}
}

func TestWaiterReceivesEnd(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Held) error{"released": (*Held).Release, "closed": (*Held).Close, "deleted": (*Held).Delete} {
		path := t.TempDir()
		a, b := open(t, path, "", "a"), open(t, path, "", "b")
		h := take(t, a, "x")
		told := make(chan struct{}, 2)
		for range 2 { // the second is the same
			must(t, b.Await("x", func() { told <- struct{}{} }))
		}
		if !h.Wanted() {
			t.Errorf("%s: no waiting process is seen", name)
		}
		must(t, end(h))
		<-told
		if _, err := b.Take("x", false); (name == "deleted") != errors.Is(err, ErrNone) {
			t.Errorf("%s: then taking it gives %v", name, err)
		}
	}
}

func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	a, b := open(t, path, "", "a"), open(t, path, "", "b")
	h := take(t, a, "x")
	must(t, b.Await("x", func() { t.Error("told after it was forgotten") }))
	b.Forget("x")
	if h.Wanted() {
		t.Error("wanted by one who has ended his wait")
	}
	must(t, b.Await("x", func() { t.Error("told after the end") }))
	b.Close()
	if h.Wanted() {
		t.Error("wanted by one who has ended")
	}
	must(t, h.Release())
}

func TestWaiterReceivesEarlierRelease(t *testing.T) {
	t.Parallel()
	d := open(t, t.TempDir(), "", "a")
	must(t, take(t, d, "x").Close())
	told := make(chan struct{})
	must(t, d.Await("x", func() { close(told) }))
	<-told
}

func TestLinksNameWhatIsHeld(t *testing.T) {
	t.Parallel()
	path, links := t.TempDir(), filepath.Join(t.TempDir(), "plane", "simulated")
	d := open(t, path, links, "a")
	kept, released, gone := take(t, d, "kept"), take(t, d, "released"), take(t, d, "gone")
	must(t, kept.Close())
	must(t, released.Release())
	must(t, gone.Delete())
	if got := names(t, links); got != "kept" {
		t.Errorf("links %s", got)
	}
	must(t, take(t, d, "kept").Close())
	must(t, os.RemoveAll(d.Folder("kept")))
	open(t, path, links, "a")
	if got := names(t, links); got != "" {
		t.Errorf("links %s to nothing", got)
	}
}

func TestWhatIsInThePlaceOfALinkIsNoObstacle(t *testing.T) {
	t.Parallel()
	path, links := t.TempDir(), t.TempDir()
	d := open(t, path, links, "a")
	must(t, os.MkdirAll(filepath.Join(links, "copied", "deep"), 0o700))
	must(t, os.Symlink(links, filepath.Join(links, "astray")))
	copied, astray := take(t, d, "copied"), take(t, d, "astray")
	if to, err := os.Readlink(filepath.Join(links, "astray")); to != d.Folder("astray") {
		t.Errorf("a link from before leads to %s, %v", to, err)
	}
	must(t, copied.Delete())
	must(t, astray.Release())
	if got := names(t, links); got != "copied" {
		t.Errorf("left %s, want links without owner", got)
	}
}

func TestStateOfThePlanesOwnFolderIsTakenOver(t *testing.T) {
	t.Parallel()
	path, links := t.TempDir(), t.TempDir()
	for _, id := range []string{"one", "two"} {
		must(t, os.MkdirAll(filepath.Join(links, id), 0o700))
		must(t, os.WriteFile(filepath.Join(links, id, "cluster.json"), []byte("old"), 0o600))
	}
	must(t, os.MkdirAll(filepath.Join(path, "two"), 0o700)) // another process has it
	open(t, path, links, "a")
	if got := names(t, links); got != "two" {
		t.Errorf("%s stay in the folder of the plane", got)
	}
	if text, err := os.ReadFile(filepath.Join(path, "one", "cluster.json")); string(text) != "old" {
		t.Errorf("taken over: %q, %v", text, err)
	}
	open(t, links, links, "a") // where both are one folder nothing moves
	if got := names(t, links); got != addresses+" two" {
		t.Errorf("left %s", got)
	}
}

func TestWhatWasGivenUpIsSwept(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(path, "x"+deleted, "deep"), 0o700))
	must(t, os.MkdirAll(filepath.Join(path, "y"), 0o700))
	open(t, path, "", "a")
	if got := names(t, path); got != addresses+" y" {
		t.Errorf("left %s", got)
	}
	d := open(t, path, "", "a")
	held := take(t, d, "x")
	if all, idle, err := Count(path); all != 2 || idle != 1 || err != nil {
		t.Errorf("%d are kept and %d idle, %v", all, idle, err)
	}
	must(t, held.Close())
	if all, _, err := Count(filepath.Join(path, "none")); all != 0 || err != nil {
		t.Errorf("of no folder: %d, %v", all, err)
	}
}

func TestAnAddressHasOneOwner(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	a, b := open(t, path, "", "a"), open(t, path, "", "b")
	at := netip.MustParseAddrPort("127.64.0.1:6443")
	x, y := take(t, a, "x"), take(t, b, "y")
	for range 2 {
		must(t, a.Reserve(at, "x"))
	}
	must(t, x.Close()) // it stays that of x
	if err := b.Reserve(at, "y"); !errors.Is(err, ErrTaken) {
		t.Errorf("of another: %v", err)
	}
	must(t, b.Free(at, "y")) // which did not belong to it
	x = take(t, a, "x")
	must(t, x.Delete())
	must(t, b.Reserve(at, "y")) // the address of a deleted one
	must(t, b.Free(at, "y"))
	must(t, b.Free(at, "y"))
	if got := names(t, filepath.Join(path, addresses)); got != lockFile {
		t.Errorf("left %s", got)
	}
	must(t, y.Close())
}

func TestManyTakeTurns(t *testing.T) {
	t.Parallel()
	path := t.TempDir()
	const planes, rounds = 3, 20
	done := make(chan int)
	busy := make(chan struct{}, 1)
	for i := range planes {
		d := open(t, path, "", "plane")
		go func() {
			free := make(chan struct{})
			for n := 0; n < rounds; {
				h, err := d.Take("x", true)
				if held, ok := errors.AsType[*HeldError](err); ok {
					if err := d.Await("x", func() { free <- struct{}{} }); err != nil {
						t.Error(held, err)
					}
					<-free
					continue
				}
				if err != nil {
					t.Error(err)
					break
				}
				select {
				case busy <- struct{}{}:
				default:
					t.Error("two hold it")
				}
				n++
				<-busy
				if err := h.Release(); err != nil {
					t.Error(err)
				}
			}
			done <- i
		}()
	}
	for range planes {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("a caller waits for ever")
		}
	}
}
