// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestTwoArchivesOfAFolderAreEqual(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "chart")
	if err := os.MkdirAll(filepath.Join(dir, "templates"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "templates", "a.yaml")
	write(t, file, "a: b\n")
	var archives []string
	for _, when := range []time.Time{time.Unix(1, 0), time.Unix(1e9, 0)} {
		if err := os.Chtimes(file, when, when); err != nil {
			t.Fatal(err)
		}
		archive := filepath.Join(t.TempDir(), "a.tgz")
		if err := pack(dir, "capstan", archive); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, read(t, archive))
	}
	if archives[0] != archives[1] {
		t.Error("they differ")
	}
	to := t.TempDir()
	archive := filepath.Join(to, "a.tgz")
	write(t, archive, archives[0])
	if out, err := exec.Command("tar", "-xzf", archive, "-C", to).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := read(t, filepath.Join(to, "capstan", "templates", "a.yaml")); got != "a: b\n" {
		t.Errorf("it holds %q", got)
	}
}
