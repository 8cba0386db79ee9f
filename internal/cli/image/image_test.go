// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/nodeimages"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
)

// lab is a store with one image, v1.36.3, and the archive of it.
type lab struct {
	*testing.T
	dir, archive, id string
	talk             bytes.Buffer
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, dir: filepath.Join(t.TempDir(), "containers"), archive: filepath.Join(t.TempDir(), "node.tar")}
	l.pack()
	if _, err := l.run("import", l.archive); err != nil {
		t.Fatal(err)
	}
	return l
}

// pack writes the archive of a small image, as export does.
func (l *lab) pack() {
	l.Helper()
	dir := l.TempDir()
	l.must(os.MkdirAll(filepath.Join(dir, "root", "var"), 0o755))
	store, err := ociimages.Open(filepath.Join(dir, "store"), ociimages.Options{Privileged: true})
	l.must(err)
	empty := filepath.Join(dir, "empty")
	l.must(os.Mkdir(empty, 0o755))
	const name = "node.capstan.local/kubernetes:v1.36.3"
	m, err := store.Add(l.Context(), ociimages.AddOptions{
		Architecture: runtime.GOARCH, Name: name,
		Labels: map[string]string{"dev.capstan.node.kubernetes-version": "v1.36.3", "dev.capstan.node.source": "test", "dev.capstan.node.part.runc": "v1.5.2"},
	}, ociimages.Folder{Dir: filepath.Join(dir, "root"), Name: "."}, ociimages.Folder{Dir: empty, Name: "usr"}, ociimages.Folder{Dir: empty, Name: "var/lib"})
	l.must(err)
	l.id = m.Digest
	var buf bytes.Buffer
	l.must(store.Export(l.Context(), m, name, &buf))
	l.must(os.WriteFile(l.archive, buf.Bytes(), 0o600))
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// run runs the command, and gives its output in columns of one blank.
func (l *lab) run(args ...string) (string, error) {
	var out bytes.Buffer
	l.talk.Reset()
	env := &command.Env{Name: "capstan", Out: &out, Err: &l.talk, In: strings.NewReader(""), LookupEnv: func(string) (string, bool) { return "", false }}
	cmd := New(env)
	cmd.SetArgs(slices.Insert(slices.Clone(args), 1, "--containers-dir", l.dir, "--data-dir", filepath.Join(l.dir, "plane")))
	cmd.SetOut(&out)
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	err := cmd.ExecuteContext(l.Context())
	return regexp.MustCompile(` +`).ReplaceAllString(out.String(), " "), err
}

func TestListShowsWhatIsThere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s, err := nodeimages.Open(t.Context(), filepath.Join(l.dir, imagesDir))
	l.must(err)
	i, err := s.Find("v1.36.3")
	l.must(err)
	l.must(i.Use("m1"))
	out, err := l.run("list", "--verify")
	if want := fmt.Sprintf("KIND NAME ID PLATFORM IN USE SIZE\nnode v1.36.3 %s linux/%s 1 machine 0 MiB\n", l.id[7:19], runtime.GOARCH); out != want || err != nil {
		t.Errorf("got %q, %v; want %q", out, err, want)
	}
	out, err = l.run("list", "-o", "json")
	var all []listed
	if json.Unmarshal([]byte(out), &all) != nil || err != nil || len(all) != 1 || all[0].ID != l.id || all[0].Kind != "node" || !all[0].InUse || all[0].Users[0] != "m1" || all[0].Parts["runc"] != "v1.5.2" {
		t.Errorf("got %s, %v", out, err)
	}
	l.must(os.WriteFile(filepath.Join(i.Root, "more"), nil, 0o600))
	if _, err := l.run("list"); err != nil {
		t.Errorf("list reads all files: %v", err)
	}
	if out, err := l.run("list", "--verify"); err == nil || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(out, "v1.36.3") {
		t.Errorf("got %q, %v; want the image, and that it is damaged", out, err)
	}
}

func TestAnImageIsCarriedAndRemoved(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	file := filepath.Join(t.TempDir(), "node.tar.zst")
	if _, err := l.run("export", "v1.36.3", "--file", file); err != nil {
		t.Fatal(err)
	}
	if _, err := l.run("remove", l.id[7:19], "--yes"); err != nil {
		t.Fatal(err)
	}
	if out, err := l.run("list", "-o", "json"); out != "[]\n" || err != nil {
		t.Errorf("after it was removed there is %q, %v", out, err)
	}
	if _, err := l.run("import", file, "--id", "sha256:"+strings.Repeat("0", 64)); err == nil || !strings.Contains(err.Error(), "this is node image "+l.id) {
		t.Errorf("with another ID: got %v", err)
	}
	if _, err := l.run("import", file, "--id", l.id); err != nil {
		t.Fatal(err)
	}
	if want := "Node image " + l.id + " of Kubernetes v1.36.3 is there.\n"; l.talk.String() != want {
		t.Errorf("it says %q, want %q", &l.talk, want)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("next to the archive there are %v, %v", entries, err)
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	none, earlier := filepath.Join(t.TempDir(), "none.tar"), filepath.Join(t.TempDir(), "earlier.tar")
	saved := filepath.Join(t.TempDir(), "saved.tar")
	ref, err := name.NewTag("example.com/manager:v1")
	l.must(err)
	l.must(tarball.WriteToFile(saved, ref, containerImage(t)))
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	l.must(errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "image.json"}), w.Close(), os.WriteFile(earlier, buf.Bytes(), 0o600)))
	for name, tc := range map[string]struct {
		args   []string
		misuse bool
		want   string
	}{
		"no version":                       {[]string{"build"}, false, "kubernetes-version"},
		"a bad version":                    {[]string{"build", "--kubernetes-version", "1.36"}, true, "write it as v1.36.3"},
		"an old version":                   {[]string{"build", "--kubernetes-version", "v1.20.0"}, true, "v1.30.0 is the oldest"},
		"a bad source":                     {[]string{"build", "--kubernetes-version", "v1.36.3", "--source", "usb"}, true, "release or modules"},
		"no network program":               {[]string{"build", "--kubernetes-version", "v1.36.3", "--network-program", none}, false, "make build"},
		"remove nothing":                   {[]string{"remove"}, true, "name images"},
		"remove without an answer":         {[]string{"remove", "v1.36.3"}, true, "use --yes"},
		"remove what is not there":         {[]string{"remove", "v1.30.0", "--yes"}, false, "capstan image build --kubernetes-version v1.30.0"},
		"export in no format":              {[]string{"export", "v1.36.3", "-f", "node.zip"}, true, ".tar.zst"},
		"export what is not there":         {[]string{"export", "v1.30.0", "-f", none}, false, "no node image v1.30.0"},
		"import what is not there":         {[]string{"import", none}, false, "no such file"},
		"remove another that is not there": {[]string{"remove", "example.com/a:v1", "--yes"}, false, "capstan image pull"},
		"pull what has no name":            {[]string{"pull", "A B"}, true, `name of an image "A B"`},
		"a mirror of nothing":              {[]string{"pull", "a", "--mirror", "https://example.com"}, true, "REGISTRY=https://HOST/PATH"},
		"a mirror without a scheme":        {[]string{"pull", "a", "--mirror", "docker.io=example.com"}, false, "write it as https://HOST/PATH"},
		"an archive of an earlier version": {[]string{"import", earlier}, false, "export node images of an earlier version"},
		"a name for a node image":          {[]string{"import", l.archive, "--name", "a:v1"}, true, "--name is for container images"},
		"an ID for a container image":      {[]string{"import", saved, "--id", l.id}, true, "--id is for node images"},
		"a folder without images":          {[]string{"import", t.TempDir()}, false, "holds no images"},
		"a bad format of output":           {[]string{"list", "-o", "xml"}, true, "xml"},
	} {
		_, err := l.run(tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || errors.As(err, new(command.UsageError)) != tc.misuse {
			t.Errorf("%s: got %v, want %q, misuse: %v", name, err, tc.want, tc.misuse)
		}
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a file was made")
	}
	env := &command.Env{LookupEnv: func(string) (string, bool) { return "", false }}
	if err := (&options{env: env}).list(t.Context()); err == nil || !strings.Contains(err.Error(), "--containers-dir is needed") {
		t.Errorf("without a folder: got %v", err)
	}
}
