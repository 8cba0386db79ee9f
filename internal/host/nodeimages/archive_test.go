// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// exported is the archive of an image in the format of a file.
func exported(t *testing.T, i Image, file string) []byte {
	t.Helper()
	var archive bytes.Buffer
	w, err := Compress(&archive, file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(i.Export(t.Context(), w), w.Close()); err != nil {
		t.Fatal(err)
	}
	return archive.Bytes()
}

func TestAnImageTravels(t *testing.T) {
	t.Parallel()
	i := put(t, openStore(t), "v1.36.3", "")
	for name, f := range map[string]string{"plain": "a.tar", "gzip": "a.tar.gz", "zstd": "a.tar.zst"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			archive := exported(t, i, f)
			s := openStore(t)
			for range 2 { // the second import succeeds as well
				got, err := importBytes(t, s, archive)
				if err != nil || got.ID != i.ID {
					t.Fatalf("got %s, %v; want %s", got.ID, err, i.ID)
				}
				if err := got.Verify(t.Context()); err != nil {
					t.Error(err)
				}
			}
			if left, err := os.ReadDir(filepath.Join(s.Dir(), "tmp")); err != nil || len(left) > 0 {
				t.Errorf("what is left: %v, %v", left, err)
			}
		})
	}
}

// importBytes imports an archive as the command does.
func importBytes(t *testing.T, s *Store, archive []byte) (Image, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "node.tar")
	if err := os.WriteFile(file, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := s.images.Import(t.Context(), file)
	if err != nil {
		return Image{}, err
	}
	if version, ok := VersionIn(all[0].Names); len(all) != 1 || !ok || version != "v1.36.3" {
		t.Errorf("the names are %v, of %d images", all[0].Names, len(all))
	}
	return s.imageOf(all[0]), nil
}

func TestADamagedImageDoesNotTravel(t *testing.T) {
	t.Parallel()
	i := put(t, openStore(t), "v1.36.3", "")
	if err := appendTo(filepath.Join(i.Root, "usr/local/bin/kubelet"), "evil"); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*ociimages.DamagedError](i.Export(t.Context(), io.Discard)); !ok {
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

// blob is where an archive has the content of a digest.
func blob(digest string) string { return "blobs/sha256/" + strings.TrimPrefix(digest, "sha256:") }

// relabeled replaces a text in the configuration, with the digests of all that depends
// on it.
func relabeled(t *testing.T, archive []byte, from, to string) []byte {
	t.Helper()
	replaced := map[string]string{from: to} // digests, and the text itself
	for range 3 {                           // configuration, manifest, index
		archive = rewrite(t, archive, func(h *tar.Header, content []byte) (*tar.Header, []byte) {
			if len(content) == 0 || content[0] != '{' {
				return h, content
			}
			was := bytes.Clone(content)
			for a, b := range replaced {
				content = bytes.ReplaceAll(content, []byte(a), []byte(b))
			}
			if old := filetree.Digest(was); h.Name == blob(old) && !bytes.Equal(was, content) {
				replaced[old] = filetree.Digest(content)
				replaced[fmt.Sprintf(`"size":%d`, len(was))] = fmt.Sprintf(`"size":%d`, len(content))
				h.Name = blob(replaced[old])
			}
			return h, content
		})
	}
	return archive
}

func TestAnArchiveIsNotTrusted(t *testing.T) {
	t.Parallel()
	i := put(t, openStore(t), "v1.36.3", "kubelet v1")
	whole, zipped := exported(t, i, "a.tar"), exported(t, i, "a.tgz")
	type change = func(h *tar.Header, content []byte) (*tar.Header, []byte)
	changed := func(name string, c change) []byte {
		return rewrite(t, whole, func(h *tar.Header, content []byte) (*tar.Header, []byte) {
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
	manifest, err := v1.ParseManifest(bytes.NewReader(i.record.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	own, config, node := blob(i.ID), blob(manifest.Config.Digest.String()), blob(i.record.Layers[nodeLayerAt])
	for name, tc := range map[string]struct {
		archive []byte
		want    string
	}{
		"another program":             {changed(node, edited("kubelet v1", "kubelet v2")), "its content has digest"},
		"other permissions":           {changed(node, edited("0000755", "0004755")), ""},
		"a layer is missing":          {changed(node, func(*tar.Header, []byte) (*tar.Header, []byte) { return nil, nil }), "no such file"},
		"a file above":                {changed(node, renamed("blobs/../../evil")), "leads out"},
		"a version that is none":      {relabeled(t, whole, `-version":"v1.36.3`, `-version":"../../x`), "no version of Kubernetes"},
		"labels of none":              {relabeled(t, whole, versionLabel, "other"), "is no node image"},
		"another configuration":       {changed(config, edited("v1.36.3", "v1.36.4")), "the configuration has digest"},
		"another manifest":            {changed(own, edited(":2,", ":3,")), "the manifest of"},
		"an index that is no JSON":    {changed("index.json", edited("{", "[")), "read index.json"},
		"no index":                    {changed("index.json", renamed("other.json")), "holds no images"},
		"something else altogether":   {[]byte("#!/bin/sh\necho hello\n"), "read the archive"},
		"nothing":                     {nil, "read the archive"},
		"a part of an archive":        {whole[:len(whole)/2], "unexpected EOF"},
		"a part of a compressed one":  {zipped[:len(zipped)/2], "unexpected EOF"},
		"a compressed one, but noise": {append([]byte{0x1f, 0x8b}, bytes.Repeat([]byte("x"), 100)...), "gzip"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			got, err := importBytes(t, s, tc.archive)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %s, %v; want %q", got.ID, err, tc.want)
			}
			all, listed := s.List()
			left, err := os.ReadDir(filepath.Join(s.Dir(), "tmp"))
			if len(all)+len(left) > 0 || errors.Join(listed, err) != nil {
				t.Errorf("what is there: %v, %v (%v, %v)", all, left, listed, err)
			}
		})
	}
}

func TestCompressGoesByName(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"", "a", "a.zip", "tar.zst.part"} {
		if _, err := Compress(io.Discard, file); err == nil {
			t.Errorf("%q has a format", file)
		}
	}
}
