// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// plantEarlier creates the folder of an image of an earlier version, and returns its ID.
func plantEarlier(t *testing.T, store, version string, users ...string) (dir, id string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"kubernetesVersion": version, "architecture": "amd64", "source": "release", "parts": map[string]string{"runc": "v1"}, "trees": map[string]string{}})
	if err != nil {
		t.Fatal(err)
	}
	id = filetree.Digest(text)
	dir = filepath.Join(store, "images", strings.TrimPrefix(id, "sha256:"))
	plant(t, dir, version)
	err = errors.Join(os.WriteFile(filepath.Join(dir, "image.json"), text, 0o600), os.Mkdir(filepath.Join(dir, "users"), 0o700))
	for _, user := range users {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "users", user), nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, id
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

func TestImagesOfEarlierVersionsAreTakenOver(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "images")
	used, usedID := plantEarlier(t, store, "v1.35.0", "m1", "m2")
	unused, unusedID := plantEarlier(t, store, "v1.36.3")
	damaged, _ := plantEarlier(t, store, "v1.34.0")
	if err := os.Remove(filepath.Join(damaged, "image.json")); err != nil {
		t.Fatal(err)
	}
	kubelet, err := os.Stat(filepath.Join(used, "node/usr/local/bin/kubelet"))
	if err != nil {
		t.Fatal(err)
	}
	s := openIn(t, store)
	for wanted, version := range map[string]string{"v1.35.0": "v1.35.0", usedID: "v1.35.0", unusedID: "v1.36.3"} {
		i, err := s.Find(wanted)
		if err == nil {
			err = i.Verify(t.Context())
		}
		if err != nil || i.Version != version || i.Source != "release" || i.Architecture != "amd64" || i.Parts["runc"] != "v1" {
			t.Errorf("%s is %+v, %v", wanted, i, err)
		}
	}
	i, err := s.Find(usedID)
	if err != nil {
		t.Fatal(err)
	}
	if now, err := os.Stat(filepath.Join(i.Root, "usr/local/bin/kubelet")); err != nil || !os.SameFile(now, kubelet) {
		t.Errorf("its files take space of their own: %v", err)
	}
	if users, err := i.Users(); err != nil || !slices.Equal(users, []string{"m1", "m2"}) {
		t.Errorf("its users are %v, %v", users, err)
	}
	for dir, want := range map[string]bool{used: true, unused: false, damaged: true} {
		if exists(t, dir) != want {
			t.Errorf("the folder %s is there: want %v", dir, want)
		}
	}
	// Machines that were created before need the folder, and others do not.
	if err := errors.Join(i.Release("m1"), i.Use("m3")); err != nil {
		t.Fatal(err)
	}
	if inUse, ok := errors.AsType[*ociimages.InUseError](s.Remove(t.Context(), "v1.35.0")); !ok || !slices.Equal(inUse.Users, []string{"m2"}) {
		t.Errorf("got %v, want that m2 needs it", inUse)
	}
	if openIn(t, store); !exists(t, used) {
		t.Error("the root of m2 is gone")
	}
	if err := i.Release("m2"); err != nil {
		t.Fatal(err)
	}
	if s = openIn(t, store); exists(t, used) {
		t.Error("the folder is there, though no machine needs it")
	}
	if all, err := s.List(); err != nil || len(all) != 2 {
		t.Errorf("the list is %v, %v", all, err)
	}
}

func TestInterruptedTakeoverIsRepeated(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "images")
	dir, id := plantEarlier(t, store, "v1.35.0", "m1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, store); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want that it was canceled", err)
	}
	if !exists(t, dir) {
		t.Fatal("the folder is gone")
	}
	// A process that was killed before it added the image to the list.
	s := openIn(t, store)
	i, err := s.Find(id)
	if err := errors.Join(err, os.Remove(filepath.Join(store, "images.json"))); err != nil {
		t.Fatal(err)
	}
	s = openIn(t, store)
	again, err := s.Find(id)
	if err != nil || again.ID != i.ID {
		t.Errorf("got %s, %v; want %s", again.ID, err, i.ID)
	}
	if users, err := again.Users(); err != nil || !slices.Equal(users, []string{"m1"}) {
		t.Errorf("its users are %v, %v", users, err)
	}
}
