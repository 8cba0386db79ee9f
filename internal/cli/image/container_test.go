// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
)

// containerImage is one without files, for this host.
func containerImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func TestBothKindsAreListedImportedAndRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := filepath.Join(t.TempDir(), "saved.tar")
	ref, err := name.NewTag("example.com/manager:v1")
	l.must(err)
	l.must(tarball.WriteToFile(file, ref, containerImage(t)))
	if _, err := l.run("import", file); err != nil || !strings.HasPrefix(l.talk.String(), "Container image example.com/manager:v1 is there: sha256:") {
		t.Fatalf("it says %q, %v", &l.talk, err)
	}
	if _, err := l.run("import", file, "--name", "other:v2"); err != nil {
		t.Fatal(err)
	}
	out, err := l.run("list", "-o", "json")
	l.must(err)
	var all []listed
	l.must(json.Unmarshal([]byte(out), &all))
	if len(all) != 2 || all[0].Kind != node || all[1].Kind != container || !slices.Equal(all[1].Names, []string{"docker.io/library/other:v2", "example.com/manager:v1"}) || all[1].InUse {
		t.Fatalf("got %s", out)
	}
	id := short(all[1].ID)
	out, err = l.run("list")
	want := "KIND NAME ID PLATFORM IN USE SIZE\nnode v1.36.3 " + l.id[7:19] + " linux/amd64 no 0 MiB\n" +
		"container docker.io/library/other:v2 " + id + " linux/" + runtime.GOARCH + " no 0 MiB\n" +
		"container example.com/manager:v1 " + id + " linux/" + runtime.GOARCH + " no 0 MiB\n"
	if out != want || err != nil {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
	out, err = l.run("__complete", "remove", "")
	for _, name := range []string{"v1.36.3", "docker.io/library/other:v2", "example.com/manager:v1"} {
		if !strings.Contains(out, name+"\n") || err != nil {
			t.Errorf("completion offers %q, %v; want %s", out, err, name)
		}
	}
	if _, err := l.run("remove", "other:v2", "v1.36.3", "--yes"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.run("remove", id, "--yes"); err != nil {
		t.Fatal(err)
	}
	if out, err := l.run("list", "-o", "json"); out != "[]\n" || err != nil {
		t.Errorf("there are %s, %v; want none", out, err)
	}
}

func TestContainerImagesArePulled(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	ref, err := name.ParseReference(host + "/hub/org/manager:v1")
	l.must(err)
	l.must(remote.Write(ref, containerImage(t)))
	if _, err := l.run("pull", "org/manager:v1", "--mirror", "docker.io="+server.URL+"/hub"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.run("pull", ref.String()); err != nil {
		t.Fatal(err)
	}
	s, err := ociimages.Open(filepath.Join(l.dir, "plane", "images"), ociimages.Options{})
	l.must(err)
	if i, err := s.Find("org/manager:v1"); err != nil || !slices.Equal(i.Names, []string{ref.String(), "docker.io/org/manager:v1"}) {
		t.Errorf("got %v, %v", i.Names, err)
	}
	l.must(os.WriteFile(filepath.Join(l.dir, "plane", "registries.yaml"), []byte("registries: {quay.io: {mirrors: ['"+server.URL+"/hub']}}"), 0o600))
	if _, err := l.run("pull", "quay.io/org/manager:v1"); err != nil {
		t.Errorf("by a mirror of the file: %v", err)
	}
}
