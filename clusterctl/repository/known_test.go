// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/manifests"
)

func TestFlavorsNeedNoServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, file := range []string{
		"repo/infrastructure-aws/v1.0.0/cluster-template.yaml", "repo/infrastructure-aws/v1.0.0/cluster-template-eks.yaml", "repo/infrastructure-aws/v1.0.0/metadata.yaml",
		"repo/infrastructure-aws/v1.1.0/cluster-template-eks.yaml", "repo/infrastructure-aws/v1.1.0/cluster-template-flatcar.yaml", "repo/infrastructure-aws/v1.1.0/cluster-template-notes.txt",
		"overrides/infrastructure-aws/v1.1.0/cluster-template-my-own.yaml",
	} {
		writeFile(t, filepath.Join(dir, file), "")
	}
	s := newServer(t)
	fetched := at(s)
	fetched.Cache = filepath.Join(dir, "cache")
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		name := "cluster-template-of-" + version + ".yaml"
		s.text("/web/o/R/releases/download/"+version+"/"+name, "content")
		if _, err := open1(t, gitHubURL("latest"), fetched).File(t.Context(), version, name); err != nil {
			t.Fatal(err)
		}
	}
	s.takeAsked()
	local := config.Provider{Name: "local", Type: aws("").Type, URL: "embedded:/infrastructure-local/" + manifests.Release + "/infrastructure-components.yaml"}
	folder := filepath.Join(dir, "repo/infrastructure-aws/v1.0.0/infrastructure-components.yaml")
	for name, tc := range map[string]struct {
		provider config.Provider
		options  Options
		version  string
		want     []string
	}{
		"of a folder":                    {aws(folder), Options{}, "v1.0.0", []string{"eks"}},
		"of all releases in a folder":    {aws(folder), Options{}, "", []string{"eks", "flatcar"}},
		"of one that is not there":       {aws(folder), Options{}, "v9.0.0", nil},
		"of what is no version":          {aws(folder), Options{}, "..", nil},
		"with those that are preferred":  {aws(folder), Options{Overrides: filepath.Join(dir, "overrides")}, "v1.1.0", []string{"eks", "flatcar", "my-own"}},
		"that were fetched":              {aws(gitHubURL("latest")), fetched, "v1.1.0", []string{"of-v1.1.0"}},
		"of any release":                 {aws(gitHubURL("latest")), fetched, "", []string{"of-v1.0.0", "of-v1.1.0"}},
		"of another repository":          {aws("https://github.com/o/other/releases/latest/a.yaml"), fetched, "", nil},
		"of one that nothing is kept of": {aws("https://gitlab.example.com/api/v4/projects/1/packages/generic/p/v1.0.0/a.yaml"), fetched, "", nil},
		"that the program has":           {local, Options{}, "", []string{"machine-pool", "topology"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(t.Context(), tc.provider, tc.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, Flavors(r, tc.version)); diff != "" {
				t.Errorf("flavors (-want +got):\n%s", diff)
			}
		})
	}
	if asked := s.takeAsked(); len(asked) > 0 {
		t.Errorf("asked for %v", asked)
	}
}

func TestWhatIsKeptIsNamedIfItIsOurs(t *testing.T) {
	t.Parallel()
	c := cache{t.TempDir()}
	c.put("a\nb", []byte("content"))
	c.put("c", []byte("content"))
	writeFile(t, filepath.Join(c.folder, "another"), "5 sha256:x \"a\"\ncontent")
	writeFile(t, filepath.Join(c.folder, sha256Of([]byte("old"))), "7 sha256:x\ncontent")
	if err := os.Chmod(filepath.Join(c.folder, sha256Of([]byte("c"))), 0o666); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a\nb"}, c.keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}
