// SPDX-License-Identifier: Apache-2.0

package image

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

func TestPruneLeavesWhatAPodRuns(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	dir := t.TempDir()
	s, err := ociimages.Open(datadir.Dir(dir).Images(), ociimages.Options{})
	l.must(err)
	for _, full := range []string{"example.com/runs:v1", "example.com/idle:v1"} {
		ref, err := name.NewTag(full)
		l.must(err)
		file := filepath.Join(t.TempDir(), "saved.tar")
		i := containerImage(t)
		config, err := i.ConfigFile()
		l.must(err)
		config = config.DeepCopy()
		config.Config.Env = []string{"NAME=" + full} // another image
		i, err = mutate.ConfigFile(i, config)
		l.must(err)
		l.must(tarball.WriteToFile(file, ref, i))
		_, err = s.Import(t.Context(), file)
		l.must(err)
	}
	runs, err := s.Find("example.com/runs:v1")
	l.must(err)
	_, release, err := s.Root(runs.Digest)
	l.must(err)
	if _, err := l.run("prune", "--data-dir", dir); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("unasked: got %v", err)
	}
	for _, want := range []string{"runs", ""} {
		if _, err := l.run("prune", "--yes", "--data-dir", dir); err != nil {
			t.Fatal(err)
		}
		left := ""
		all, err := s.List()
		l.must(err)
		for _, i := range all {
			left += strings.TrimSuffix(strings.TrimPrefix(i.Names[0], "example.com/"), ":v1")
		}
		if left != want {
			t.Errorf("left are %q, want %q; it says %s", left, want, &l.talk)
		}
		if want != "" {
			release()
		}
	}
}
