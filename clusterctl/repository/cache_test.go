// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// entries are the files of a cache.
func entries(t *testing.T, folder string) (paths []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestFilesOfReleasesAreKept(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const path = "/web/o/R/releases/download/v1.0.0/a.yaml"
	s.text(path, "content")
	folder := filepath.Join(t.TempDir(), "deep", "cache")
	requests := func(o Options) int {
		t.Helper()
		o.Cache = folder
		got, err := open1(t, gitHubURL("v1.0.0"), o).File(t.Context(), "v1.0.0", "a.yaml")
		if err != nil || string(got) != "content" {
			t.Errorf("%q, %v", got, err)
		}
		return len(s.takeAsked())
	}
	if n := requests(at(s)); n != 1 {
		t.Errorf("%d requests", n)
	}
	if n := requests(at(s)); n != 0 {
		t.Errorf("%d requests for what is kept", n)
	}
	all := entries(t, folder)
	if len(all) != 1 {
		t.Fatalf("entries %v", all)
	}
	for path, want := range map[string]os.FileMode{folder: 0o700 | os.ModeDir, all[0]: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode() != want {
			t.Errorf("%s has mode %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	whole, err := os.ReadFile(all[0])
	if err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func() error{
		"cut off": func() error { return os.WriteFile(all[0], whole[:len(whole)-1], 0o600) },
		"changed": func() error {
			return os.WriteFile(all[0], []byte(strings.Replace(string(whole), "content", "CONTENT", 1)), 0o600)
		},
		"empty":       func() error { return os.WriteFile(all[0], nil, 0o600) },
		"of others":   func() error { return os.Chmod(all[0], 0o666) },
		"a directory": func() error { return os.Mkdir(all[0], 0o700) },
		"a link":      func() error { return os.Symlink("/etc/passwd", all[0]) },
	} {
		if err := os.RemoveAll(all[0]); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(all[0], whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "a directory" || name == "a link" {
			if err := os.Remove(all[0]); err != nil {
				t.Fatal(err)
			}
		}
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if n := requests(at(s)); n != 1 {
			t.Errorf("%s: %d requests, want 1", name, n)
		}
		if n := requests(at(s)); n != 0 && name != "a directory" {
			t.Errorf("%s: %d requests after the repair", name, n)
		}
	}
	if err := os.Chmod(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	if n := requests(at(s)); n != 1 {
		t.Errorf("%d requests, want 1: others may write in the folder", n)
	}
}

func TestAbsenceIsNotKept(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := at(s)
	o.Cache = t.TempDir()
	if _, err := open1(t, gitHubURL("v1.0.0"), o).File(t.Context(), "v1.0.0", "a.yaml"); err == nil {
		t.Error("no error")
	}
	if all := entries(t, o.Cache); len(all) != 0 {
		t.Errorf("entries %v", all)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := cache{t.TempDir()}
	begin := time.Now()
	sparse := func(name string, size int64, age time.Duration) {
		t.Helper()
		path := filepath.Join(c.folder, name)
		writeFile(t, path, "")
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, begin, begin.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		sparse(fmt.Sprint("old", i), maxCache/5, time.Duration(i)*time.Minute)
	}
	sparse(unfinished+"a", 1, 2*time.Hour)
	sparse(unfinished+"b", 1, time.Minute)
	c.put("key", []byte("new"))
	if data, ok := c.get("key"); !ok || string(data) != "new" {
		t.Errorf("%q, %v", data, ok)
	}
	for name, want := range map[string]bool{"old0": true, "old1": true, "old2": true, "old3": true, "old4": false, unfinished + "a": false, unfinished + "b": true} {
		if _, err := os.Stat(filepath.Join(c.folder, name)); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
}

func TestACacheThatCannotBeIsNone(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	writeFile(t, file, "")
	for _, folder := range []string{"", file, filepath.Join(file, "below")} {
		c := cache{folder}
		c.put("key", []byte("data"))
		if _, ok := c.get("key"); ok {
			t.Errorf("%q keeps something", folder)
		}
	}
}
