// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/cli"
	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/testenv"
	"github.com/capstan-dev/capstan/manifests"
)

// TestAManagerNeedsNoMoreThanItsRole has one half of the controllers run as a
// service account next to a plane that runs the other half.
func TestAManagerNeedsNoMoreThanItsRole(t *testing.T) {
	testenv.OwnPlanes(t, 1)
	for name, tc := range map[string]struct{ manager, plane string }{
		"of core and kubeadm": {"core,kubeadm", "local"},
		"of machines":         {"local", "core,kubeadm"},
	} {
		t.Run(name, func(t *testing.T) {
			f := planeOf(t, tc.plane)
			metrics, profiles := testenv.FreeAddress(t), testenv.FreeAddress(t) // of loopback
			account := f.account("manager", manifests.ManagerRole)
			log := f.runManager(f.kubeconfig(account), "--providers="+tc.manager, "--metrics-address="+metrics, "--pprof-address="+profiles)
			clusters := map[string][]byte{"c": template.Local(), "t": template.LocalTopology()}
			for name, of := range clusters {
				f.create(name, shape{workers: 1, template: of})
				f.becomes(name)
			}
			f.metricsAreForReaders("https://"+metrics, "https://"+profiles, account)
			for name := range clusters {
				f.remove(name)
				f.eventually(func() error {
					if left := f.objectsOf(name); len(left) > 0 {
						return fmt.Errorf("left behind: %v", left)
					}
					return nil
				})
			}
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, "forbidden") {
					t.Error(line)
				}
			}
		})
	}
}

// TestAManagerConvertsForItsAPIServer has definitions without conversion, as those
// of another API server are at first.
func TestAManagerConvertsForItsAPIServer(t *testing.T) {
	testenv.OwnPlanes(t, 1)
	f := planeOf(t, "local")
	name := "clusterresourcesets.addons.cluster.x-k8s.io"
	modify(f, name, &apiextensionsv1.CustomResourceDefinition{}, func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter}
	})
	metrics := testenv.FreeAddress(t)
	f.runManager(f.Kubeconfig, "--providers=core,kubeadm", "--install=true", "--metrics-address="+metrics, "--insecure-diagnostics")
	f.eventually(func() error {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		f.must(f.Client.Get(f.Context(), client.ObjectKey{Name: name}, crd))
		if w := crd.Spec.Conversion.Webhook; w == nil || len(w.ClientConfig.CABundle) == 0 {
			return fmt.Errorf("conversion is %v", crd.Spec.Conversion)
		}
		return nil
	})
	for _, version := range []string{"v1beta1", "v1beta2"} { // another version than before is reviewed
		set := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "addons.cluster.x-k8s.io/" + version, "kind": "ClusterResourceSet", "metadata": map[string]any{"namespace": f.Namespace, "name": "a"},
			"spec": map[string]any{
				"clusterSelector": map[string]any{"matchLabels": map[string]any{"a": "b"}},
				"resources":       []any{map[string]any{"kind": "Secret", "name": version}},
			},
		}}
		f.eventually(func() error { // the API server takes in the new definition
			return f.Client.Apply(f.Context(), client.ApplyConfigurationFromUnstructured(set), client.FieldOwner("test"), client.ForceOwnership)
		})
	}
	f.eventually(func() error { // it serves metrics once it runs
		resp, err := http.Get("http://" + metrics + "/metrics")
		if err != nil {
			return err
		}
		text, err := io.ReadAll(resp.Body)
		f.must(errors.Join(err, resp.Body.Close()))
		if !strings.Contains(string(text), `capi_conversion_duration_seconds_count{by="review",group="addons.cluster.x-k8s.io",kind="ClusterResourceSet",result="success",to="addons.cluster.x-k8s.io/v1beta1"}`) {
			return errors.New("the manager has converted nothing")
		}
		return nil
	})
}

// planeOf is a plane that runs only some of the controllers.
func planeOf(t *testing.T, providers string) fleet {
	t.Helper()
	dir := t.TempDir()
	if _, err := testenv.Up(t, "--data-dir="+dir, "--listen=127.0.0.1:0", "--providers="+providers); err != nil {
		t.Fatal(err)
	}
	env, err := testenv.Connect(datadir.Dir(dir).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	env.Namespace = metav1.NamespaceDefault
	return fleet{t, env}
}

// TestAManagerWithoutCoreAsksExtensions has control planes managed by a manager
// that discovers no extensions: it reads their handlers from the ExtensionConfigs,
// and needs no further rights than its role for it.
func TestAManagerWithoutCoreAsksExtensions(t *testing.T) {
	testenv.OwnPlanes(t, 1)
	f := planeOf(t, "core,local")
	sample(f)
	log := f.runManager(f.kubeconfig(f.account("manager", manifests.ManagerRole)), "--providers=kubeadm")
	f.create("c", shape{controlPlane: 3, version: "v1.36.3"})
	f.becomes("c")
	before := f.uids("c", every)
	modify(f, "c-control-plane", &controlplanev1.KubeadmControlPlane{}, func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Rollout.Strategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(0))
		k.Spec.Version = "v1.36.4"
		k.Spec.KubeadmConfigSpec.Files = []bootstrapv1.File{{Path: "/etc/motd", Content: "in place"}}
	})
	f.eventually(func() error { return f.updated("c", every, "v1.36.4", before) })
	if strings.Contains(log.String(), "forbidden") {
		t.Error(log.String())
	}
}

// metricsAreForReaders requests metrics and profiles anonymously, as a user without
// rights and as one that may read them.
func (f fleet) metricsAreForReaders(metrics, profiles, somebody string) {
	f.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "metrics"}, Rules: []rbacv1.PolicyRule{{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}}}}
	f.must(f.Client.Create(f.Context(), role))
	reader := f.account("reader", role.Name)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer c.CloseIdleConnections()
	for _, ask := range []struct {
		url, token string
		want       int
	}{
		{metrics + "/metrics", "", http.StatusUnauthorized}, {metrics + "/metrics", "x", http.StatusUnauthorized},
		{metrics + "/metrics", somebody, http.StatusForbidden}, {metrics + "/metrics", reader, http.StatusOK},
		{metrics + "/debug/pprof/cmdline", "", http.StatusUnauthorized}, {metrics + "/debug/pprof/cmdline", reader, http.StatusForbidden},
		{profiles + "/debug/pprof/cmdline", "", http.StatusUnauthorized}, {profiles + "/debug/pprof/cmdline", reader, http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, ask.url, nil)
		f.must(err)
		if ask.token != "" {
			req.Header.Set("Authorization", "Bearer "+ask.token)
		}
		resp, err := c.Do(req)
		f.must(err)
		f.must(resp.Body.Close())
		if resp.StatusCode != ask.want {
			f.Errorf("GET %s: %s, want %d", ask.url, resp.Status, ask.want)
		}
	}
}

// account creates a service account that has one role and nothing else, and returns
// a token of it.
func (f fleet) account(name, role string) string {
	f.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name}}
	f.must(f.Client.Create(f.Context(), account))
	f.must(f.Client.Create(f.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: name}},
	}))
	if role == manifests.ManagerRole {
		f.takesTurns(account)
	}
	set, err := kubernetes.NewForConfig(f.Config)
	f.must(err)
	token, err := set.CoreV1().ServiceAccounts(f.Namespace).CreateToken(f.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	f.must(err)
	return token.Status.Token
}

// takesTurns allows an account to have Leases in its namespace, which is where a
// manager has its own.
func (f fleet) takesTurns(account *corev1.ServiceAccount) {
	f.Helper()
	meta := metav1.ObjectMeta{Namespace: account.Namespace, Name: account.Name}
	f.must(f.Client.Create(f.Context(), &rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "create", "update"}},
	}}))
	f.must(f.Client.Create(f.Context(), &rbacv1.RoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	}))
}

// kubeconfig writes one for a token and returns its path.
func (f fleet) kubeconfig(token string) string {
	f.Helper()
	return f.kubeconfigAt(f.Config.Host, f.Config.CAData, token)
}

// kubeconfigAt is kubeconfig for an API server that is reached by another URL, and
// shows a certificate of another authority.
func (f fleet) kubeconfigAt(server string, ca []byte, token string) string {
	f.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	path := filepath.Join(f.TempDir(), "kubeconfig")
	f.must(clientcmd.WriteToFile(*config, path))
	return path
}

// runManager runs capstan-manager in this process until the test ends, and
// returns what it logs.
func (f fleet) runManager(kubeconfig string, flags ...string) *record {
	f.Helper()
	log, ended := &record{}, make(chan int, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		env := &cli.Env{Env: command.Env{Name: "capstan-manager", Out: log, Err: log, LookupEnv: os.LookupEnv, Now: time.Now}, SetLog: cli.SetLog}
		ended <- cli.RunManager(ctx, env, append([]string{
			"--kubeconfig=" + kubeconfig, "--install=false", "--webhook-address=127.0.0.1:0", "--simulated-dir=" + f.TempDir(),
			"--leader-elect", "--leader-election-namespace=" + f.Namespace,
		}, flags...))
	}()
	f.Cleanup(func() {
		stop()
		if status := <-ended; status != 0 || f.Failed() {
			f.Errorf("the manager ended with status %d and said:\n%s", status, log)
		}
	})
	return log
}

// record keeps what is written.
type record struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
