// SPDX-License-Identifier: Apache-2.0

package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/capstan-dev/capstan/internal/host/nodeimages/buildcache"
	"github.com/capstan-dev/capstan/internal/kit/download"
	ociregistry "github.com/capstan-dev/capstan/internal/kit/registry"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

var versions = nodecomponents.Versions{Kubernetes: "v1.36.3", Containerd: "v2.3.7", Runc: "v1.5.2", Plugins: "v1.9.1"}

func TestArtifacts(t *testing.T) {
	t.Parallel()
	all := (&Source{}).artifacts(versions, "arm64")
	got := map[string][2]string{}
	for n, a := range all {
		got[n] = [2]string{a.url, a.checksums}
	}
	const github = "https://github.com/"
	want := map[string][2]string{
		"kubeadm":     {"https://dl.k8s.io/v1.36.3/bin/linux/arm64/kubeadm", "https://dl.k8s.io/v1.36.3/bin/linux/arm64/kubeadm.sha256"},
		"kubectl":     {"https://dl.k8s.io/v1.36.3/bin/linux/arm64/kubectl", "https://dl.k8s.io/v1.36.3/bin/linux/arm64/kubectl.sha256"},
		"kubelet":     {"https://dl.k8s.io/v1.36.3/bin/linux/arm64/kubelet", "https://dl.k8s.io/v1.36.3/bin/linux/arm64/kubelet.sha256"},
		"containerd":  {github + "containerd/containerd/releases/download/v2.3.7/containerd-2.3.7-linux-arm64.tar.gz", github + "containerd/containerd/releases/download/v2.3.7/containerd-2.3.7-linux-arm64.tar.gz.sha256sum"},
		"cni-plugins": {github + "containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz", github + "containernetworking/plugins/releases/download/v1.9.1/cni-plugins-linux-arm64-v1.9.1.tgz.sha256"},
		"runc":        {github + "opencontainers/runc/releases/download/v1.5.2/runc.arm64", github + "opencontainers/runc/releases/download/v1.5.2/runc.sha256sum"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// archive returns a compressed archive with files.
func archive(t *testing.T, names ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	for _, n := range names {
		if err := w.WriteHeader(&tar.Header{Name: n, Size: int64(len(n)), Mode: 0o755, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// site serves releases, and counts the requests for each file.
func site(t *testing.T, replace map[string][]byte) (*Source, map[string]int) {
	t.Helper()
	files, fetched := map[string][]byte{}, map[string]int{}
	for n, a := range (&Source{Kubernetes: "/k8s", GitHub: "/github"}).artifacts(versions, runtime.GOARCH) {
		content := []byte("program " + n)
		switch n {
		case "containerd":
			content = archive(t, "bin/containerd", "bin/containerd-shim-runc-v2", "bin/ctr", "bin/containerd-stress")
		case "cni-plugins":
			content = archive(t, "./bridge", "./dhcp", "./host-local", "./loopback", "./portmap", "./ptp")
		}
		files[a.url] = content
		files[a.checksums] = fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(content), filepath.Base(a.url))
		if r, ok := replace[n]; ok {
			files[a.url] = r
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fetched[filepath.Base(r.URL.Path)]++
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	return &Source{Client: &download.Client{HTTP: *server.Client(), Attempts: 2, Pause: 1}, Kubernetes: server.URL + "/k8s", GitHub: server.URL + "/github"}, fetched
}

func cache(t *testing.T, dir string) *buildcache.Cache {
	t.Helper()
	c, err := buildcache.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestProgramsAreFetchedOnce(t *testing.T) {
	t.Parallel()
	s, fetched := site(t, nil)
	dir := t.TempDir()
	for range 2 { // the second round represents another process
		c := cache(t, dir)
		programs, plugins, err := s.Programs(t.Context(), c, versions)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range append(programs, plugins...) {
			info, err := os.Stat(p)
			if err != nil || info.Mode().Perm()&0o100 == 0 {
				t.Errorf("%s is %v, %v; want a program", p, info, err)
			}
			names = append(names, filepath.Base(p))
		}
		want := "kubeadm kubectl kubelet containerd containerd-shim-runc-v2 ctr runc bridge host-local loopback portmap ptp"
		if got := strings.Join(names, " "); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		_ = c.Close()
	}
	for file, times := range fetched {
		if times != 1 {
			t.Errorf("%s is fetched %d times, want once", file, times)
		}
	}
}

func TestWhatIsNotWhatWasPublishedIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		of   string
		want string
	}{
		"a program":  {"kubelet", "kubelet: it has digest"},
		"an archive": {"containerd", "tar.gz: it has digest"},
	} {
		s, _ := site(t, map[string][]byte{tc.of: []byte("evil")})
		if _, _, err := s.Programs(t.Context(), cache(t, t.TempDir()), versions); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}

func TestAVersionThatWasNeverReleasedIsNamed(t *testing.T) {
	t.Parallel()
	s, _ := site(t, nil)
	unknown := versions
	unknown.Kubernetes = "v1.36.99"
	_, _, err := s.Programs(t.Context(), cache(t, t.TempDir()), unknown)
	if err == nil || !strings.Contains(err.Error(), "v1.36.99") || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v, want that there is no v1.36.99", err)
	}
}

// client returns a registry client that does not pause.
func client(t *testing.T) *ociregistry.Client {
	t.Helper()
	c, err := ociregistry.New(ociregistry.Options{Pause: time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnImageIsPulledForThisHost(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref := strings.TrimPrefix(server.URL, "http://") + "/kube-proxy:v1.36.3"
	tag, err := name.NewTag(ref)
	if err != nil {
		t.Fatal(err)
	}
	mine, err := random.Image(100, 2)
	if err != nil {
		t.Fatal(err)
	}
	other, err := random.Image(100, 1)
	if err != nil {
		t.Fatal(err)
	}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: mine, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	if err := remote.WriteIndex(tag, index); err != nil {
		t.Fatal(err)
	}
	s := &Source{Registry: client(t)}
	c := cache(t, t.TempDir())
	file, err := s.Image(t.Context(), c, versions, nodecomponents.Image{Ref: ref, Name: "kube-proxy", Tag: "v1.36.3"}, buildcache.Outcome{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(got); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("next to the archive are %v, %v", left, err)
	}
	a, errA := mine.ConfigName()
	b, errB := got.ConfigName()
	if a != b || errA != nil || errB != nil {
		t.Errorf("the archive has image %v, want %v (%v, %v)", b, a, errA, errB)
	}
	missing := strings.Replace(ref, "v1.36.3", "v0", 1)
	if _, err := s.Image(t.Context(), c, versions, nodecomponents.Image{Ref: missing, Name: "kube-proxy", Tag: "v0"}, buildcache.Outcome{}); err == nil || !strings.Contains(err.Error(), "pull "+missing) {
		t.Errorf("got %v, want that %s is not there", err, missing)
	}
}
