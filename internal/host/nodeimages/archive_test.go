// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAnImageTravels(t *testing.T) {
	t.Parallel()
	i := put(t, openStore(t), "v1.36.3", "")
	for name, f := range map[string]Format{"plain": Plain, "gzip": Gzip, "zstd": Zstd} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var archive bytes.Buffer
			if err := i.Export(t.Context(), &archive, f); err != nil {
				t.Fatal(err)
			}
			s := openStore(t)
			for range 2 { // the second import succeeds as well
				got, err := s.Import(t.Context(), bytes.NewReader(archive.Bytes()), i.ID)
				if err != nil || got.ID != i.ID {
					t.Fatalf("got %s, %v; want %s", got.ID, err, i.ID)
				}
				if err := got.Verify(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if left, err := os.ReadDir(s.dir.Join("tmp")); err != nil || len(left) > 0 {
				t.Errorf("what is left: %v, %v", left, err)
			}
		})
	}
}

func TestADamagedImageDoesNotTravel(t *testing.T) {
	t.Parallel()
	i := put(t, openStore(t), "v1.36.3", "")
	if err := appendTo(filepath.Join(i.dir, "node/usr/local/bin/kubelet"), "evil"); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*DamagedError](i.Export(t.Context(), io.Discard, Plain)); !ok {
		t.Error("it is exported")
	}
}

// rewrite copies an archive with changes.
func rewrite(t *testing.T, archive []byte, change func(h *tar.Header, content []byte) (*tar.Header, []byte)) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h, content = change(h, content); h == nil {
			continue
		}
		h.Size = int64(len(content))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestAnArchiveIsNotTrusted(t *testing.T) {
	t.Parallel()
	i := put(t, openStore(t), "v1.36.3", "")
	var whole, zipped bytes.Buffer
	if err := errors.Join(i.Export(t.Context(), &whole, Plain), i.Export(t.Context(), &zipped, Gzip)); err != nil {
		t.Fatal(err)
	}
	type change = func(h *tar.Header, content []byte) (*tar.Header, []byte)
	changed := func(name string, c change) []byte {
		return rewrite(t, whole.Bytes(), func(h *tar.Header, content []byte) (*tar.Header, []byte) {
			if h.Name == name {
				return c(h, content)
			}
			return h, content
		})
	}
	renamed := func(to string) change {
		return func(h *tar.Header, content []byte) (*tar.Header, []byte) {
			h.Name = to
			return h, content
		}
	}
	edited := func(from, to string) change {
		return func(h *tar.Header, content []byte) (*tar.Header, []byte) {
			return h, bytes.ReplaceAll(content, []byte(from), []byte(to))
		}
	}
	const kubelet = "node/usr/local/bin/kubelet"
	for name, tc := range map[string]struct {
		archive  []byte
		id, want string
	}{
		"another image than was promised": {whole.Bytes(), "sha256:" + strings.Repeat("0", 64), "this is node image " + i.ID},
		"another program":                 {changed(kubelet, func(h *tar.Header, _ []byte) (*tar.Header, []byte) { return h, []byte("evil") }), "", "folder node has digest"},
		"a program is missing":            {changed(kubelet, func(*tar.Header, []byte) (*tar.Header, []byte) { return nil, nil }), "", "folder node has digest"},
		"other permissions": {changed(kubelet, func(h *tar.Header, c []byte) (*tar.Header, []byte) {
			h.Mode = 0o4755
			return h, c
		}), "", "folder node has digest"},
		"a file next to the folders":  {changed(kubelet, renamed("users")), "", "in no folder of an image"},
		"a file above the folders":    {changed(kubelet, renamed("node/../../evil")), "", "leads out"},
		"an absolute name":            {changed(kubelet, renamed("/etc/evil")), "", "leads out"},
		"a version that is none":      {changed(manifestFile, edited("v1.36.3", "../../x")), "", "no version of Kubernetes"},
		"a field that is not known":   {changed(manifestFile, edited(`"source"`, `"sauce"`)), "", "does not know"},
		"a manifest that is no JSON":  {changed(manifestFile, edited("{", "[")), "", "read image.json"},
		"no manifest at the start":    {changed(manifestFile, renamed("other.json")), "", "this is no node image"},
		"something else altogether":   {[]byte("#!/bin/sh\necho hello\n"), "", "this is no node image"},
		"nothing":                     {nil, "", "read the archive"},
		"a part of an archive":        {whole.Bytes()[:whole.Len()/2], "", "unexpected EOF"},
		"a part of a compressed one":  {zipped.Bytes()[:zipped.Len()/2], "", "unexpected EOF"},
		"a compressed one, but noise": {append([]byte{0x1f, 0x8b}, bytes.Repeat([]byte("x"), 100)...), "", "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			got, err := s.Import(t.Context(), bytes.NewReader(tc.archive), tc.id)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %s, %v; want %q", got.ID, err, tc.want)
			}
			all, listed := s.List()
			left, err := os.ReadDir(s.dir.Join("tmp"))
			if len(all)+len(left) > 0 || errors.Join(listed, err) != nil {
				t.Errorf("what is there: %v, %v (%v, %v)", all, left, listed, err)
			}
		})
	}
}

func TestFormatOf(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]Format{"a.tar": Plain, "a.tar.gz": Gzip, "a.tgz": Gzip, "v1.36.3.tar.zst": Zstd} {
		if got, err := FormatOf(file); got != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", file, got, err, want)
		}
	}
	for _, file := range []string{"", "a", "a.zip", "tar.zst.part"} {
		if _, err := FormatOf(file); err == nil {
			t.Errorf("%q has a format", file)
		}
	}
}
