// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestAShellIsOfferedObjectsOfTheKindsThatACommandTakes(t *testing.T) {
	t.Parallel()
	plane := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const core, kcp = "/apis/cluster.x-k8s.io/v1beta2/namespaces/", "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/"
		names := map[string]string{
			core + "mine/clusters":             `{"metadata":{"name":"demo"}}`,
			core + "mine/machinedeployments":   `{"metadata":{"name":"demo-a"}},{"metadata":{"name":"demo-b"}}`,
			core + "mine/machinesets":          `{"metadata":{"name":"demo-a-1"}}`,
			core + "other/machinedeployments":  `{"metadata":{"name":"c"}}`,
			kcp + "mine/kubeadmcontrolplanes":  `{"metadata":{"name":"demo-cp"}}`,
			kcp + "other/kubeadmcontrolplanes": ``,
		}[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","items":[` + names + `]}`))
	}))
	t.Cleanup(plane.Close)
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: plane.URL}
	cfg.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", Namespace: "mine"}
	cfg.CurrentContext = "c"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*cfg, kubeconfig); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"what rolls out":             {[]string{"rollout", "restart", ""}, "machinedeployment/demo-a\nmachinedeployment/demo-b\nkubeadmcontrolplane/demo-cp\n:4\n"},
		"what can be paused":         {[]string{"alpha", "rollout", "pause", "cluster/"}, "cluster/demo\n:4\n"},
		"what has machines":          {[]string{"scale", "machineset/"}, "machineset/demo-a-1\n:4\n"},
		"but those that are given":   {[]string{"rollout", "status", "machinedeployment/demo-a", "machinedeployment/"}, "machinedeployment/demo-b\n:4\n"},
		"under a short name":         {[]string{"rollout", "resume", "md/"}, "md/demo-a\nmd/demo-b\n:4\n"},
		"under a name with a group":  {[]string{"scale", "KubeadmControlPlane.controlplane.cluster.x-k8s.io/"}, "KubeadmControlPlane.controlplane.cluster.x-k8s.io/demo-cp\n:4\n"},
		"of another namespace":       {[]string{"rollout", "restart", "-n", "other", ""}, "machinedeployment/c\n:4\n"},
		"none of a kind that is not": {[]string{"rollout", "restart", "cluster/"}, ":4\n"},
		"and one that is scaled":     {[]string{"scale", "machineset/demo-a-1", ""}, ":4\n"},
		"a cluster to upgrade":       {[]string{"upgrade", "cluster", ""}, "demo\n:4\n"},
		"and one of them":            {[]string{"upgrade", "cluster", "demo", ""}, ":4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, talk bytes.Buffer
			env := &command.Env{Out: &out, Err: &talk, LookupEnv: func(name string) (string, bool) { return kubeconfig, name == "KUBECONFIG" }}
			root, upgrade := &cobra.Command{Use: "capstan"}, &cobra.Command{Use: "upgrade"}
			upgrade.AddCommand(NewUpgradeCluster(env))
			root.AddCommand(New(env), Alpha(env), NewScale(env), upgrade)
			root.SetOut(&out)
			root.SetErr(&talk) // cobra prints there what it completes
			root.SetArgs(append([]string{cobra.ShellCompNoDescRequestCmd}, tc.args...))
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("offered (-want +got):\n%s%s", diff, talk.String())
			}
		})
	}
}
