// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var generous = Limits{Files: 1000, Bytes: 1 << 20}

// archive returns a layer for lines: "d NAME", "f NAME CONTENT", "l NAME TARGET",
// "h NAME TARGET", "c NAME", "p NAME", "x NAME" (an unknown kind).
func archive(t testing.TB, lines ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, line := range lines {
		part := strings.SplitN(line, " ", 3)
		h := &tar.Header{Name: part[1], Mode: 0o644, Uid: os.Geteuid(), Gid: os.Getegid()}
		content := ""
		switch part[0] {
		case "d":
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		case "f":
			h.Typeflag = tar.TypeReg
			if len(part) > 2 {
				content = part[2]
			}
			h.Size = int64(len(content))
		case "s":
			h.Typeflag, h.Mode = tar.TypeReg, 0o6755
		case "l":
			h.Typeflag, h.Linkname = tar.TypeSymlink, part[2]
		case "h":
			h.Typeflag, h.Linkname = tar.TypeLink, part[2]
		case "c":
			h.Typeflag, h.Devmajor, h.Devminor = tar.TypeChar, 1, 3
		case "p":
			h.Typeflag = tar.TypeFifo
		case "x":
			h.Typeflag = 'Z'
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// build unpacks layers and composes a root from them, in a folder next to a file
// that must not be reached.
func build(t testing.TB, l Limits, layers ...[]byte) (root string, err error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "outside"), []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	var unpacked []string
	for n, layer := range layers {
		at := filepath.Join(dir, fmt.Sprint(n))
		if err := os.Mkdir(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := Unpack(context.Background(), bytes.NewReader(layer), at, l); err != nil {
			return "", err
		}
		unpacked = append(unpacked, at)
	}
	root = filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	err = Compose(context.Background(), unpacked, root)
	if text, readErr := os.ReadFile(filepath.Join(dir, "outside")); string(text) != "outside" || readErr != nil {
		t.Errorf("what lies outside is %q, %v", text, readErr)
	}
	if entries, listed := os.ReadDir(dir); listed != nil || len(entries) != len(layers)+2 {
		t.Errorf("next to the root lie %v, %v", entries, listed)
	}
	return root, err
}

// show lists the content of a root: folders, files with their content, links.
func show(t testing.TB, root string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch e.Type() {
		case fs.ModeDir:
			name += "/"
		case fs.ModeSymlink:
			to, err := os.Readlink(path)
			if err != nil {
				return err
			}
			name += " -> " + to
		case 0:
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name += " = " + string(text)
		default:
			name += " is " + e.Type().String()
		}
		all = append(all, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRootsAreMadeOfLayers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		layers [][]string
		want   []string
	}{
		"files and folders":                     {[][]string{{"d etc", "f etc/a 1", "f b 2"}}, []string{"b = 2", "etc/", "etc/a = 1"}},
		"a missing folder is made":              {[][]string{{"f a/b/c 1"}}, []string{"a/", "a/b/", "a/b/c = 1"}},
		"an absolute name is below the root":    {[][]string{{"f /etc/a 1"}}, []string{"etc/", "etc/a = 1"}},
		"the root itself":                       {[][]string{{"d ./", "f ./a 1"}}, []string{"a = 1"}},
		"a later layer wins":                    {[][]string{{"f a 1"}, {"f a 2"}}, []string{"a = 2"}},
		"a folder again keeps what is in it":    {[][]string{{"d a", "f a/b 1"}, {"d a"}}, []string{"a/", "a/b = 1"}},
		"a file instead of a folder":            {[][]string{{"d a", "f a/b 1"}, {"f a 2"}}, []string{"a = 2"}},
		"a folder instead of a link":            {[][]string{{"d b", "l a b"}, {"d a", "f a/c 1"}}, []string{"a/", "a/c = 1", "b/"}},
		"a file through a link":                 {[][]string{{"d usr/lib", "l lib usr/lib"}, {"f lib/a 1"}}, []string{"lib -> usr/lib", "usr/", "usr/lib/", "usr/lib/a = 1"}},
		"an absolute link stays inside":         {[][]string{{"d usr", "l up /usr", "f up/a 1"}}, []string{"up -> /usr", "usr/", "usr/a = 1"}},
		"a climbing link ends at the root":      {[][]string{{"l up ../../..", "f up/outside 1"}}, []string{"outside = 1", "up -> ../../.."}},
		"a link to what is not there yet":       {[][]string{{"l up /new/dir", "f up/a 1"}}, []string{"new/", "new/dir/", "new/dir/a = 1", "up -> /new/dir"}},
		"a link that leads out is kept as such": {[][]string{{"l a /etc/passwd", "l b ../outside"}}, []string{"a -> /etc/passwd", "b -> ../outside"}},
		"a hard link":                           {[][]string{{"f a 1", "h b a"}}, []string{"a = 1", "b = 1"}},
		"a hard link to a lower layer":          {[][]string{{"f a 1"}, {"h b /a"}}, []string{"a = 1", "b = 1"}},
		"a whiteout":                            {[][]string{{"f a 1", "f b 2"}, {"f .wh.a"}}, []string{"b = 2"}},
		"a whiteout of a folder":                {[][]string{{"f d/a 1"}, {"f .wh.d"}}, nil},
		"a whiteout of nothing that is there":   {[][]string{{"f a 1"}, {"f d/.wh.x"}}, []string{"a = 1"}},
		"a whiteout spares its own layer":       {[][]string{{"f a 1"}, {"f a 2", "f .wh.a"}}, []string{"a = 2"}},
		"an opaque folder":                      {[][]string{{"f d/a 1", "f d/e/b 2"}, {"d d", "f d/.wh..wh..opq", "f d/c 3"}}, []string{"d/", "d/c = 3"}},
		"an opaque folder, said last":           {[][]string{{"f d/a 1"}, {"f d/c 3", "f d/.wh..wh..opq"}}, []string{"d/", "d/c = 3"}},
		"a whiteout through a link":             {[][]string{{"f usr/a 1", "l up /usr"}, {"f up/.wh.a"}}, []string{"up -> /usr", "usr/"}},
		"what aufs keeps for itself":            {[][]string{{"f .wh..wh.plnk x", "f a 1"}}, []string{"a = 1"}},
		"devices and pipes are left out":        {[][]string{{"c dev/null", "p pipe", "f a 1"}}, []string{"a = 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var layers [][]byte
			for _, lines := range tc.layers {
				layers = append(layers, archive(t, lines...))
			}
			root, err := build(t, generous, layers...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, show(t, root)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestLayersThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"a name that climbs":               {[]string{"f ../outside evil"}, `unpack "../outside": the name leads out of the image`},
		"a name that climbs in the middle": {[]string{"f a/../../outside evil"}, "leads out of the image"},
		"a name that climbs and returns":   {[]string{"f a/../b evil"}, "leads out of the image"},
		"a hard link out":                  {[]string{"h a ../outside"}, "leads out of the image"},
		"a hard link to nothing":           {[]string{"h a b"}, `link to "b"`},
		"a hard link to a link":            {[]string{"l a /etc/passwd", "h b a"}, "which is no file"},
		"a hard link to a folder":          {[]string{"d a", "h b a"}, "which is no file"},
		"a hard link to itself":            {[]string{"f a 1", "h a a"}, `link to "a"`},
		"a hard link through a link out":   {[]string{"l up ../..", "h b up/outside"}, `link to "outside"`},
		"a whiteout of the folder above":   {[]string{"f d/.wh..."}, "hides nothing that has a name"},
		"a whiteout of the folder itself":  {[]string{"f d/.wh.."}, "hides nothing that has a name"},
		"a whiteout without a name":        {[]string{"f .wh."}, "hides nothing that has a name"},
		"links in a circle":                {[]string{"l a b", "l b a", "f a/c 1"}, "too many links"},
		"a file on the way":                {[]string{"f a 1", "f a/b 2"}, `"a" on its way is no folder`},
		"a long name":                      {[]string{"f " + strings.Repeat("long/", 900) + "x 1"}, "more than 4095 bytes"},
		"a long part of a name":            {[]string{"f " + strings.Repeat("n", 256) + " 1"}, "more than 255 bytes"},
		"a long link":                      {[]string{"l a " + strings.Repeat("long/", 900)}, "no link can name"},
		"a root that is a file":            {[]string{"f . 1"}, "the root of an image is a folder"},
		"a kind that is not known":         {[]string{"x a"}, "are refused"},
		"too large":                        {[]string{"f a " + strings.Repeat("x", 2<<20)}, ErrTooLarge.Error()},
		"too many":                         {numbered(2000, "d d"), ErrTooLarge.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := build(t, generous, archive(t, tc.lines...))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func numbered(n int, line string) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", line, i))
	}
	return all
}

func TestASparseFileIsAsLargeAsItLooks(t *testing.T) {
	t.Parallel()
	// A file of 1 TiB without any data, as GNU tar writes it.
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "hole", Mode: 0o644, Format: tar.FormatGNU}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	block := buf.Bytes()
	block[156] = tar.TypeGNUSparse
	copy(block[386:], "00000000000\x0000000000000\x00") // one piece of 0 bytes at 0
	copy(block[483:], "20000000000000"[:12])            // the real size, far beyond the limit
	var sum int64
	copy(block[148:156], "        ")
	for _, b := range block[:512] {
		sum += int64(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	if _, err := build(t, generous, block); !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want that it is too large", err)
	}
}

func TestSetIDBitsAreDropped(t *testing.T) {
	t.Parallel()
	root, err := build(t, generous, archive(t, "s su"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(root, "su")); err != nil || info.Mode() != 0o755 {
		t.Errorf("got %v, %v; want a file with 0755", info.Mode(), err)
	}
}

func TestOneFileServesSeveralImages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	layer := filepath.Join(dir, "layer")
	if err := os.Mkdir(layer, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Unpack(t.Context(), bytes.NewReader(archive(t, "f a 1")), layer, generous); err != nil {
		t.Fatal(err)
	}
	var infos []os.FileInfo
	for _, name := range []string{"one", "two"} {
		root := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(root, 0o700), Compose(t.Context(), []string{layer}, root)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(filepath.Join(root, "a"))
		if err != nil {
			t.Fatal(err)
		}
		infos = append(infos, info)
	}
	if !os.SameFile(infos[0], infos[1]) {
		t.Error("each image has a copy of its own")
	}
}

// TestPlacesOfEntriesCostBoundedWork: links make short names cost as much as long ones.
func TestPlacesOfEntriesCostBoundedWork(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "a"), 0o755), os.Symlink(strings.Repeat("a/../", 800)+"a", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	c := &composer{root: root, left: 10_000}
	for n := range 100 {
		if _, err = c.resolve("link", false); err != nil {
			if n < 2 {
				t.Errorf("after %d: %v", n, err)
			}
			break
		}
	}
	if !errors.Is(err, ErrTooLarge) {
		t.Errorf("got %v, want that it is too large", err)
	}
}

func TestACutLayerIsNoLayer(t *testing.T) {
	t.Parallel()
	whole := archive(t, "f a "+strings.Repeat("x", 3000))
	for _, n := range []int{100, 1000, 3000} {
		if _, err := Unpack(t.Context(), bytes.NewReader(whole[:n]), t.TempDir(), generous); err == nil {
			t.Errorf("of %d bytes: got no error", n)
		}
	}
}

// FuzzLayers uses arbitrary data as archives of layers of both kinds: in every case
// nothing outside the root changes, and the root contains only folders, files and links.
func FuzzLayers(f *testing.F) {
	f.Add(archive(f, "d a", "f a/b 1", "l up ../..", "f up/outside evil"), archive(f, "f .wh.a", "h b up/outside"))
	f.Add(archive(f, "l a /", "f a/c 1", "f a/.wh..wh..opq"), archive(f, "d a", "f ../x y"))
	f.Fuzz(func(t *testing.T, one, two []byte) {
		limits := Limits{Files: 100, Bytes: 1 << 16}
		machine := limits
		machine.Privileged = true
		if root, err := build(t, machine, one, two); err == nil {
			show(t, root)
		}
		root, err := build(t, limits, one, two)
		if err != nil {
			return
		}
		for _, line := range show(t, root) {
			if strings.Contains(line, " is ") && !strings.Contains(line, " = ") && !strings.Contains(line, " -> ") && !strings.HasSuffix(line, "/") {
				t.Errorf("the root holds %s", line)
			}
		}
	})
}
