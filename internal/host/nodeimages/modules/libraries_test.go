// SPDX-License-Identifier: Apache-2.0

package ocitar

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

func TestAnImageHoldsItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []File{{Path: "/usr/sbin/tool", From: program}, {Path: "/sbin", Link: "usr/sbin"}}
	archives := []string{filepath.Join(dir, "a.tar"), filepath.Join(dir, "b.tar")}
	var texts [][]byte
	for _, a := range archives {
		if err := Write(a, "registry.k8s.io/tool:v1", []string{"/usr/sbin/tool"}, files); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(a)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Error("the same files are another image")
	}
	image, err := tarball.ImageFromPath(archives[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.OS != "linux" || len(config.RootFS.DiffIDs) != 1 || config.Config.Entrypoint[0] != "/usr/sbin/tool" {
		t.Errorf("its configuration is %v, %v", config, err)
	}
	got := map[string]string{}
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[strings.TrimSuffix(h.Name, "/")] = string(text) + h.Linkname
	}
	if diff := cmp.Diff(map[string]string{"usr": "", "usr/sbin": "", "usr/sbin/tool": "text", "sbin": "usr/sbin"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnImageThatCannotBeMadeIsNamed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.tar")
	for name, err := range map[string]error{
		"no such file": Write(file, "registry.k8s.io/tool:v1", nil, []File{{Path: "/tool", From: "/nonexistent"}}),
		"a bad tag":    Write(file, "registry.k8s.io/tool:v 1", nil, nil),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "image registry.k8s.io/tool:v") {
			t.Errorf("%s: got %v, want an error of that image", name, err)
		}
	}
}

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
	files, err := Programs("/", map[string]string{"/usr/bin/tool": shell})
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
	if _, err := Programs(t.TempDir(), map[string]string{"/usr/bin/tool": shell}); err == nil {
		t.Error("an empty root has programs")
	}
}
