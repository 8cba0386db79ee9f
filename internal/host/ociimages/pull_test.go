// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/kit/registry"
)

func TestAnImageIsPulled(t *testing.T) {
	t.Parallel()
	r, s := newServer(t), openStore(t)
	image := imageOf(t, amd64, layerWith(t, map[string]string{"manager": "one", "etc/os": "base"}), layerWith(t, map[string]string{"manager": "two"}))
	ref := r.push(t, "org/manager:v1", image)
	var told []Progress
	var mu sync.Mutex
	m, err := s.Pull(t.Context(), ref, PullOptions{Progress: func(p Progress) { mu.Lock(); told = append(told, p); mu.Unlock() }})
	must(t, err)
	if got := within(t, s, m, "manager") + within(t, s, m, "etc/os"); got != "twobase" {
		t.Errorf("its files hold %q", got)
	}
	want := Config{
		Entrypoint: []string{"/manager"}, Cmd: []string{"--leader-elect"}, Env: []string{"PATH=/bin"}, User: "65532:65532", WorkingDir: "/work",
		StopSignal: "SIGINT", ExposedPorts: []string{"8080/tcp"}, Volumes: []string{"/data"}, Labels: map[string]string{"a": "b"},
	}
	if diff := cmp.Diff(want, m.Config); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if m.Digest != digestOfImage(t, image) || m.Platform != "linux/amd64" || m.Size != 10 || !slices.Equal(m.Names, []string{ref}) {
		t.Errorf("got %+v", m)
	}
	if len(told) < 2 || told[0].Total == 0 || told[0].Have != told[0].Total {
		t.Errorf("progress is %+v", told)
	}
	for _, wanted := range []string{ref, m.Digest, m.Digest[7:19]} {
		if found, err := s.Find(wanted); err != nil || found.Digest != m.Digest {
			t.Errorf("by %s: got %v, %v", wanted, found.Digest, err)
		}
	}
	if _, err := s.Find(r.host() + "/org/manager:v2"); !errors.As(err, new(*MissingError)) {
		t.Errorf("another tag: got %v, want that it is missing", err)
	}
}

func TestLayersAreFetchedAndKeptOnce(t *testing.T) {
	t.Parallel()
	r, s := newServer(t), openStore(t)
	base := layerWith(t, map[string]string{"base": "base"})
	one := r.push(t, "org/one:v1", imageOf(t, amd64, base, layerWith(t, map[string]string{"a": "1"})))
	two := r.push(t, "org/two:v1", imageOf(t, amd64, base, layerWith(t, map[string]string{"a": "2"})))
	first, err := s.Pull(t.Context(), one, PullOptions{})
	must(t, err)
	if n := len(r.blobs()); n != 3 {
		t.Errorf("the first fetched %d blobs, want 2 layers and a configuration", n)
	}
	second, err := s.Pull(t.Context(), two, PullOptions{})
	must(t, err)
	if n := len(r.blobs()); n != 5 {
		t.Errorf("both fetched %d blobs, want 3 layers and 2 configurations", n)
	}
	_, err = s.Pull(t.Context(), two, PullOptions{})
	must(t, err)
	if n := len(r.blobs()); n != 6 {
		t.Errorf("what was there was fetched again: %d blobs, want one configuration more", n)
	}
	a, errA := os.Stat(filepath.Join(s.RootDir(first.Digest), "base"))
	b, errB := os.Stat(filepath.Join(s.RootDir(second.Digest), "base"))
	if must(t, errors.Join(errA, errB)); !os.SameFile(a, b) {
		t.Error("each image has a copy of what they share")
	}
	if n, err := s.Bytes(); n != 6 || err != nil {
		t.Errorf("all have %d bytes, %v; want 6", n, err)
	}
}

func TestOneOfManyPullsFetches(t *testing.T) {
	t.Parallel()
	r := newServer(t)
	ref := r.push(t, "org/a:v1", imageOf(t, amd64, layerWith(t, map[string]string{"a": "1"}), layerWith(t, map[string]string{"b": "2"})))
	dir := filepath.Join(t.TempDir(), "images")
	var all sync.WaitGroup
	for range 4 {
		s, err := Open(dir, Options{Platform: amd64}) // like separate processes
		must(t, err)
		for range 3 {
			all.Go(func() {
				if m, err := s.Pull(t.Context(), ref, PullOptions{}); err != nil || len(m.Layers) != 2 {
					t.Errorf("got %+v, %v", m, err)
				}
			})
		}
	}
	all.Wait()
	blobs := r.blobs()
	slices.Sort(blobs)
	if n := len(slices.Compact(blobs)); n != 3 || len(r.blobs()) != 12+2 {
		t.Errorf("%d blobs were asked for %d times, want each layer once", n, len(r.blobs()))
	}
	s, err := Open(dir, Options{})
	must(t, err)
	if images, err := s.List(); err != nil || len(images) != 1 {
		t.Errorf("there are %v, %v; want one image", images, err)
	}
}

func TestTheImageOfThisPlatformIsTaken(t *testing.T) {
	t.Parallel()
	r := newServer(t)
	for name, tc := range map[string]struct {
		what any
		at   v1.Platform
		want string // in the file a, or of the error
	}{
		"of two":              {indexOf(t, imageFor(t, amd64), imageFor(t, arm64)), arm64, "arm64"},
		"a variant":           {indexOf(t, imageFor(t, amd64), imageFor(t, v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"})), arm64, "arm64"},
		"an index in another": {mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: indexOf(t, imageFor(t, amd64))}), amd64, "amd64"},
		"not there":           {indexOf(t, imageFor(t, amd64), imageFor(t, arm64)), riscv64, "the image is for linux/amd64, linux/arm64, not for linux/riscv64"},
		"another, alone":      {imageFor(t, arm64), amd64, "the image is for linux/arm64, not for linux/amd64"},
		"a variant that is more than is here": {indexOf(t, imageFor(t, v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"})), amd64,
			"the image is for linux/amd64/v3, not for linux/amd64"},
	} {
		ref := r.push(t, "org/a:"+strings.NewReplacer(" ", "-", ",", "").Replace(name), tc.what)
		s := openStore(t, func(o *Options) { o.Platform = tc.at })
		m, err := s.Pull(t.Context(), ref, PullOptions{})
		if err != nil {
			if !errors.As(err, new(*PlatformError)) || !strings.Contains(err.Error(), tc.want+":") {
				t.Errorf("%s: got %v, want %s", name, err, tc.want)
			}
			continue
		}
		if got := within(t, s, m, "a"); got != tc.want {
			t.Errorf("%s: got that for %s, want %s", name, got, tc.want)
		}
	}
}

func imageFor(t *testing.T, p v1.Platform) v1.Image {
	return imageOf(t, p, layerWith(t, map[string]string{"a": p.Architecture}))
}

func TestPullResumesInterruptedDownload(t *testing.T) {
	t.Parallel()
	r, s := newServer(t), openStore(t)
	var noise strings.Builder
	for n := range 20_000 {
		fmt.Fprintf(&noise, "%x", n*n*n)
	}
	layer := layerWith(t, map[string]string{"noise": noise.String()})
	ref := r.push(t, "org/a:v1", imageOf(t, amd64, layer))
	h, err := layer.Digest()
	must(t, err)
	body, err := layer.Compressed()
	must(t, err)
	var whole bytes.Buffer
	_, err = whole.ReadFrom(body)
	must(t, err)
	var from []int64
	r.instead = func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasSuffix(req.URL.Path, h.String()) {
			return false
		}
		var at int64
		if text := req.Header.Get("Range"); text != "" {
			if _, err := fmt.Sscanf(text, "bytes=%d-", &at); err != nil {
				t.Error(err)
			}
		}
		from = append(from, at)
		w.Header().Set("Content-Length", fmt.Sprint(int64(whole.Len())-at))
		if at > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, whole.Len()-1, whole.Len()))
			w.WriteHeader(http.StatusPartialContent)
		}
		if len(from) > 5 { // works again, after all attempts of the first pull
			_, _ = w.Write(whole.Bytes()[at:])
			return true
		}
		_, _ = w.Write(whole.Bytes()[at : at+int64(whole.Len())/10])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if _, err := s.Pull(t.Context(), ref, PullOptions{}); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Fatalf("the first: got %v, want that it was cut off", err)
	}
	if left := leftovers(t, s); !slices.Equal(left, []string{partsDir + "/" + h.Hex + ".part"}) {
		t.Errorf("it left %v, want what it has of the layer", left)
	}
	m, err := s.Pull(t.Context(), ref, PullOptions{})
	must(t, err)
	if len(from) != 6 || !slices.IsSorted(from) || from[0] != 0 || from[5] <= from[1] {
		t.Errorf("it was asked for what follows %v, want ever less", from)
	}
	if within(t, s, m, "noise") != noise.String() {
		t.Error("the file has other contents")
	}
	if left := leftovers(t, s); len(left) != 2 {
		t.Errorf("there are %v, want a layer and a root", left)
	}
}

// TestALayerThatWasFetchedIsKeptUnlessTheDiskIsFull ends a pull while a layer is unpacked.
func TestALayerThatWasFetchedIsKeptUnlessTheDiskIsFull(t *testing.T) {
	t.Parallel()
	r := newServer(t)
	layer := layerWith(t, map[string]string{"a": "1"})
	d, err := partial.Descriptor(layer)
	must(t, err)
	ref := r.push(t, "org/app:v1", imageOf(t, amd64, layer))
	for name, tc := range map[string]struct {
		cause error
		want  []string
	}{
		"it is read":                 {nil, nil},
		"a user stops it":            {context.Canceled, []string{partsDir + "/" + d.Digest.Hex}},
		"the disk is full meanwhile": {&os.PathError{Op: "write", Path: "another layer", Err: unix.ENOSPC}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			repo, err := s.registry.Open(ref, nil)
			must(t, err)
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			coming, err := (&upstream{store: s, repo: repo, progress: func(Progress) {}}).Layer(ctx, *d)
			must(t, err)
			if tc.cause != nil {
				stop(tc.cause)
			}
			must(t, coming.Close())
			if left := leftovers(t, s); !slices.Equal(left, tc.want) {
				t.Errorf("there are %v, want %v", left, tc.want)
			}
		})
	}
}

func TestBadImagesAreRefused(t *testing.T) {
	t.Parallel()
	var zeros bytes.Buffer
	w := gzip.NewWriter(&zeros)
	for range 64 {
		_, err := w.Write(make([]byte, 1<<20))
		must(t, err)
	}
	must(t, w.Close())
	ok := map[string]string{"a": "1"}
	many := make([]v1.Layer, 11)
	for n := range many {
		many[n] = layerWith(t, map[string]string{fmt.Sprint(n): ""})
	}
	large := strings.Repeat("x", 700<<10)
	another := func(what, with string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, what) {
				return false
			}
			_, _ = w.Write([]byte(with))
			return true
		}
	}
	layerDigest, err := layerWith(t, ok).Digest()
	must(t, err)
	for name, tc := range map[string]struct {
		image   v1.Image
		instead func(http.ResponseWriter, *http.Request) bool
		want    string
	}{
		"a layer of other contents": {imageOf(t, amd64, layerWith(t, ok)), another(layerDigest.String(), "other"), "has digest sha256:"},
		"an endless layer":          {imageOf(t, amd64, layerWith(t, ok)), endless(layerDigest.String()), "it has more than"},
		"a manifest without end":    {imageOf(t, amd64, layerWith(t, ok)), endless("/manifests/"), "larger than 8 MiB"},
		"a manifest that is none":   {imageOf(t, amd64, layerWith(t, ok)), another("/manifests/", "[]"), "read the manifest"},
		"an empty manifest":         {imageOf(t, amd64, layerWith(t, ok)), another("/manifests/", "{}"), "names neither"},
		"an old manifest":           {imageOf(t, amd64, layerWith(t, ok)), another("/manifests/", `{"schemaVersion":1}`), "version 1"},
		"an artifact":               {imageOf(t, amd64, layerWith(t, ok)), another("/manifests/", `{"config":{"mediaType":"a/b","size":2,"digest":"`+filetree.Digest([]byte("{}"))+`"}}`), `an artifact of "a/b"`},
		"a configuration of others": {imageOf(t, amd64, layerWith(t, ok)), another("/blobs/", "{}"), "has digest"},
		"too many layers":           {imageOf(t, amd64, many...), nil, "it has 11 layers: 10 are accepted"},
		"what unfolds to too much":  {imageOf(t, amd64, layerWith(t, map[string]string{"a": large}), layerWith(t, map[string]string{"b": large})), nil, "unfold to more than"},
		"a bomb":                    {bomb(t, zeros.Bytes()), nil, "unfolds to more than is accepted"},
		"no archive":                {bomb(t, []byte("this is no archive")), nil, "read the archive"},
		"a layer of another kind":   {foreign(t), nil, `is of "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"`},
		"a name that climbs":        {imageOf(t, amd64, layerWith(t, map[string]string{"../a": ""})), nil, "leads out of the image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, s := newServer(t), openStore(t)
			ref := r.push(t, "org/a:v1", tc.image)
			r.instead = tc.instead
			_, err := s.Pull(t.Context(), ref, PullOptions{})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "pull image "+ref+": ") {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if images, err := s.List(); err != nil || len(images) > 0 {
				t.Errorf("there are %v, %v; want none", images, err)
			}
			for _, left := range leftovers(t, s) {
				if !strings.HasPrefix(left, layersDir) && !strings.HasSuffix(left, ".part") { // other layers may be intact
					t.Errorf("it left %s", left)
				}
			}
		})
	}
}

// TestLayersAreFetchedOnlyUpToLimit: a hundred layers of the largest size would fill the
// disk before they are added up.
func TestLayersAreFetchedOnlyUpToLimit(t *testing.T) {
	t.Parallel()
	r, s := newServer(t), openStore(t, func(o *Options) { o.Concurrent = 1 })
	var many []v1.Layer
	for n := range 8 {
		many = append(many, layerWith(t, map[string]string{"a": strings.Repeat(fmt.Sprint(n), 700<<10)}))
	}
	_, err := s.Pull(t.Context(), r.push(t, "org/a:v1", imageOf(t, amd64, many...)), PullOptions{})
	if err == nil || !strings.Contains(err.Error(), "unfold to more than") {
		t.Errorf("got %v", err)
	}
	if n := len(r.blobs()); n != 3 {
		t.Errorf("got %d blobs, want the configuration and two layers", n)
	}
}

// TestLayersThatHangDelayNoOtherImage: a registry sends nothing of as many layers as are
// fetched at a time.
func TestLayersThatHangDelayNoOtherImage(t *testing.T) {
	t.Parallel()
	r, s := newServer(t), openStore(t, func(o *Options) { o.Concurrent = 2 })
	hang := map[string]bool{}
	var layers []v1.Layer
	for n := range 2 {
		layer := layerWith(t, map[string]string{"a": fmt.Sprint(n)})
		digest, err := layer.Digest()
		must(t, err)
		layers, hang[digest.String()] = append(layers, layer), true
	}
	hanging := r.push(t, "org/hanging:v1", imageOf(t, amd64, layers...))
	good := r.push(t, "org/good:v1", imageOf(t, amd64, layerWith(t, map[string]string{"a": "good"})))
	arrived := make(chan struct{}, 2)
	r.instead = func(_ http.ResponseWriter, req *http.Request) bool {
		if hang[path.Base(req.URL.Path)] {
			arrived <- struct{}{}
			<-req.Context().Done()
		}
		return false
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.Pull(ctx, hanging, PullOptions{})
		ended <- err
	}()
	for range 2 {
		<-arrived
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.Pull(soon, good, PullOptions{}); err != nil {
		t.Errorf("another image: %v", err)
	}
	stop()
	if err := <-ended; err == nil {
		t.Error("an image without layers was pulled")
	}
}

// endless responds without end to requests with a part in their path.
func endless(what string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, what) {
			return false
		}
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return true
			}
		}
	}
}

// bomb returns an image of one unchanged layer.
func bomb(t *testing.T, compressed []byte) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(imageOf(t, amd64), static.NewLayer(compressed, types.DockerLayer))
	must(t, err)
	return image
}

// foreign returns an image whose layer is on another host.
func foreign(t *testing.T) v1.Image {
	t.Helper()
	image, err := mutate.Append(imageOf(t, amd64), mutate.Addendum{Layer: layerWith(t, map[string]string{"a": "1"}), MediaType: types.DockerForeignLayer})
	must(t, err)
	return image
}

func TestWhatIsNotThereOrForOthers(t *testing.T) {
	t.Parallel()
	r, s := newServer(t), openStore(t)
	_, err := s.Pull(t.Context(), r.host()+"/org/none:v1", PullOptions{})
	if !errors.As(err, new(*registry.NotFoundError)) {
		t.Errorf("got %v, want that it is not found", err)
	}
	r.instead = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(http.StatusForbidden); return true }
	_, err = s.Pull(t.Context(), r.host()+"/org/none:v1", PullOptions{})
	if !errors.As(err, new(*registry.DeniedError)) || !strings.Contains(err.Error(), "docker login "+r.host()) {
		t.Errorf("got %v, want that it is denied", err)
	}
	if _, err = s.Pull(t.Context(), "Not A Name", PullOptions{}); err == nil || !strings.Contains(err.Error(), `name of an image "Not A Name"`) {
		t.Errorf("got %v, want that this is no name", err)
	}
}

func TestAMovedTagLeavesTheOldImage(t *testing.T) {
	t.Parallel()
	r, s := newServer(t), openStore(t)
	ref := r.push(t, "org/a:v1", imageOf(t, amd64, layerWith(t, map[string]string{"a": "1"})))
	old, err := s.Pull(t.Context(), ref, PullOptions{})
	must(t, err)
	r.push(t, "org/a:v1", imageOf(t, amd64, layerWith(t, map[string]string{"a": "2"})))
	_, err = s.Pull(t.Context(), ref, PullOptions{})
	must(t, err)
	if m, err := s.Find(ref); err != nil || within(t, s, m, "a") != "2" {
		t.Errorf("the name leads to %v, %v", m, err)
	}
	if m, err := s.Find(old.Digest); err != nil || len(m.Names) != 0 || within(t, s, m, "a") != "1" {
		t.Errorf("the old one is %v, %v", m, err)
	}
}
