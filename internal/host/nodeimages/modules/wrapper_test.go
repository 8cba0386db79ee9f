// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const kubernetesMod = `module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require k8s.io/api v0.0.0

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
`

func TestGoModOfAWrapper(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		wrapper  wrapper
		want     string
		wantErr  string
		wantFile string
	}{
		"modules of the same repository are named in their own versions": {
			wrapper: wrapper{module: "k8s.io/kubernetes", version: "v1.36.3", gomod: kubernetesMod, staging: stagingVersion("v1.36.3")},
			want: `module capstan.invalid/node

go 1.26.0

godebug default=go1.26

require k8s.io/kubernetes v1.36.3

replace k8s.io/api => k8s.io/api v0.36.3

replace k8s.io/client-go => k8s.io/client-go v0.36.3
`,
		},
		"a module without such": {
			wrapper: wrapper{module: "example.org/m", version: "v2.0.0", gomod: "module example.org/m\ngo 1.25\n"},
			want:    "module capstan.invalid/node\n\ngo 1.25\n\nrequire example.org/m v2.0.0\n",
		},
		"modules of the same repository without a version": {
			wrapper: wrapper{module: "k8s.io/kubernetes", version: "v1.36.3", gomod: kubernetesMod},
			wantErr: "replaces k8s.io/api by a folder that is not published",
		},
		"no version of Go": {
			wrapper: wrapper{module: "example.org/m", version: "v1.0.0", gomod: "module example.org/m\n"},
			wantErr: "names no version of Go",
		},
	} {
		got, err := tc.wrapper.goMod()
		if diff := cmp.Diff(tc.want, got); diff != "" || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
			t.Errorf("%s: %v, want %q (-want +got):\n%s", name, err, tc.wantErr, diff)
		}
	}
}

func TestImportsOfAWrapper(t *testing.T) {
	t.Parallel()
	want := "//go:build tools\n\npackage node\n\nimport (\n\t_ \"example.org/m/a\"\n\t_ \"example.org/m/b\"\n)\n"
	if diff := cmp.Diff(want, wrapper{packages: []string{"example.org/m/b", "example.org/m/a"}}.imports()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
