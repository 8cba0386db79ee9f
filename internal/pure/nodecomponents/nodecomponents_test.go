// SPDX-License-Identifier: Apache-2.0

package nodecomponents

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.36.3": "", "v1.30.0": "", "v1.37.0-rc.1": "",
		"v1.29.9": "v1.30.0 is the oldest", "v2.0.0": "v1.30.0 is the oldest",
		"1.36.3": "write it as v1.36.3", "v1.36": "write it as v1.36.3", "": "write it as v1.36.3",
		"v1.36.3+vendor": "write it as v1.36.3", "v1.36.3/../..": "write it as v1.36.3",
	} {
		got, err := Defaults(version)
		if want == "" && (err != nil || got.Kubernetes != version || got.Containerd == "") {
			t.Errorf("%s: got %v, %v", version, got, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", version, err, want)
		}
	}
}

func TestParseImages(t *testing.T) {
	t.Parallel()
	got, err := ParseImages("registry.k8s.io/kube-proxy:v1.36.3\nregistry.k8s.io/coredns/coredns:v1.14.2\n\nlocalhost:5000/pause:3.10\n")
	want := []Image{
		{"registry.k8s.io/kube-proxy:v1.36.3", "kube-proxy", "v1.36.3"},
		{"registry.k8s.io/coredns/coredns:v1.14.2", "coredns", "v1.14.2"},
		{"localhost:5000/pause:3.10", "pause", "3.10"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if sandbox, err := Sandbox(got); err != nil || sandbox != want[2] {
		t.Errorf("the sandbox is %v, %v", sandbox, err)
	}
	if _, err := Sandbox(got[:2]); err == nil {
		t.Error("a list without pause has a sandbox")
	}
	for _, text := range []string{"pause:3.10", "registry.k8s.io/pause", "localhost:5000/pause", "registry.k8s.io/pause@sha256:00", "warning: no internet", "registry.k8s.io/:v1"} {
		if got, err := ParseImages(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
