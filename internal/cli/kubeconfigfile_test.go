// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

// adminOf returns a function that creates kubeconfigs of one cluster.
func adminOf(t *testing.T) func() []byte {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ca, err := certs.New(certs.CA, certs.ECDSAP256, now, 0)
	if err != nil {
		t.Fatal(err)
	}
	return func() []byte {
		data, err := kubeconfig.New(kubeconfig.Options{Cluster: "demo", Server: "https://127.64.0.1:6443", CA: ca, Algorithm: certs.ECDSAP256, Now: now})
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
}

func TestTheKubeconfigOfAnotherClusterOfThatNameStays(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), client.ObjectKey{Namespace: "default", Name: "demo"}
	var talk bytes.Buffer
	env := &Env{Env: command.Env{Err: &talk}}
	save := func(data []byte) string {
		path, err := saveKubeconfig(env, dir, key, data)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%s is not what was saved: %v", path, err)
		}
		return path
	}
	ours, theirs := adminOf(t), adminOf(t)
	first := ours()
	path := save(first)
	if want := filepath.Join(dir, "clusters", "default", "demo.kubeconfig"); path != want {
		t.Errorf("the first is %s, want %s", path, want)
	}
	first = ours() // with another client certificate
	if again := save(first); again != path || talk.Len() > 0 {
		t.Errorf("a newer one of the same cluster is %s, want %s, saying nothing: %s", again, path, talk.String())
	}
	second := theirs()
	other := save(second)
	if other == path || !strings.Contains(talk.String(), path+" is of another cluster of that name, and stays as it is") {
		t.Errorf("another cluster's is %s; said %q", other, talk.String())
	}
	if again := save(theirs()); again != other {
		t.Errorf("a newer one of that is %s, want %s", again, other)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, first) {
		t.Errorf("the first is overwritten: %v", err)
	}

	// Deletion removes what is of the deleted cluster, and nothing else.
	if err := dropKubeconfig(dir, key, theirs()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file of the deleted cluster stays: %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoKubeconfigIsNotOverwritten(t *testing.T) {
	t.Parallel()
	dir, key := t.TempDir(), client.ObjectKey{Namespace: "default", Name: "demo"}
	notes := filepath.Join(dir, "clusters", "default", "demo.kubeconfig")
	if err := errors.Join(os.MkdirAll(filepath.Dir(notes), 0o700), os.WriteFile(notes, []byte("my notes"), 0o600)); err != nil {
		t.Fatal(err)
	}
	path, err := saveKubeconfig(&Env{Env: command.Env{Err: &bytes.Buffer{}}}, dir, key, adminOf(t)())
	if err != nil || path == notes {
		t.Errorf("saved to %s, error %v", path, err)
	}
	if _, err := saveKubeconfig(&Env{}, "", key, adminOf(t)()); err == nil || !strings.Contains(err.Error(), "name one with --data-dir") {
		t.Errorf("without a data directory: error %v", err)
	}
}

// TestAKubeconfigThatCannotBeSavedIsAWarning: the cluster has been created.
func TestAKubeconfigThatCannotBeSavedIsAWarning(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"no folder": filepath.Join(file, "data"), "none at all": ""} {
		var out, said bytes.Buffer
		env := &Env{Env: command.Env{Name: "capstan", Out: &out, Err: &said}}
		announce(env, command.MgmtFlags{DataDir: dir}, client.ObjectKey{Namespace: "default", Name: "demo"}, []byte("{}"))
		if text := said.String(); !strings.HasPrefix(text, "Warning: write kubeconfig of Cluster default/demo: ") || !strings.Contains(text, "`capstan get kubeconfig demo -n default` prints it") || !strings.Contains(text, "Cluster default/demo is Available") || out.Len() > 0 {
			t.Errorf("%s: said %s, printed %s", name, text, out.String())
		}
	}
}

func TestAnnounceNamesKubectlOnlyForAnEndpointThatAnswers(t *testing.T) {
	t.Parallel()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"gitVersion": "v1.36.1"}`)
	}))
	t.Cleanup(answers.Close)
	silent := httptest.NewServer(http.NotFoundHandler())
	silent.Close()
	for name, tc := range map[string]struct {
		server string
		want   []string
	}{
		"it answers":  {answers.URL, []string{"Cluster default/demo is Available. Next:", "  kubectl --kubeconfig ", "  capstan describe cluster ", "  capstan delete cluster "}},
		"it does not": {silent.URL, []string{"Cluster default/demo is Available, but not from this host: ", "  capstan describe cluster ", "  capstan delete cluster "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, talk bytes.Buffer
			data := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: '" + tc.server + "'}}]}"
			env, dir := &Env{Env: command.Env{Name: "capstan", Out: &out, Err: &talk, LookupEnv: func(string) (string, bool) { return "", false }}}, t.TempDir()
			var mgmt command.MgmtFlags
			mgmt.Add(&cobra.Command{}, &env.Env)
			mgmt.DataDir = dir
			announce(env, mgmt, client.ObjectKey{Namespace: "default", Name: "demo"}, []byte(data))
			lines := strings.Split(strings.TrimSuffix(talk.String(), "\n"), "\n")
			if len(lines) != len(tc.want) {
				t.Fatalf("told %q, want the lines %q", lines, tc.want)
			}
			for i, want := range tc.want {
				if !strings.HasPrefix(lines[i], want) {
					t.Errorf("line %d is %q, want %q", i, lines[i], want)
				}
			}
			if !strings.HasSuffix(out.String(), "demo.kubeconfig\n") {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}
