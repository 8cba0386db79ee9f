// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryOfAGroupIsReadInBothVersions(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stat string
		want int64
	}{
		"version 1": {"cache 1\nrss 2\ntotal_cache 3\ntotal_rss 4\n", 4},
		"version 2": {"anon 5\nfile 6\n", 5},
		"neither":   {"cache 1\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := anonymous(tc.stat); got != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("%d, %v, want %d", got, err, tc.want)
			}
		})
	}
}

func TestAFileWithManyLinksTakesItsPlaceOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before, err := diskOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "a"), bytes.Repeat([]byte{1}, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if after, err := diskOf(dir); err != nil || after-before < 1<<20 || after-before >= 2<<20 {
		t.Errorf("%d bytes more, %v, want those of one file", after-before, err)
	}
}
