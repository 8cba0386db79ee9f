// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"strings"
	"testing"

	"github.com/blang/semver/v4"
)

func FuzzURLs(f *testing.F) {
	for _, seed := range []string{
		"https://github.com/o/r/releases/latest/c.yaml", "https://gitlab.com/api/v4/projects/my%2Fgroup/packages/generic/p/v1.0.0/c.yaml",
		"oci://ghcr.io/org/aws:v1.2.3/c.yaml", "oci://ghcr.io/org/aws:v1.2.3/", "/repository/infrastructure-aws/v1.0.0/c.yaml", "file:///x/infrastructure-aws/latest/c", "embedded:///infrastructure-local/latest/c", "https://[::1%25]/%zz",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, url string) {
		r, err := Open(t.Context(), aws(url), Options{})
		if err == nil && (r.ComponentsFile() == "" || checkDefault(r.DefaultVersion()) != nil) {
			t.Errorf("%q: version %q, file %q", url, r.DefaultVersion(), r.ComponentsFile())
		}
	})
}

func FuzzMetadata(f *testing.F) {
	f.Add([]byte(metadataFor("1.2 v1beta1", "0.3 v1alpha3")))
	f.Add([]byte(bomb()))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := parseMetadata(raw)
		if err != nil {
			return
		}
		for _, s := range m.ReleaseSeries {
			v := semver.Version{Major: uint64(s.Major), Minor: uint64(s.Minor)}
			if got, err := Contract(m, "v"+v.String()); err != nil || got != s.Contract {
				t.Errorf("series %v: contract %q, %v", s, got, err)
			}
		}
	})
}

func FuzzVersions(f *testing.F) {
	f.Add("v1.2.3", "metadata.yaml")
	f.Add("1.2.3-rc.1+build", "../x")
	f.Fuzz(func(t *testing.T, version, name string) {
		if err := checkFile(version, name); err == nil && strings.ContainsAny(version+name, "/\\\x00") {
			t.Errorf("version %q and name %q lead elsewhere", version, name)
		}
	})
}
