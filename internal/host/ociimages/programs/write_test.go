// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"archive/tar"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestWriteHasAllArchitectures(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600))
	var images []v1.Image
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		image, err := Image(arch, []string{program(t, machine, "tool")}, Options{Created: created, Labels: map[string]string{"a": "b"}})
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, image)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := Write(dir, "example.com/tool:v1", images...); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(dir, "layout"))
	if err != nil {
		t.Fatal(err)
	}
	top, err := index.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != "example.com/tool:v1" || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1" {
		t.Fatalf("the layout has %+v, %v", top, err)
	}
	all, err := index.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := all.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range inner.Manifests {
		platforms = append(platforms, m.Platform.String())
	}
	slices.Sort(platforms)
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("platforms are %v, want %v", platforms, want)
	}
	for _, arch := range []string{"amd64", "arm64"} {
		image, err := tarball.ImageFromPath(filepath.Join(dir, arch+".tar"), nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := image.ConfigFile()
		if err != nil || c.Architecture != arch || c.Config.User != "65532:65532" || c.Config.Labels["a"] != "b" || !c.Created.Equal(created.Truncate(time.Second)) {
			t.Errorf("%s: its configuration is %+v, %v", arch, c, err)
		}
		text, err := os.ReadFile(filepath.Join(dir, arch+".tar"))
		if err != nil || strings.Contains(string(text), "ggcr") { // nothing names the tool that wrote it
			t.Errorf("%s: %v", arch, err)
		}
	}
	for name, tc := range map[string]struct {
		dir, ref string
		want     error
	}{
		"a folder that exists": {dir, "example.com/tool:v1", os.ErrExist},
		"a bad name":           {filepath.Join(t.TempDir(), "out"), "example.com/tool:v 1", nil},
	} {
		err := Write(tc.dir, tc.ref, images...)
		if err == nil || !strings.HasPrefix(err.Error(), "write image "+tc.ref+": ") || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestImageIsOfPlainUser: its files belong to root, except for the home of its user.
func TestImageIsOfPlainUser(t *testing.T) {
	t.Parallel()
	image, err := Image("amd64", []string{program(t, elf.EM_X86_64, "tool")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	content := mutate.Extract(image)
	defer func() { _ = content.Close() }()
	got := headers(t, content)
	for name, want := range map[string]string{
		"tool": "0 755", "etc/passwd": "0 644", "etc/ssl/certs/ca-certificates.crt": "0 644", "home": "0 755", "home/nonroot": "65532 700", "tmp": "0 1777",
	} {
		if got[name] != want {
			t.Errorf("%s: owner and mode are %q, want %q", name, got[name], want)
		}
	}
}

// headers returns the owner and the mode of each file of an archive.
func headers(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	all := map[string]string{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(h.Name, "/")] = fmt.Sprintf("%d %o", h.Uid, h.Mode)
	}
}
