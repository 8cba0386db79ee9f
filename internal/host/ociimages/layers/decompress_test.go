// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func zstandard(t *testing.T, text string) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll([]byte(text), nil)
}

func TestCompressionIsDetectedByContent(t *testing.T) {
	t.Parallel()
	for name, from := range map[string][]byte{
		"none": []byte("an archive"), "gzip": gzipped(t, "an archive"), "Zstandard": zstandard(t, "an archive"),
	} {
		r, err := Decompress(bytes.NewReader(from))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r); string(text) != "an archive" || err != nil {
			t.Errorf("%s: got %q, %v", name, text, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsCutIsAnError(t *testing.T) {
	t.Parallel()
	for name, from := range map[string][]byte{"nothing": nil, "three bytes": []byte("abc"), "gzip": gzipped(t, "an archive")[:15], "Zstandard": zstandard(t, "an archive")[:10]} {
		r, err := Decompress(bytes.NewReader(from))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}
