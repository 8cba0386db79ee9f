// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// globals runs a command line of a program with a command "x", whose RunE is run.
func globals(env *Env, run func() error, args ...string) error {
	root := &cobra.Command{Use: "capstan", SilenceErrors: true, SilenceUsage: true}
	env.AddGlobal(root)
	root.AddCommand(&cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return run() }})
	root.SetArgs(append([]string{"x"}, args...))
	return root.Execute()
}

func lookup(environment map[string]string) func(string) (string, bool) {
	return func(key string) (string, bool) { v, ok := environment[key]; return v, ok }
}

func TestTheConfigurationIsFoundWhereClusterctlHasIt(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/clusterctl.yaml" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "WHERE: server\n")
	}))
	defer server.Close()
	dir := t.TempDir()
	write := func(path, content string) string {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	both, old, named := filepath.Join(dir, "both"), filepath.Join(dir, "old"), write("named.yaml", "WHERE: named\n")
	write("both/.config/cluster-api/clusterctl.yaml", "WHERE: config\n")
	write("both/.cluster-api/clusterctl.yaml", "WHERE: home\n")
	write("old/.cluster-api/clusterctl.yaml", "WHERE: home\n")
	write("xdg/cluster-api/clusterctl.yaml", "WHERE: xdg\n")
	tests := map[string]struct {
		environment map[string]string
		args        []string
		want, err   string
	}{
		"XDG_CONFIG_HOME first":          {environment: map[string]string{"HOME": both, "XDG_CONFIG_HOME": filepath.Join(dir, "xdg")}, want: "xdg"},
		"then .config":                   {environment: map[string]string{"HOME": both}, want: "config"},
		"then .cluster-api":              {environment: map[string]string{"HOME": old}, want: "home"},
		"none is none":                   {environment: map[string]string{"HOME": dir}},
		"--config before all":            {environment: map[string]string{"HOME": both}, args: []string{"--config", named}, want: "named"},
		"a URL":                          {args: []string{"--config", server.URL + "/clusterctl.yaml"}, want: "server"},
		"the environment before a file":  {environment: map[string]string{"HOME": both, "WHERE": "environment"}, want: "environment"},
		"a named one that is not there":  {args: []string{"--config", filepath.Join(dir, "nowhere.yaml")}, err: "nowhere.yaml: no such file or directory"},
		"a URL that is not there":        {args: []string{"--config", server.URL + "/nowhere"}, err: server.URL + "/nowhere does not exist"},
		"a --config without a value":     {args: []string{"--config="}, err: "--config without a value"},
		"something that is no YAML file": {args: []string{"--config", write("bad.yaml", "a: [")}, err: "bad.yaml"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env, got := &Env{LookupEnv: lookup(tc.environment)}, ""
			err := globals(env, func() error {
				c, err := env.Config()
				if err == nil {
					got, _ = c.Variable("WHERE")
				}
				return err
			}, tc.args...)
			if got != tc.want || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("got %q, error %v; want %q, error %q", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestTheLevelOfTheLogIsThatOfTheFlagThenOfTheEnvironmentThenOfTheConfiguration(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "clusterctl.yaml")
	if err := os.WriteFile(file, []byte("CLUSTERCTL_LOG_LEVEL: 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		environment map[string]string
		args        []string
		want        int
		misuse      bool
	}{
		"nothing":           {},
		"the short flag":    {args: []string{"-v", "5"}, want: 5},
		"clusterctl's long": {args: []string{"--v=5"}, want: 5},
		"ours":              {args: []string{"--verbosity=5"}, want: 5},
		"the configuration": {args: []string{"--config", file}, want: 3},
		"the environment":   {args: []string{"--config", file}, environment: map[string]string{"CLUSTERCTL_LOG_LEVEL": "4"}, want: 4},
		"the flag first":    {args: []string{"-v0", "--config", file}, environment: map[string]string{"CLUSTERCTL_LOG_LEVEL": "4"}},
		"no number":         {environment: map[string]string{"CLUSTERCTL_LOG_LEVEL": "much"}, misuse: true},
		"no file is needed": {args: []string{"--config", file + ".gone"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, got := &Env{LookupEnv: lookup(tc.environment)}, 0
			err := globals(env, func() (err error) {
				got, err = env.LogLevel()
				return err
			}, tc.args...)
			if got != tc.want || errors.As(err, new(UsageError)) != tc.misuse || (err != nil) != tc.misuse {
				t.Errorf("got %d, error %v; want %d, misuse %t", got, err, tc.want, tc.misuse)
			}
		})
	}
}
