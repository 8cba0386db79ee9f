// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func TestAShellIsOfferedWhatThereIs(t *testing.T) {
	t.Parallel()
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names := map[string]string{
			"/apis/cluster.x-k8s.io/v1beta2/namespaces/of-d/clusters":  `{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}`,
			"/apis/cluster.x-k8s.io/v1beta2/namespaces/other/clusters": `{"metadata":{"name":"c"}}`,
			"/api/v1/namespaces": `{"metadata":{"name":"other"}}`,
		}[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Warning", `299 - "not for a shell"`)
		_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[` + names + `]}`))
	}))
	t.Cleanup(plane.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	dir, stopped := filepath.Join(t.TempDir(), "d"), filepath.Join(t.TempDir(), "d")
	writeKubeconfig(t, dir, plane.URL, "")
	writeKubeconfig(t, stopped, gone.URL, "")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"clusters of the kubeconfig's namespace": {[]string{"x", "--data-dir", dir, ""}, "a\nb\n:4\n"},
		"of another namespace":                   {[]string{"x", "--data-dir", dir, "--namespace", "other", ""}, "c\n:4\n"},
		"but those that are given":               {[]string{"x", "--data-dir", dir, "a", ""}, "b\n:4\n"},
		"and no more than are taken":             {[]string{"x", "--data-dir", dir, "a", "b", ""}, ":4\n"},
		"namespaces":                             {[]string{"x", "--data-dir", dir, "--namespace", ""}, "other\n:4\n"},
		"contexts":                               {[]string{"x", "--kubeconfig", filepath.Join(dir, "kubeconfig"), "--kubeconfig-context", ""}, "c\nother\n:4\n"},
		"nothing without an answer":              {[]string{"x", "--data-dir", stopped, ""}, ":4\n"},
		"nothing where no plane was":             {[]string{"x", "--data-dir", filepath.Join(dir, "none"), ""}, ":4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, talk, said bytes.Buffer
			env := &Env{Out: &out, Err: &said, LookupEnv: func(string) (string, bool) { return "", false }}
			var f MgmtFlags
			root, cmd := &cobra.Command{Use: "capstan"}, &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}}
			f.Add(cmd, env)
			cmd.Flags().String("namespace", "", "")
			cmd.ValidArgsFunction = f.CompleteClusters(env, 2)
			root.AddCommand(cmd)
			CompleteFlags(root, env)
			root.SetOut(&out)
			root.SetErr(&talk) // cobra prints there what it completes
			root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, tc.args...))
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" || said.Len() > 0 {
				t.Errorf("offered (-want +got):\n%ssaid %q", diff, said.String())
			}
		})
	}
}
