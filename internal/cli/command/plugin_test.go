// SPDX-License-Identifier: Apache-2.0

package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestThePluginWithTheLongestNameIsFound(t *testing.T) {
	dir := t.TempDir()
	for file, mode := range map[string]os.FileMode{
		"first/capstan-foo": 0o755, "second/capstan-foo": 0o755, "second/capstan-foo-bar": 0o755, "first/capstan-foo_bar": 0o755, "second/clusterctl-foo-bar-baz": 0o755,
		"first/capstan-plain": 0o644, "second/capstan-plain": 0o755, "first/clusterctl-both": 0o755, "second/capstan-both": 0o755, "relative/capstan-relative": 0o755,
	} {
		path := filepath.Join(dir, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "first", "capstan-folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	path := strings.Join([]string{filepath.Join(dir, "nowhere"), "", "relative", filepath.Join(dir, "first"), filepath.Join(dir, "second")}, string(filepath.ListSeparator))
	tests := map[string]struct {
		called, line string
		want         string
		args         string
	}{
		"one word":                         {line: "foo", want: "first/capstan-foo"},
		"two words":                        {line: "foo bar", want: "second/capstan-foo-bar"},
		"the rest is arguments":            {line: "foo other --x y", want: "first/capstan-foo", args: "other --x y"},
		"a flag ends the name":             {line: "foo --x bar", want: "first/capstan-foo", args: "--x bar"},
		"a dash becomes an underscore":     {line: "foo-bar baz", want: "first/capstan-foo_bar", args: "baz"},
		"one of clusterctl that is longer": {line: "foo bar baz qux", want: "second/clusterctl-foo-bar-baz", args: "qux"},
		"of two prefixes the own":          {line: "both", want: "second/capstan-both"},
		"and under the other name that":    {called: "clusterctl", line: "both", want: "first/clusterctl-both"},
		"one that may be executed":         {line: "plain", want: "second/capstan-plain"},
		"no folder":                        {line: "folder"},
		"none where the user stands":       {line: "relative"},
		"a flag before":                    {line: "--x foo"},
		"a path":                           {line: "foo/../foo"},
		"nothing":                          {},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := &Env{Name: "capstan", LookupEnv: func(string) (string, bool) { return path, true }}
			if tc.called != "" {
				env.Name = tc.called
			}
			got, found := FindPlugin(env, strings.Fields(tc.line))
			if want := tc.want != ""; found != want || want && got.path != filepath.Join(dir, tc.want) {
				t.Fatalf("got %q, found %t; want %q", got.path, found, tc.want)
			}
			if d := cmp.Diff(strings.Fields(tc.args), append([]string{}, got.args...)); d != "" {
				t.Errorf("arguments (-want +got):\n%s", d)
			}
		})
	}
}
