// SPDX-License-Identifier: Apache-2.0

package get

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigOf is one as the library returns it.
func kubeconfigOf(t *testing.T, name, authority string) []byte {
	t.Helper()
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:  map[string]*clientcmdapi.Cluster{name: {Server: "https://" + name, CertificateAuthorityData: []byte(authority)}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"admin": {Token: "token of " + name}},
		Contexts:  map[string]*clientcmdapi.Context{"x": {Cluster: name, AuthInfo: "admin"}}, CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAMergeLeavesAllOtherEntriesAsTheyAre(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "kept"), filepath.Join(dir, "config")
	mine := clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"mine": {Server: "https://mine", CertificateAuthority: "relative.crt"}, "demo": {Server: "https://another"}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"me": {Exec: &clientcmdapi.ExecConfig{Command: "login", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: "Never"}}},
		Contexts:       map[string]*clientcmdapi.Context{"mine": {Cluster: "mine", AuthInfo: "me", Namespace: "n"}, "fleet/demo": {Cluster: "fleet/demo", Namespace: "chosen"}},
		CurrentContext: "mine",
	}
	if err := clientcmd.WriteToFile(mine, path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	before, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		authority, replaced, current string
		use                          bool
	}{{"first", "", "mine", false}, {"first", "", "fleet/demo", true}, {"second", "https://demo", "fleet/demo", false}} {
		replaced, err := merge(t.Context(), link, "fleet/demo", kubeconfigOf(t, "demo", step.authority), step.use)
		if err != nil || replaced != step.replaced {
			t.Fatalf("replaced %q, error %v, want %q", replaced, err, step.replaced)
		}
		after, err := clientcmd.LoadFromFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if c := after.Contexts["fleet/demo"]; c.Namespace != "chosen" || after.CurrentContext != step.current ||
			after.AuthInfos[c.AuthInfo].Token != "token of demo" || string(after.Clusters[c.Cluster].CertificateAuthorityData) != step.authority {
			t.Errorf("merged %+v, current %s", c, after.CurrentContext)
		}
		for _, name := range []string{"mine", "demo"} {
			if diff := cmp.Diff(before.Clusters[name], after.Clusters[name]); diff != "" {
				t.Errorf("cluster %s (-before +after):\n%s", name, diff)
			}
		}
		if diff := cmp.Diff(before.Contexts["mine"], after.Contexts["mine"]) + cmp.Diff(before.AuthInfos["me"], after.AuthInfos["me"]); diff != "" {
			t.Errorf("others (-before +after):\n%s", diff)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, error %v", info, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
}

func TestMergesAtOnceLoseNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "config")
	var running sync.WaitGroup
	for i := range 10 {
		data := kubeconfigOf(t, fmt.Sprint("c", i), "a")
		running.Go(func() {
			if _, err := merge(t.Context(), path, fmt.Sprint("n/c", i), data, false); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	all, err := clientcmd.LoadFromFile(path)
	if err != nil || len(all.Contexts) != 10 || len(all.Clusters) != 10 || len(all.AuthInfos) != 10 {
		t.Errorf("%d contexts, error %v, want 10", len(all.Contexts), err)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("%s are left", left)
	}
}

func TestAFileThatIsNoKubeconfigIsNotMergedInto(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte("clusters: {secret: [}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := merge(t.Context(), path, "n/c", kubeconfigOf(t, "c", "a"), false)
	if err == nil || !strings.Contains(err.Error(), "it is not a kubeconfig") || strings.Contains(err.Error(), "secret") {
		t.Errorf("error %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "clusters: {secret: [}\n" {
		t.Errorf("the file is now %q", text)
	}
	if left, _ := filepath.Glob(path + ".*"); len(left) > 0 {
		t.Errorf("%s are left", left)
	}
}

func TestAFileThatCannotBeReadIsNotMergedInto(t *testing.T) {
	t.Parallel()
	path := t.TempDir() // a folder, which also root cannot read
	if _, err := merge(t.Context(), path, "n/c", kubeconfigOf(t, "c", "a"), false); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("error %v", err)
	}
}
