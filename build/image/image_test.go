// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
)

// hello are the options for an image of a small program.
func hello(t *testing.T) options {
	t.Helper()
	return options{
		name: "example.com/hello:v1", out: filepath.Join(t.TempDir(), "hello"), ldflags: "-s -w", arch: "amd64,arm64", epoch: "1700000000",
		labels: labels{"org.opencontainers.image.source": "https://example.com"}, packages: []string{"./testdata/hello"},
	}
}

// sums are the files of a folder with the digests of what they hold.
func sums(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		sum := sha256.Sum256(text)
		all[name] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTwoBuildsAreTheSame(t *testing.T) {
	t.Parallel()
	one, two := hello(t), hello(t)
	for _, o := range []options{one, two} {
		if err := run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	first := sums(t, one.out)
	if diff := cmp.Diff(first, sums(t, two.out)); diff != "" {
		t.Errorf("(-first +second)\n%s", diff)
	}
	for _, name := range []string{"amd64.tar", "arm64.tar", "layout/index.json", "layout/oci-layout"} {
		if first[name] == "" {
			t.Errorf("there is no %s among %v", name, first)
		}
	}
}

func TestTheIndexHasBothArchitectures(t *testing.T) {
	t.Parallel()
	o := hello(t)
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	top, err := layout.ImageIndexFromPath(filepath.Join(o.out, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	outer, err := top.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	inner, err := top.ImageIndex(outer.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	m, err := inner.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var have []v1.Platform
	for _, d := range m.Manifests {
		have = append(have, *d.Platform)
		image, err := inner.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != d.Platform.Architecture || config.Created.Unix() != 1700000000 || config.Config.User != "65532:65532" || config.Config.Labels["org.opencontainers.image.source"] != "https://example.com" || config.Config.Labels["org.opencontainers.image.created"] != "2023-11-14T22:13:20Z" {
			t.Errorf("the configuration is %+v", config)
		}
	}
	if diff := cmp.Diff([]v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}, have); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestWhatIsBuiltIsImportedAndRuns imports everything that is written into a store,
// and runs the program from its root. It runs alone, since it starts a program that it
// has just written: see atomicfile.WriteProgram.
func TestWhatIsBuiltIsImportedAndRuns(t *testing.T) {
	o := hello(t)
	o.program = "manager"
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"", "layout", runtime.GOARCH + ".tar"} {
		s, err := ociimages.Open(t.TempDir(), ociimages.Options{})
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Import(t.Context(), filepath.Join(o.out, file))
		if err != nil {
			t.Fatal(err)
		}
		root, release, err := s.Root(all[0].Digest)
		if err != nil {
			t.Fatal(err)
		}
		if entry := all[0].Config.Entrypoint[0]; entry != "/manager" {
			t.Errorf("%s: it runs %s", file, entry)
		}
		if out, err := exec.CommandContext(t.Context(), filepath.Join(root, all[0].Config.Entrypoint[0])).Output(); string(out) != "hello\n" || err != nil {
			t.Errorf("%s: it says %q, %v", file, out, err)
		}
		for name, want := range map[string]os.FileMode{"tmp": os.ModeDir | os.ModeSticky | 0o777, "home/nonroot": os.ModeDir | 0o700, "etc/passwd": 0o644} {
			if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Mode() != want {
				t.Errorf("%s: %s is %v, %v; want %v", file, name, info.Mode(), err, want)
			}
		}
		if text, err := os.ReadFile(filepath.Join(root, "etc/ssl/certs/ca-certificates.crt")); err != nil || strings.Count(string(text), "BEGIN CERTIFICATE") < 100 {
			t.Errorf("%s: %d certificates, %v", file, strings.Count(string(text), "BEGIN CERTIFICATE"), err)
		}
		release()
	}
}

func TestImagesThatAreNotMade(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(o *options)
		want   string
	}{
		"no name":                {func(o *options) { o.name = "" }, "are needed"},
		"a program in a folder":  {func(o *options) { o.program = "bin/manager" }, "-program bin/manager: name a file"},
		"a bad name":             {func(o *options) { o.name = "A B:v1" }, "write image A B:v1"},
		"no such package":        {func(o *options) { o.packages = []string{"./none"} }, "build ./none"},
		"what does not build":    {func(o *options) { o.ldflags = "-nonsense" }, "build ./testdata/hello for linux/amd64"},
		"another architecture":   {func(o *options) { o.arch = "riscv64" }, `architecture "riscv64" is not known`},
		"a bad time":             {func(o *options) { o.epoch = "today" }, `SOURCE_DATE_EPOCH: "today"`},
		"a folder that is there": {func(o *options) { o.out = filepath.Dir(o.out) }, "is there already"},
	} {
		o := hello(t)
		tc.change(&o)
		err := run(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
		if entries, err := os.ReadDir(filepath.Dir(o.out)); err == nil && len(entries) > 0 && tc.want != "is there already" {
			t.Errorf("%s: it left %v", name, entries)
		}
	}
}
