// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

// world is a store with images old, middle and young, of 10 bytes each in addition
// to 100 shared bytes, and a clock.
type world struct {
	*testing.T
	store *Store
	now   atomic.Int64 // hours
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t}
	w.store = openStore(t, func(o *Options) {
		o.Now = func() time.Time { return time.Unix(0, 0).Add(time.Duration(w.now.Load()) * time.Hour) }
	})
	base := layerWith(t, map[string]string{"base": strings.Repeat("b", 100)})
	for n, name := range []string{"old", "middle", "young"} {
		w.now.Store(int64(10 * n))
		_, err := w.store.Import(t.Context(), savedImage(t, imageOf(t, amd64, base, layerWith(t, map[string]string{"a": strings.Repeat(name[:1], 10)})), name+":v1"))
		must(t, err)
	}
	w.now.Store(30)
	return w
}

func (w *world) names() (all []string) {
	images, err := w.store.List()
	must(w.T, err)
	for _, m := range images {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(m.Names[0], "docker.io/library/"), ":v1"))
	}
	slices.Sort(all)
	return all
}

func (w *world) root(name string) (release func()) {
	w.Helper()
	m, err := w.store.Find(name + ":v1")
	must(w.T, err)
	_, release, err = w.store.Root(m.Digest)
	must(w.T, err)
	return release
}

func TestCollectRemovesUnusedImages(t *testing.T) {
	t.Parallel()
	all := []string{"middle", "old", "young"}
	for name, tc := range map[string]struct {
		o    CollectOptions
		hold string
		want []string
	}{
		"nothing is said":               {CollectOptions{}, "", all},
		"old ones":                      {CollectOptions{UnusedFor: 25 * time.Hour}, "", []string{"middle", "young"}},
		"old ones, one in use":          {CollectOptions{UnusedFor: time.Hour}, "old", []string{"old"}},
		"old ones, one needed":          {CollectOptions{UnusedFor: time.Hour, Keep: keepNamed("middle")}, "", []string{"middle"}},
		"space for all":                 {CollectOptions{MaxBytes: 130}, "", all},
		"space for two":                 {CollectOptions{MaxBytes: 129}, "", []string{"middle", "young"}},
		"space for one":                 {CollectOptions{MaxBytes: 110}, "", []string{"young"}},
		"no space, one in use":          {CollectOptions{MaxBytes: 1}, "middle", []string{"middle"}},
		"what is in use is young again": {CollectOptions{MaxBytes: 110}, "old", []string{"old"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tc.hold != "" {
				defer w.root(tc.hold)()
			}
			gone, err := w.store.Collect(t.Context(), tc.o)
			must(t, err)
			if got := w.names(); !slices.Equal(got, tc.want) || len(gone) != 3-len(tc.want) {
				t.Errorf("there are %v, %d went; want %v", got, len(gone), tc.want)
			}
			// A layer and a root for each image, and the shared layer.
			want := 2*len(tc.want) + 1
			if left := leftovers(t, w.store); len(left) != want {
				t.Errorf("the store holds %v, want %d", left, want)
			}
		})
	}
}

func keepNamed(name string) func(Image) bool {
	return func(m Image) bool { return strings.Contains(m.Names[0], name) }
}

func TestWhatWasUsedIsYoung(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.root("old")()
	_, err := w.store.Collect(t.Context(), CollectOptions{MaxBytes: 120})
	must(t, err)
	if got := w.names(); !slices.Equal(got, []string{"old", "young"}) {
		t.Errorf("there are %v, want the one that was just used, and the young one", got)
	}
}

func TestImagesAreRemovedUnlessInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := w.root("old")
	other, err := Open(w.store.Dir(), Options{}) // as in another process
	must(t, err)
	if err := other.Remove(t.Context(), "old:v1"); !errors.As(err, new(*InUseError)) {
		t.Errorf("while it is in use: got %v", err)
	}
	release()
	release() // a second call has no effect
	must(t, other.Remove(t.Context(), "old:v1"))
	if err := other.Remove(t.Context(), "old:v1"); !errors.As(err, new(*MissingError)) {
		t.Errorf("twice: got %v", err)
	}
	m, err := other.Find("young:v1")
	must(t, err)
	must(t, other.change(func(i *index) error {
		i.Images[slicesIndex(i, m)].Names = []string{"docker.io/library/x:v1", "docker.io/library/young:v1"}
		return nil
	}))
	must(t, other.Remove(t.Context(), "young:v1"))
	if found, err := other.Find("x:v1"); err != nil || found.Digest != m.Digest || len(found.Names) != 1 {
		t.Errorf("of two names one is left: got %v, %v", found, err)
	}
	must(t, other.Remove(t.Context(), m.Digest))
	if got := w.names(); !slices.Equal(got, []string{"middle"}) {
		t.Errorf("there are %v", got)
	}
}

func slicesIndex(i *index, m Image) int {
	return slices.IndexFunc(i.Images, func(have Image) bool { return have.Digest == m.Digest })
}

func TestLayersOfAnImageThatComesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	coming, err := w.store.holdLayers()
	must(t, err)
	before := len(leftovers(t, w.store))
	_, err = w.store.Collect(t.Context(), CollectOptions{UnusedFor: time.Hour})
	must(t, err)
	if n := len(leftovers(t, w.store)); n != before || len(w.names()) != 0 {
		t.Errorf("%d of %d layers and roots are left, with images %v", n, before, w.names())
	}
	must(t, lockfile.Unlock(coming))
	_, err = w.store.Collect(t.Context(), CollectOptions{})
	must(t, err)
	if left := leftovers(t, w.store); len(left) > 0 {
		t.Errorf("there are %v, want nothing", left)
	}
}

// TestCollectReleasesUseOfExitedProcess kills a process that uses an image.
func TestCollectReleasesUseOfExitedProcess(t *testing.T) {
	if dir := os.Getenv("CAPSTAN_TEST_HOLD"); dir != "" {
		s, err := Open(dir, Options{})
		must(t, err)
		m, err := s.Find("old:v1")
		must(t, err)
		if _, _, err = s.Root(m.Digest); err == nil {
			_, err = os.Stdout.WriteString("held\n")
		}
		must(t, err)
		<-time.After(time.Hour) // until it is killed; without a timer, Go reports a deadlock
	}
	t.Parallel()
	w := newWorld(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestCollectReleasesUseOfExitedProcess$")
	cmd.Env = append(os.Environ(), "CAPSTAN_TEST_HOLD="+w.store.Dir())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Remove(t.Context(), "old:v1"); !errors.As(err, new(*InUseError)) {
		t.Errorf("while it lives: got %v", err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // it was killed
	must(t, w.store.Remove(t.Context(), "old:v1"))
}

func TestAFullDiskKeepsNothingHalf(t *testing.T) {
	dir := builder.SmallDisk(t, 1)
	if dir == "" {
		return
	}
	s, err := Open(filepath.Join(dir, "images"), Options{Platform: amd64})
	must(t, err)
	_, err = s.Import(t.Context(), savedImage(t, imageFor(t, amd64), "good:v1"))
	must(t, err)
	before := leftovers(t, s)
	noise := make([]byte, 4<<20)
	_, err = rand.NewChaCha8([32]byte{}).Read(noise)
	must(t, err)
	r := newServer(t)
	for name, content := range map[string]string{"when it is fetched": string(noise), "when it is unpacked": strings.Repeat("0123456789", 400_000)} {
		ref := r.push(t, "org/bad:v1", imageOf(t, amd64, layerWith(t, map[string]string{"fits": name}), layerWith(t, map[string]string{"large": content})))
		if _, err := s.Pull(t.Context(), ref, PullOptions{}); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free space on the disk of "+s.Dir()) {
			t.Errorf("%s: got %v, want that the disk is full, and a remedy", name, err)
		}
		if left := leftovers(t, s); !slices.Equal(left, before) {
			t.Errorf("%s: there are %v, want %v", name, left, before)
		}
	}
	if m, err := s.Find("good:v1"); err != nil || within(t, s, m, "a") != "amd64" {
		t.Errorf("what was there is %v, %v", m, err)
	}
}
