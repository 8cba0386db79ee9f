// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	registryserver "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-dev/capstan/internal/kit/registry"
)

var (
	amd64   = v1.Platform{OS: "linux", Architecture: "amd64"}
	arm64   = v1.Platform{OS: "linux", Architecture: "arm64"}
	riscv64 = v1.Platform{OS: "linux", Architecture: "riscv64"}
)

// layerWith returns a layer of files.
func layerWith(t *testing.T, files map[string]string) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(files[name]))}))
		_, err := w.Write([]byte(files[name]))
		must(t, err)
	}
	must(t, w.Close())
	return layerOf(t, buf.Bytes())
}

func layerOf(t *testing.T, plain []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(plain)), nil })
	must(t, err)
	return l
}

// imageOf returns an image for a platform.
func imageOf(t *testing.T, p v1.Platform, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	must(t, err)
	config, err := image.ConfigFile()
	must(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	config.Config = v1.Config{
		Entrypoint: []string{"/manager"}, Cmd: []string{"--leader-elect"}, Env: []string{"PATH=/bin"}, User: "65532:65532", WorkingDir: "/work",
		StopSignal: "SIGINT", ExposedPorts: map[string]struct{}{"8080/tcp": {}}, Volumes: map[string]struct{}{"/data": {}}, Labels: map[string]string{"a": "b"},
	}
	image, err = mutate.ConfigFile(image, config)
	must(t, err)
	return image
}

// indexOf returns an index of images, with the platforms from their configurations.
func indexOf(t *testing.T, images ...v1.Image) v1.ImageIndex {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, i := range images {
		config, err := i.ConfigFile()
		must(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: i, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture, Variant: config.Variant}}})
	}
	return index
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// server is a registry that counts requests and may return other responses.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // METHOD PATH, without the requests that fill it
	// instead handles the request, unless it returns false.
	instead func(w http.ResponseWriter, r *http.Request) bool
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	inner := registryserver.New(registryserver.Logger(log.New(io.Discard, "", 0)))
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fill") == "" {
			s.mu.Lock()
			s.asked = append(s.asked, r.Method+" "+r.URL.Path)
			instead := s.instead
			s.mu.Unlock()
			if instead != nil && instead(w, r) {
				return
			}
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) host() string { return strings.TrimPrefix(s.URL, "http://") }

// blobs returns the digests of the requested layers and configurations.
func (s *server) blobs() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.asked {
		if m := regexp.MustCompile(`^GET .*/blobs/(.*)$`).FindStringSubmatch(a); m != nil {
			all = append(all, m[1])
		}
	}
	return all
}

type filling struct{}

func (filling) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("X-Fill", "yes")
	return http.DefaultTransport.RoundTrip(r)
}

// push fills a registry, and returns the name of the content.
func (s *server) push(t *testing.T, repository string, what any) string {
	t.Helper()
	ref, err := name.ParseReference(s.host() + "/" + repository)
	must(t, err)
	switch what := what.(type) {
	case v1.Image:
		must(t, remote.Write(ref, what, remote.WithTransport(filling{})))
	case v1.ImageIndex:
		must(t, remote.WriteIndex(ref, what, remote.WithTransport(filling{})))
	}
	return ref.String()
}

// openStore opens a store for amd64 with short pauses.
func openStore(t *testing.T, change ...func(*Options)) *Store {
	t.Helper()
	o := Options{Platform: amd64, Registry: registry.Options{Pause: time.Microsecond}, Limits: Limits{Layers: 10, Files: 100, Bytes: 1 << 20, Compressed: 1 << 19}}
	for _, c := range change {
		c(&o)
	}
	s, err := Open(filepath.Join(t.TempDir(), "images"), o)
	must(t, err)
	return s
}

// within reads a file of an image.
func within(t *testing.T, s *Store, m Image, file string) string {
	t.Helper()
	dir, release, err := s.Root(m.Digest)
	must(t, err)
	defer release()
	text, err := os.ReadFile(filepath.Join(dir, file))
	must(t, err)
	return string(text)
}

// leftovers lists the unfinished files in a store: after any failure, there must be
// only locks and what a pull can resume.
func leftovers(t *testing.T, s *Store) (all []string) {
	t.Helper()
	for _, dir := range []string{"tmp", layersDir, rootsDir, partsDir} {
		entries, err := os.ReadDir(s.dir.Join(dir))
		must(t, err)
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".lock") {
				all = append(all, dir+"/"+e.Name())
			}
		}
	}
	return all
}

func digestOfImage(t *testing.T, image v1.Image) string {
	t.Helper()
	h, err := image.Digest()
	must(t, err)
	return h.String()
}
