// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// program writes the header of a program for Linux that needs no library.
func program(t *testing.T, machine elf.Machine, name string) string {
	t.Helper()
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT), Ehsize: 64}
	copy(header.Ident[:], elf.ELFMAG)
	header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	b.WriteString(name) // makes each program different
	file := filepath.Join(t.TempDir(), name)
	if err := atomicfile.WriteProgram(file, b.Bytes()); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestImagesShareWhatIsNotTheirOwn(t *testing.T) {
	t.Parallel()
	var layers [][]string
	for _, name := range []string{"one", "two"} {
		image, err := Image("amd64", []string{program(t, elf.EM_X86_64, name)}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.Config.Entrypoint; len(got) != 1 || got[0] != "/"+name {
			t.Errorf("%s is run by %v", name, got)
		}
		layers = append(layers, []string{config.RootFS.DiffIDs[0].String(), config.RootFS.DiffIDs[1].String()})
	}
	if layers[0][0] != layers[1][0] || layers[0][1] == layers[1][1] {
		t.Errorf("the layers are %v, want the first to be the same", layers)
	}
}

func TestProgramsThatCannotRunAreRefused(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "script")
	if err := atomicfile.WriteProgram(script, []byte("#!/bin/sh\n")); err != nil {
		t.Fatal(err)
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		arch, file, want string
	}{
		"nothing":              {"amd64", filepath.Join(t.TempDir(), "none"), "no such file"},
		"a script":             {"amd64", script, "no program for Linux"},
		"another architecture": {"amd64", program(t, elf.EM_AARCH64, "a"), "it is for EM_AARCH64, not for EM_X86_64"},
		"an unknown one":       {"mips", script, `architecture "mips" is not known`},
	} {
		if _, err := Image(tc.arch, []string{tc.file}, Options{}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	dynamic := 0
	for _, arch := range []string{"amd64", "arm64"} { // the shell of this host is for one of them
		if _, err := Image(arch, []string{shell}, Options{}); err != nil && strings.Contains(err.Error(), "CGO_ENABLED=0") {
			dynamic++
		}
	}
	if dynamic != 1 {
		t.Errorf("%s is refused for its libraries %d times, want once", shell, dynamic)
	}
	if _, err := Image("amd64", nil, Options{}); err == nil {
		t.Error("an image of nothing was made")
	}
}

func TestAnImageHoldsItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tool := filepath.Join(dir, "program")
	if err := os.WriteFile(tool, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := []File{{Path: "/usr/sbin/tool", From: tool}, {Path: "/sbin", Link: "usr/sbin"}}
	archives := []string{filepath.Join(dir, "a.tar"), filepath.Join(dir, "b.tar")}
	var texts [][]byte
	for _, a := range archives {
		if err := Save(a, "registry.k8s.io/tool:v1", []string{"/usr/sbin/tool"}, files); err != nil {
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
		"no such file": Save(file, "registry.k8s.io/tool:v1", nil, []File{{Path: "/tool", From: "/nonexistent"}}),
		"a bad tag":    Save(file, "registry.k8s.io/tool:v 1", nil, nil),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "write image registry.k8s.io/tool:v") {
			t.Errorf("%s: got %v, want an error of that image", name, err)
		}
	}
}
