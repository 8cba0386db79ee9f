// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

func TestLinksAreFollowedInsideARoot(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	err := errors.Join(
		os.MkdirAll(at("usr/sbin"), 0o755), os.MkdirAll(at("etc/alternatives"), 0o755),
		atomicfile.WriteProgram(at("usr/sbin/real"), nil), os.Symlink("usr/sbin", at("sbin")),
		os.Symlink("/etc/alternatives/tool", at("usr/sbin/tool")), os.Symlink("/sbin/real", at("etc/alternatives/tool")),
		os.Symlink("loop", at("loop")), os.Symlink("../../../../../../usr/sbin/real", at("up")),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/usr/sbin/tool": "/usr/sbin/real", "/sbin/tool": "/usr/sbin/real", "/usr/sbin/real": "/usr/sbin/real",
		"/up": "/usr/sbin/real", "/loop": "", "/none": "", "/usr/sbin/none": "",
	} {
		got, err := resolve(root, name)
		if got != want && want != "" || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestAProgramComesWithItsLibraries(t *testing.T) {
	t.Parallel()
	const shell = "/bin/sh"
	real, err := resolve("/", shell)
	if err != nil {
		t.Skipf("there is no shell here to try it with: %v", err)
	}
	files, err := filesOf("/", map[string]string{"/usr/bin/tool": shell})
	if err != nil {
		t.Skipf("the libraries of this host lie elsewhere: %v", err)
	}
	var libc, program, link bool
	for _, f := range files {
		libc = libc || strings.HasPrefix(filepath.Base(f.Path), "libc.")
		program = program || f.Path == real && f.From == real
		link = link || f.Path == "/usr/bin/tool" && f.Link == real
	}
	if !libc || !program || !link {
		t.Errorf("libc %v, the program %v, its name %v: want all, in %v", libc, program, link, files)
	}
	if _, err := filesOf(t.TempDir(), map[string]string{"/usr/bin/tool": shell}); err == nil {
		t.Error("an empty root has programs")
	}
}
