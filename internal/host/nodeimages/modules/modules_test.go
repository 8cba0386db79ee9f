// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-dev/capstan/internal/host/nodeimages/buildcache"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

// command is a script in place of the go command. It records its calls, with the settings
// that they depend on, and the programs that it builds contain the path of their source.
const command = `#!/bin/sh
echo "$* [cgo=$CGO_ENABLED work=$GOWORK]" >>"$CALLS"
case "$1 $2" in
"env GOVERSION") echo go1.99 ;;
"list -m") echo "$CALLS.gomod" ;;
"mod download") case "$3" in *v9.9.9*) echo "unknown revision v9.9.9" >&2; exit 1 ;; esac ;;
"build "*) while [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done; echo "built from $1" >"$out" ;;
esac
`

// lab is a source with that command.
type lab struct {
	*Source
	t     *testing.T
	cache *buildcache.Cache
	calls string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	dir := t.TempDir()
	l := &lab{t: t, calls: filepath.Join(dir, "calls"), Source: &Source{Go: filepath.Join(dir, "go")}}
	l.Env = []string{"CALLS=" + l.calls, "GOWORK=/of/the/user"}
	cache, err := buildcache.Open(filepath.Join(dir, "cache"), nil)
	if err := errors.Join(err, atomicfile.WriteProgram(l.Go, []byte(command)), os.WriteFile(l.calls+".gomod", []byte("module example.com/m\ngo 1.26.0\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	l.cache = cache
	t.Cleanup(func() { _ = l.cache.Close() })
	return l
}

// called returns the calls that begin with a text, and drops all of them.
func (l *lab) called(prefix string) (found []string) {
	l.t.Helper()
	text, err := os.ReadFile(l.calls)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		l.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
		if !strings.Contains(line, "work=off]") {
			l.t.Errorf("the workspace of the user is used: %s", line)
		}
	}
	if err := os.RemoveAll(l.calls); err != nil {
		l.t.Fatal(err)
	}
	return found
}

func versions(t *testing.T, kubernetes string) nodecomponents.Versions {
	t.Helper()
	v, err := nodecomponents.Defaults(kubernetes)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestProgramsAreBuiltOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for _, tc := range []struct {
		kubernetes string
		builds     int
	}{
		{"v1.36.3", len(nodecomponents.Programs()) + len(nodecomponents.Plugins())},
		{"v1.36.3", 0},
		{"v1.36.4", 3}, // kubeadm, kubelet, kubectl
	} {
		executables, plugins, err := l.Programs(t.Context(), l.cache, versions(t, tc.kubernetes))
		if err != nil {
			t.Fatal(err)
		}
		builds := l.called("build ")
		if len(builds) != tc.builds {
			t.Errorf("%s: %d builds, want %d: %q", tc.kubernetes, len(builds), tc.builds, builds)
		}
		for _, b := range builds {
			runc := strings.Contains(b, "opencontainers/runc")
			if strings.Contains(b, "[cgo=1 ") != runc || !strings.HasPrefix(b, "build -trimpath ") {
				t.Errorf("%s: runc alone is built with C: %s", tc.kubernetes, b)
			}
			if version := "component-base/version.gitVersion=" + tc.kubernetes; strings.Contains(b, "k8s.io/kubernetes/cmd/") && !strings.Contains(b, version) {
				t.Errorf("no %s: %s", version, b)
			}
		}
		for i, names := range [][]string{nodecomponents.Programs(), nodecomponents.Plugins()} {
			files := [][]string{executables, plugins}[i]
			if len(files) != len(names) {
				t.Fatalf("got %v, want %v", files, names)
			}
			for j, file := range files {
				if text, err := os.ReadFile(file); err != nil || filepath.Base(file) != names[j] || !strings.HasPrefix(string(text), "built from ") {
					t.Errorf("%s: %q, %v, want %s", file, text, err, names[j])
				}
			}
		}
	}
}

// TestImagesHaveTheirPrograms: etcd and coredns have the versions of their images, which
// kubeadm chooses.
func TestImagesHaveTheirPrograms(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for ref, tc := range map[string]struct {
		module     string // that is downloaded; "" if there is none
		path       string
		entrypoint []string
	}{
		"registry.k8s.io/kube-apiserver:v1.36.3":    {"k8s.io/kubernetes@v1.36.3", "usr/local/bin/kube-apiserver", nil},
		"registry.k8s.io/etcd:3.6.8-0":              {"go.etcd.io/etcd/server/v3@v3.6.8", "usr/local/bin/etcd", nil},
		"registry.k8s.io/coredns/coredns:v1.14.2":   {"github.com/coredns/coredns@v1.14.2", "usr/local/bin/coredns", []string{"/usr/local/bin/coredns"}},
		"registry.k8s.io/pause:3.10.1":              {"", "pause", []string{"/pause"}},
		"registry.example.com/kube-scheduler:other": {"k8s.io/kubernetes@v1.36.3", "usr/local/bin/kube-scheduler", nil},
	} {
		image, err := nodecomponents.ParseImage(ref)
		if err != nil {
			t.Fatal(err)
		}
		archive, err := l.Image(t.Context(), l.cache, versions(t, "v1.36.3"), image, buildcache.Outcome{})
		if err != nil {
			t.Errorf("%s: %v", ref, err)
			continue
		}
		got, err := tarball.ImageFromPath(archive, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := got.ConfigFile()
		if err != nil || !slices.Equal(c.Config.Entrypoint, tc.entrypoint) {
			t.Errorf("%s: entrypoint %v, %v, want %v", ref, c.Config.Entrypoint, err, tc.entrypoint)
		}
		text, err := os.ReadFile(archive)
		if err != nil || filepath.Base(archive) != image.Name+".tar" || !bytes.Contains(text, []byte(ref)) {
			t.Errorf("%s: the archive %s does not name it, %v", ref, archive, err)
		}
		if downloads := l.called("mod download " + tc.module + " "); tc.module != "" && len(downloads) > 1 {
			t.Errorf("%s: downloads %v, want %s once at most", ref, downloads, tc.module)
		}
	}
	for ref, want := range map[string]string{
		"registry.k8s.io/unknown:v1":         "no module is known that unknown is built from",
		"registry.k8s.io/kube-proxy:v1.36.3": "image registry.k8s.io/kube-proxy:v1.36.3: ", // the root has no nft
	} {
		image, err := nodecomponents.ParseImage(ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Image(t.Context(), l.cache, versions(t, "v1.36.3"), image, buildcache.Outcome{Dir: t.TempDir()}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", ref, err, want)
		}
	}
}

func TestFailureOfCommandIsReported(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	v := versions(t, "v1.36.3")
	v.Runc = "v9.9.9"
	_, err := l.program(t.Context(), l.cache, v, "runc")
	if err == nil || !strings.HasSuffix(err.Error(), "go mod: exit status 1: unknown revision v9.9.9: is v9.9.9 a version that was released?") {
		t.Errorf("got %v", err)
	}
	long := filepath.Join(t.TempDir(), "go")
	if err := atomicfile.WriteProgram(long, []byte("#!/bin/sh\ni=0; while [ $i -lt 1000 ]; do echo \"line $i\" >&2; i=$((i+1)); done; exit 2\n")); err != nil {
		t.Fatal(err)
	}
	if err := (&Source{Go: long}).run(t.Context(), "", nil, "build"); err == nil || !strings.HasSuffix(err.Error(), "line 999") || len(err.Error()) > maxOutput+100 {
		t.Errorf("of much output: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	if err := l.run(ctx, "", nil, "build"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after its end: %v", err)
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	err := (&Source{}).Check()
	for _, want := range []string{`"go"`, "install Go, or take the parts from releases", `"gcc"`, "install gcc and libseccomp-dev"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if l := newLab(t); strings.Contains(fmt.Sprint(l.Check()), "install Go") || l.Name() != "modules" {
		t.Errorf("with its command: %v", l.Check())
	}
}

// TestInterpreterIsBounded: a file of an image says how long the path of its loader is.
func TestInterpreterIsBounded(t *testing.T) {
	t.Parallel()
	const at = 64 + 56 // after both headers
	for name, tc := range map[string]struct {
		text string
		size uint64
		want string
	}{
		"a loader":               {"/lib64/ld.so\x00", 13, "/lib64/ld.so"},
		"longer than its file":   {"/lib64/ld.so\x00", 4096, ""},
		"longer than all memory": {"/lib64/ld.so\x00", 1 << 61, ""},
	} {
		var b bytes.Buffer
		header := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
		copy(header.Ident[:], elf.ELFMAG)
		header.Ident[elf.EI_CLASS], header.Ident[elf.EI_DATA], header.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
		err := errors.Join(binary.Write(&b, binary.LittleEndian, header), binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_INTERP), Off: at, Filesz: tc.size}))
		b.WriteString(tc.text)
		f, ferr := elf.NewFile(bytes.NewReader(b.Bytes()))
		if err := errors.Join(err, ferr); err != nil {
			t.Fatal(err)
		}
		if got := interpreter(f); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
