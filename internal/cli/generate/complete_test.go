// SPDX-License-Identifier: Apache-2.0

package generate

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestAShellIsOfferedFlavorsOfTheProviderThatIsChosen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{
		"infrastructure-mine/v1.0.0/cluster-template-small.yaml": "", "infrastructure-mine/v1.1.0/cluster-template-large.yaml": "",
		"c.yaml": "providers:\n- {name: mine, type: InfrastructureProvider, url: " + dir + "/infrastructure-mine/v1.1.0/infrastructure-components.yaml}\n",
	}
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"of the program's own":      {nil, "machine-pool\ntopology\n:4\n"},
		"of another provider":       {[]string{"-i", "mine"}, "large\nsmall\n:4\n"},
		"of a version of it":        {[]string{"-i", "mine:v1.0.0"}, "small\n:4\n"},
		"of one that is not there":  {[]string{"-i", "none"}, ":4\n"},
		"of what names no provider": {[]string{"-i", "mine:"}, ":4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, talk bytes.Buffer
			env := &command.Env{Out: &out, Err: &talk, LookupEnv: func(string) (string, bool) { return "", false }}
			root := &cobra.Command{Use: "capstan"}
			env.AddGlobal(root)
			root.AddCommand(New(env))
			root.SetOut(&out)
			root.SetErr(&talk) // cobra prints there what it completes
			root.SetArgs(append(append([]string{cobra.ShellCompNoDescRequestCmd, "generate", "cluster", "demo", "--config", filepath.Join(dir, "c.yaml")}, tc.args...), "--flavor", ""))
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("offered (-want +got):\n%s%s", diff, talk.String())
			}
		})
	}
}
