// SPDX-License-Identifier: Apache-2.0

package imagetree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var t0 = time.Unix(0, 0)

func TestAnArchiveCannotLeaveItsFolder(t *testing.T) {
	t.Parallel()
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
	folder := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	for name, tc := range map[string]struct {
		entries []tar.Header
		want    string
	}{
		"upwards":                              {[]tar.Header{file("../evil")}, "leads out"},
		"upwards in the middle":                {[]tar.Header{folder("a"), file("a/../../evil")}, "leads out"},
		"an absolute name":                     {[]tar.Header{file("/evil")}, "leads out"},
		"no name":                              {[]tar.Header{file("")}, "leads out"},
		"through a link upwards":               {[]tar.Header{link("up", ".."), file("up/evil")}, `"up" on its way is no folder`},
		"through an absolute link":             {[]tar.Header{link("tmp", "/tmp"), file("tmp/evil")}, `"tmp" on its way is no folder`},
		"through a link inside":                {[]tar.Header{folder("a"), link("b", "a"), file("b/file")}, `"b" on its way is no folder`},
		"over a link":                          {[]tar.Header{link("evil", "../evil"), file("evil")}, "exists"},
		"a folder over a link":                 {[]tar.Header{link("up", ".."), folder("up")}, "exists"},
		"a hard link upwards":                  {[]tar.Header{{Typeflag: tar.TypeLink, Name: "a", Linkname: "../outside"}}, "leads out"},
		"a hard link through a link":           {[]tar.Header{link("up", ".."), {Typeflag: tar.TypeLink, Name: "a", Linkname: "up/outside"}}, `"up" on its way is no folder`},
		"a hard link to an absolute name":      {[]tar.Header{{Typeflag: tar.TypeLink, Name: "a", Linkname: "/etc/passwd"}}, "leads out"},
		"a device":                             {[]tar.Header{{Typeflag: tar.TypeBlock, Name: "sda", Devmajor: 8}}, "devices"},
		"a character device":                   {[]tar.Header{{Typeflag: tar.TypeChar, Name: "mem", Devmajor: 1, Devminor: 1}}, "devices"},
		"a pipe":                               {[]tar.Header{{Typeflag: tar.TypeFifo, Name: "pipe"}}, "pipes"},
		"a file twice":                         {[]tar.Header{file("a"), file("a")}, "exists"},
		"a folder that was not announced":      {[]tar.Header{file("a/b")}, "no such file"},
		"more files than are accepted":         {[]tar.Header{folder("a"), folder("b"), folder("c"), folder("d")}, "more files"},
		"more bytes than are accepted":         {[]tar.Header{{Typeflag: tar.TypeReg, Name: "big", Size: 11}}, "more bytes"},
		"bytes that are said to be there only": {[]tar.Header{{Typeflag: tar.TypeReg, Name: "short", Size: 5}}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var buf bytes.Buffer
			w := tar.NewWriter(&buf)
			for _, h := range tc.entries {
				if err := w.WriteHeader(&h); err != nil {
					t.Fatal(err)
				}
			}
			dir, err := unpack(t, buf.Bytes(), Limits{Files: 3, Bytes: 10})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			entries, err := os.ReadDir(filepath.Dir(dir))
			if err != nil || len(entries) != 1 {
				t.Errorf("next to the folder there are %v, %v", entries, err)
			}
			if _, err := os.Lstat("/tmp/evil"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("/tmp/evil is there: %v", err)
			}
		})
	}
}

func TestLinksAreKeptButNotFollowed(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "shadow", Linkname: "/etc/shadow"}); err != nil {
		t.Fatal(err)
	}
	dir, err := unpack(t, buf.Bytes(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(dir, "shadow")); err != nil || to != "/etc/shadow" {
		t.Errorf("it leads to %q, %v", to, err)
	}
}

func TestUnpackFillsReadOnlyFolder(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []tar.Header{
		{Typeflag: tar.TypeDir, Name: "closed/", Mode: 0o500, Uid: os.Getuid(), Gid: os.Getgid()},
		{Typeflag: tar.TypeReg, Name: "closed/file", Mode: 0o400, Uid: os.Getuid(), Gid: os.Getgid()},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := unpack(t, buf.Bytes(), plenty)
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) }) // so that it can be removed
	info, err := os.Stat(closed)
	if err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the folder is %v, %v; want 0500", info.Mode(), err)
	}
	if _, err := os.Stat(filepath.Join(closed, "file")); err != nil {
		t.Error(err)
	}
}
