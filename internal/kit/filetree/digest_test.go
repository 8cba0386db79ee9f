// SPDX-License-Identifier: Apache-2.0

package filetree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDigestsOfFilesAndTexts(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "sha256:982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"
	if got, err := FileDigest(file); got != want || err != nil || Digest([]byte("text")) != want {
		t.Errorf("of the file %s, %v, of the text %s, want %s", got, err, Digest([]byte("text")), want)
	}
	if _, err := FileDigest(file + "-none"); err == nil {
		t.Error("a file that is not there has a digest")
	}
}

func TestDigestDigitsMayBeAbbreviated(t *testing.T) {
	t.Parallel()
	whole := strings.Repeat("0123456789abcdef", 4)
	for text, want := range map[string]string{
		"sha256:" + whole: whole, whole: whole, "abc123": "abc123", "sha256:abc123": "abc123",
		"abc12": "", "": "", "v1.36.3": "", "ABC123": "", "abc1x3": "", whole + "0": "", "sha512:abc123": "",
	} {
		if got := DigestDigits(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
