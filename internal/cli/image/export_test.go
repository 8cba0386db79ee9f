// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// TestExportIsWrittenIntoAPipe, which another program reads, and does not replace it.
func TestExportIsWrittenIntoAPipe(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file, pipe := filepath.Join(t.TempDir(), "node.tar"), filepath.Join(t.TempDir(), "pipe.tar")
	if _, err := l.run("export", "v1.36.3", "--file", file); err != nil {
		t.Fatal(err)
	}
	l.must(syscall.Mkfifo(pipe, 0o600))
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		text, err := os.ReadFile(pipe)
		read <- result{text, err}
	}()
	if _, err := l.run("export", "v1.36.3", "--file", pipe); err != nil {
		t.Fatal(err)
	}
	got := <-read
	want, err := os.ReadFile(file)
	if err := errors.Join(err, got.err); err != nil || !bytes.Equal(got.text, want) {
		t.Errorf("%v, %d bytes, want %d", err, len(got.text), len(want))
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v, %v", info, err)
	}
}

// TestExportThatFailsLeavesNothing: neither half an archive nor another device.
func TestExportThatFailsLeavesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := t.TempDir()
	full := filepath.Join(dir, "full.tar")
	l.must(os.Symlink("/dev/full", full))
	if _, err := l.run("export", "v1.36.3", "--file", full); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("to a full device: error %v", err)
	}
	if to, err := os.Readlink(full); err != nil || to != "/dev/full" {
		t.Errorf("the link to the device is %q, %v", to, err)
	}
	if _, err := l.run("export", "v1.36.3", "--file", filepath.Join(dir, "none", "node.tar")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("to no folder: error %v", err)
	}
	folder := filepath.Join(dir, "folder.tar")
	l.must(os.Mkdir(folder, 0o700))
	if _, err := l.run("export", "v1.36.3", "--file", folder); err == nil {
		t.Error("to a folder: no error")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("next to the target there are %v, %v", entries, err)
	}
}

func TestShellIsOfferedImages(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for args, want := range map[string]string{
		"export --file x.tar ":         "v1.36.3\n:4\n",
		"export --file x.tar v1.36.3 ": ":4\n",
		"remove ":                      "v1.36.3\n:4\n",
		"remove v1.36.3 ":              ":4\n",
		"pull ":                        ":4\n",
		"build --source ":              "release\nmodules\n:4\n",
		"list --output ":               "json\nyaml\n:4\n",
		"prune ":                       ":4\n",
		"list --data-dir ":             ":16\n",
	} {
		var out bytes.Buffer
		env := &command.Env{Out: &out, Err: &bytes.Buffer{}, LookupEnv: func(string) (string, bool) { return "", false }}
		root := &cobra.Command{Use: "capstan"}
		root.AddCommand(New(env))
		root.SetOut(&out)
		root.SetErr(&bytes.Buffer{})
		words := strings.Split(args, " ")
		given := append([]string{cobra.ShellCompNoDescRequestCmd, "image", words[0]}, "--containers-dir", l.dir, "--data-dir", filepath.Join(l.dir, "plane"))
		root.SetArgs(append(given, words[1:]...))
		if err := root.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", args, diff)
		}
	}
}
