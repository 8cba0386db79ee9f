// SPDX-License-Identifier: Apache-2.0

package get

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// secretOf is a management cluster with the kubeconfig of the Cluster fleet/demo, and
// without it if data is nil.
func secretOf(data []byte) http.HandlerFunc {
	answers := map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`, "/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"cluster.x-k8s.io","versions":[{"groupVersion":"cluster.x-k8s.io/v1beta2","version":"v1beta2"}]}]}`,
		"/api/v1":                        `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","singularName":"","namespaced":true,"kind":"Secret","verbs":["get"]}]}`,
		"/apis/cluster.x-k8s.io/v1beta2": `{"kind":"APIResourceList","groupVersion":"cluster.x-k8s.io/v1beta2","resources":[{"name":"clusters","singularName":"cluster","namespaced":true,"kind":"Cluster","verbs":["get","list"]}]}`,
		"/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/clusters/demo": `{"kind":"Cluster","apiVersion":"cluster.x-k8s.io/v1beta2","metadata":{"name":"demo","namespace":"fleet"}}`,
		"/apis/cluster.x-k8s.io/v1beta2/clusters":                       `{"kind":"ClusterList","apiVersion":"cluster.x-k8s.io/v1beta2","items":[]}`,
	}
	if data != nil {
		answers["/api/v1/namespaces/fleet/secrets/demo-kubeconfig"] = fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"demo-kubeconfig","namespace":"fleet"},"data":{"value":%q}}`, base64.StdEncoding.EncodeToString(data))
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
		}
		_, _ = w.Write([]byte(answer))
	}
}

// TestAKubeconfigIsWrittenIntoAPipe, and does not take the place of it, or of a device.
func TestAKubeconfigIsWrittenIntoAPipe(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		text, err := os.ReadFile(pipe)
		read <- fmt.Sprintf("%s %v", text, err)
	}()
	if _, _, err := against(t.Context(), t, secretOf(kubeconfigOf(t, "demo", "authority")), "kubeconfig", "demo", "--output", pipe); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe is %v, error %v", info, err)
	}
	if text := <-read; !strings.Contains(text, "server: https://demo") {
		t.Errorf("read %s", text)
	}
}

// TestKubeconfigReplacesFileAndLink: the file that a link names may be another user's.
func TestKubeconfigReplacesFileAndLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link, target := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "target")
	for _, name := range []string{file, target} {
		if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, link} {
		_, said, err := against(t.Context(), t, secretOf(kubeconfigOf(t, "demo", "authority")), "kubeconfig", "demo", "--output", name)
		if err != nil || said != "Wrote "+name+"\n" {
			t.Fatalf("%v, said %q", err, said)
		}
		text, err := os.ReadFile(name)
		info, statErr := os.Lstat(name)
		if err := errors.Join(err, statErr); err != nil || info.Mode() != 0o600 || !strings.Contains(string(text), "server: https://demo") {
			t.Errorf("%s: %v, %v, %s", name, err, info.Mode(), text)
		}
	}
	if text, err := os.ReadFile(target); err != nil || string(text) != "old" {
		t.Errorf("the target of the link is %q, %v", text, err)
	}
}

func TestKubeconfigGoesToStdout(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--output", "-"}} {
		out, said, err := against(t.Context(), t, secretOf(kubeconfigOf(t, "demo", "authority")), append([]string{"kubeconfig", "demo"}, args...)...)
		cfg, loadErr := clientcmd.Load([]byte(out))
		if err := errors.Join(err, loadErr); err != nil || said != "" {
			t.Fatalf("%q: %v, said %q", args, err, said)
		}
		if of := cfg.Contexts[cfg.CurrentContext]; of == nil || cfg.Clusters[of.Cluster].Server != "https://demo" || cfg.AuthInfos[of.AuthInfo].Token != "token of demo" {
			t.Errorf("%q: %s", args, out)
		}
	}
}

func TestKubeconfigMergesIntoTheFileOfTheEnvironment(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	first, second := filepath.Join(home, "first"), filepath.Join(home, "second")
	if err := clientcmd.WriteToFile(*clientcmdapi.NewConfig(), second); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		environment map[string]string
		flag, want  string
		fails       bool
	}{
		"a file":                        {nil, "named", "named", false},
		"the home":                      {map[string]string{"HOME": home}, mergeDefault, filepath.Join(home, ".kube", "config"), false},
		"KUBECONFIG":                    {map[string]string{"HOME": home, "KUBECONFIG": first}, mergeDefault, first, false},
		"of several the one that is":    {map[string]string{"KUBECONFIG": first + string(os.PathListSeparator) + second}, mergeDefault, second, false},
		"neither a home nor KUBECONFIG": {nil, mergeDefault, "", true},
	} {
		env := &command.Env{LookupEnv: func(key string) (string, bool) { v, ok := tc.environment[key]; return v, ok }}
		got, err := mergeInto(env, tc.flag)
		if got != tc.want || (err != nil) != tc.fails || tc.fails && (!errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), "use --merge=FILE")) {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tc.want)
		}
	}
	file := filepath.Join(home, "new", "config")
	_, said, err := against(t.Context(), t, secretOf(kubeconfigOf(t, "demo", "authority")), "kubeconfig", "demo", "--merge="+file, "--use-context")
	if err != nil || said != "Merged into "+file+": kubectl --context fleet/demo get nodes\n" {
		t.Fatalf("%v, said %q", err, said)
	}
	_, said, err = against(t.Context(), t, secretOf(kubeconfigOf(t, "demo", "another")), "kubeconfig", "demo", "--merge="+file)
	if err != nil || !strings.HasPrefix(said, "The entries fleet/demo were of another cluster, at https://demo\n") {
		t.Fatalf("%v, said %q", err, said)
	}
	if cfg, err := clientcmd.LoadFromFile(file); err != nil || cfg.CurrentContext != "fleet/demo" || string(cfg.Clusters["fleet/demo"].CertificateAuthorityData) != "another" {
		t.Errorf("%+v, %v", cfg, err)
	}
}

func TestKubeconfigThatIsNotThereIsExplained(t *testing.T) {
	t.Parallel()
	exec := []byte(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: 'https://x'}}], users: [{name: x, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch}}}]}`)
	for name, tc := range map[string]struct {
		data []byte
		args []string
		want string
	}{
		"no Secret":          {nil, []string{"kubeconfig", "demo"}, "Cluster fleet/demo has no kubeconfig yet"},
		"no Cluster":         {nil, []string{"kubeconfig", "other"}, "there is no Cluster other in namespace fleet"},
		"a command in it":    {exec, []string{"kubeconfig", "demo"}, "exec plugin, which is not allowed"},
		"a command of nodes": {exec, []string{"nodes", "demo"}, "exec plugin, which is not allowed"},
		"another document":   {[]byte("secret: text"), []string{"kubeconfig", "demo"}, "its current-context does not exist in it"},
		"no folder":          {kubeconfigOf(t, "demo", "a"), []string{"kubeconfig", "demo", "--output", "/nowhere/file"}, "write the kubeconfig of Cluster fleet/demo: "},
	} {
		out, _, err := against(t.Context(), t, secretOf(tc.data), tc.args...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || out != "" || strings.Contains(err.Error(), "secret: text") {
			t.Errorf("%s: error %v, printed %q", name, err, out)
		}
	}
	for args, want := range map[string]string{
		"kubeconfig":                             "the name of one cluster is needed",
		"kubeconfig a b":                         "the name of one cluster is needed",
		"kubeconfig a --output x --merge":        "give one of them",
		"kubeconfig a --use-context":             "--use-context is for --merge",
		"kubeconfig a --use-context --output=x":  "--use-context is for --merge",
		"kubeconfig a --output=":                 "--output without a value",
		"kubeconfig a --merge= --use-context":    "--merge without a value",
		"nodes":                                  "the name of one cluster is needed",
		"kubeconfig a --namespace= --output=x":   "--namespace without a value",
		"nodes a --kubeconfig-context= --output": "unknown flag",
	} {
		_, _, err := against(t.Context(), t, func(http.ResponseWriter, *http.Request) { t.Errorf("%s: the API server is asked", args) }, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), want) || want != "unknown flag" && !errors.As(err, new(command.UsageError)) {
			t.Errorf("%s: error %v, want misuse with %q", args, err, want)
		}
	}
}

func TestNodesAreThoseOfTheWorkloadCluster(t *testing.T) {
	t.Parallel()
	workload := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/api/v1/nodes" || r.Header.Get("Authorization") != "Bearer t" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1\u001b[2J","creationTimestamp":"2026-01-02T03:04:05Z"},"status":{"nodeInfo":{"kubeletVersion":"v1.36.3"}}}]}`))
	}))
	t.Cleanup(workload.Close)
	data := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: x, contexts: [{name: x, context: {cluster: x, user: x}}], clusters: [{name: x, cluster: {server: '%s', insecure-skip-tls-verify: true}}], users: [{name: x, user: {token: %%s}}]}`, workload.URL)
	out, _, err := against(t.Context(), t, secretOf(fmt.Appendf(nil, data, "t")), "nodes", "demo")
	if diff := cmp.Diff("NAME        STATUS    ROLES    AGE   VERSION\nn1\\x1b[2J   Unknown   <none>   55s   v1.36.3\n", out); diff != "" || err != nil {
		t.Errorf("%v, nodes (-want +got):\n%s", err, diff)
	}
	if _, _, err := against(t.Context(), t, secretOf(fmt.Appendf(nil, data, "other")), "nodes", "demo"); err == nil || !strings.HasPrefix(err.Error(), "list nodes of cluster fleet/demo: ") {
		t.Errorf("without permission: error %v", err)
	}
	workload.Close()
	if _, _, err := against(t.Context(), t, secretOf(fmt.Appendf(nil, data, "t")), "nodes", "demo"); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("without an answer: error %v", err)
	}
}
