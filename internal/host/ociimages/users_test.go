// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// addTree adds a privileged image of one file.
func addTree(t *testing.T, s *Store, name, text string) Image {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o600))
	m, err := s.Add(t.Context(), AddOptions{Architecture: "amd64", Name: name}, Folder{Dir: dir, Name: "."})
	must(t, err)
	return m
}

func privileged(o *Options) { o.Privileged = true }

func TestUsersKeepAnImage(t *testing.T) {
	t.Parallel()
	s := openStore(t, privileged)
	m := addTree(t, s, "a:v1", "a")
	for _, user := range []string{"m2", "m1", "m1", "../m3"} {
		must(t, s.Use(m.Digest, user))
	}
	users, err := s.Users(m.Digest)
	if !slices.Equal(users, []string{"m1", "m2", "m3"}) || err != nil {
		t.Errorf("the users are %v, %v", users, err)
	}
	if used, err := s.InUse(m.Digest); !used || err != nil {
		t.Errorf("in use: %v, %v", used, err)
	}
	if inUse, ok := errors.AsType[*InUseError](s.Remove(t.Context(), m.Digest)); !ok || !slices.Equal(inUse.Users, users) {
		t.Errorf("it was removed: %v", inUse)
	}
	if gone, err := s.Collect(t.Context(), CollectOptions{UnusedFor: 1}); len(gone) > 0 || err != nil {
		t.Errorf("removed %v, %v", gone, err)
	}
	// The list is lost, and another image is added and removed.
	must(t, os.Remove(filepath.Join(s.Dir(), indexFile)))
	must(t, s.Remove(t.Context(), addTree(t, s, "b:v1", "b").Digest))
	if _, err := os.Stat(filepath.Join(s.RootDir(m.Digest), "a")); err != nil {
		t.Errorf("the root of a machine: %v", err)
	}
	for _, user := range users {
		must(t, s.Release(m.Digest, user))
		must(t, s.Release(m.Digest, user))
	}
	_, err = s.Collect(t.Context(), CollectOptions{})
	must(t, err)
	for _, dir := range []string{rootsDir, layersDir, usersDir} {
		if left, err := os.ReadDir(filepath.Join(s.Dir(), dir)); len(left) > 0 || err != nil {
			t.Errorf("in %s are left %v, %v", dir, left, err)
		}
	}
}

func TestDamagedLayerGoesIntoNoFurtherImage(t *testing.T) {
	t.Parallel()
	s := openStore(t, privileged)
	m := addTree(t, s, "a:v1", "a")
	must(t, os.WriteFile(filepath.Join(s.RootDir(m.Digest), "a"), []byte("b"), 0o600)) // as root in a machine may
	base, more := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(base, "a"), []byte("a"), 0o600))
	_, err := s.Add(t.Context(), AddOptions{Architecture: "amd64", Name: "b:v1"}, Folder{Dir: base, Name: "."}, Folder{Dir: more, Name: "b"})
	if err == nil {
		t.Error("an image has a layer that does not match its digest")
	}
	if _, ok := errors.AsType[*DamagedError](s.Verify(t.Context(), m)); !ok {
		t.Error("the image is not damaged")
	}
}
