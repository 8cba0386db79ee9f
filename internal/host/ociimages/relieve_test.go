// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"cmp"
	"slices"
	"testing"

	"github.com/capstan-dev/capstan/internal/kit/diskspace"
)

// TestADiskThatIsNearlyFullIsRelieved uses a store of three images with 100 shared
// bytes and 10 of each, on a disk of 1,000 bytes.
func TestADiskThatIsNearlyFullIsRelieved(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		free     int64
		imported string // is kept
		hold     string // is in use
		hour     int64  // the present hour; 0 is 30
		want     []string
	}{
		"enough is free":         {free: 151, want: []string{"middle", "old", "young"}},
		"at its threshold":       {free: 150},
		"one in use stays":       {free: 150, hold: "middle", want: []string{"middle"}},
		"an imported one stays":  {free: 150, imported: "old", want: []string{"old"}},
		"one that has just come": {free: 150, hour: 20, want: []string{"young"}},
		"all others go":          {imported: "old", hold: "young", want: []string{"old", "young"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.now.Store(cmp.Or(tc.hour, 30))
			must(t, w.store.change(func(i *index) error {
				for n := range i.Images {
					i.Images[n].Imported = slices.Contains(i.Images[n].Names, "docker.io/library/"+tc.imported+":v1")
				}
				return nil
			}))
			if tc.hold != "" {
				defer w.root(tc.hold)()
			}
			w.store.disk = func(string) (diskspace.Space, error) {
				return diskspace.Space{Used: 1000 - tc.free, Free: tc.free}, nil
			}
			_, err := w.store.Relieve(t.Context())
			must(t, err)
			if got := w.names(); !slices.Equal(got, tc.want) {
				t.Errorf("there are %v, want %v", got, tc.want)
			}
		})
	}
}

func TestOnlyAsManyImagesGoAsTheDiskNeeds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.store.change(func(i *index) error {
		for n := range i.Images {
			i.Images[n].Imported = false
		}
		return nil
	}))
	w.store.disk = func(string) (diskspace.Space, error) { return diskspace.Space{Used: 85, Free: 15}, nil } // 5 bytes above the target
	gone, err := w.store.Relieve(t.Context())
	must(t, err)
	if got, want := w.names(), []string{"middle", "young"}; len(gone) != 1 || !slices.Equal(got, want) {
		t.Errorf("%d images went, there are %v, want %v", len(gone), got, want)
	}
}

func TestAnImportedImageIsKnownAsOne(t *testing.T) {
	t.Parallel()
	s, r := openStore(t), newServer(t)
	_, err := s.Import(t.Context(), savedImage(t, imageFor(t, amd64), "brought:v1"))
	must(t, err)
	ref := r.push(t, "org/pulled:v1", imageOf(t, amd64, layerWith(t, map[string]string{"a": "b"})))
	_, err = s.Pull(t.Context(), ref, PullOptions{})
	must(t, err)
	for name, want := range map[string]bool{"brought:v1": true, ref: false} {
		if m, err := s.Find(name); err != nil || m.Imported != want {
			t.Errorf("%s: imported is %v, %v, want %v", name, m.Imported, err, want)
		}
	}
}
