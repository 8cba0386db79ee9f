// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/app/chart"
	"github.com/capstan-dev/capstan/internal/testenv"
	"github.com/capstan-dev/capstan/manifests"
)

// TestTheManagerRunsFromItsManifests applies all that runs capstan-manager to an API
// server that knows nothing of Capstan, and runs two managers as the service account,
// with the flags, of the Deployment.
//
// There are no kubelets and no network of Pods, so two things differ: the managers are
// processes of this host, and the API server reaches webhooks by a URL, and has nobody
// convert. TestWebhooksByAService shows what they tell where there is a Service.
func TestTheManagerRunsFromItsManifests(t *testing.T) {
	t.Parallel()
	f := fleet{t, testenv.Foreign(t)}
	f.Namespace = metav1.NamespaceDefault
	args := f.applyManager()
	asked := &rights{used: map[string]bool{}}
	config := f.accountOf("capstan-manager", asked)
	dir := t.TempDir()
	start := func() func(os.Signal) string {
		own := []string{"--kubeconfig=" + config, "--leader-election-namespace=" + manifests.Namespace, "--simulated-dir=" + dir, "--webhook-address=127.0.0.1:0"}
		return testenv.Manager(t, append(slices.Clone(args), own...)...)
	}
	first := start()
	holder := f.leads("")
	second := start()
	f.create("c", shape{workers: 1, template: template.Local()})
	f.becomes("c")
	var inventory clusterctlv1.ProviderList
	f.must(f.Client.List(t.Context(), &inventory))
	if len(inventory.Items) != 4 {
		t.Errorf("the inventory has %d providers, want 4", len(inventory.Items))
	}
	said := first(syscall.SIGKILL) // it led, and webhooks are those of who started last
	f.leads(holder)
	f.create("t", shape{workers: 1, template: template.LocalTopology()})
	for _, name := range []string{"c", "t"} {
		f.becomes(name)
		f.remove(name)
		f.eventually(func() error {
			if left := f.objectsOf(name); len(left) > 0 {
				return fmt.Errorf("left behind: %v", left)
			}
			return nil
		})
	}
	said += second(syscall.SIGTERM)
	for line := range strings.Lines(said) {
		if strings.Contains(line, "forbidden") {
			t.Error(line)
		}
	}
	if refused := asked.forbidden; len(refused) > 0 {
		t.Errorf("the API server refused %v", refused)
	}
	lease := f.lease()
	if *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease is still held by %s, who has ended", *lease.Spec.HolderIdentity)
	}
	f.usesItsRights(asked)
}

// applyManager applies the objects as kubectl apply --server-side does: first all of
// them to look at, which a strict server may neither refuse nor warn of, and then what
// needs no network of Pods. It returns the flags of the Deployment that do not name
// where to listen.
func (f fleet) applyManager() (args []string) {
	f.Helper()
	files, err := chart.Files("")
	f.must(err)
	objects, err := chart.Render(files, chart.Release{Name: "capstan", Namespace: manifests.Namespace}, map[string]any{
		"createNamespace": true, "providers": []any{"core", "kubeadm", "local"},
	})
	f.must(err)
	warned := &warnings{}
	cfg := rest.CopyConfig(f.Config)
	cfg.WarningHandler = warned
	c, err := dynamic.NewForConfig(cfg)
	f.must(err)
	for _, look := range []bool{true, false} {
		for _, obj := range objects {
			if kind := obj.GetKind(); look && obj.GetNamespace() != "" {
				continue // its namespace is not there yet
			} else if !look && strings.HasSuffix(kind, "WebhookConfiguration") {
				continue
			} else if !look && kind == "CustomResourceDefinition" {
				nobodyConverts(obj)
			}
			opts := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict, Force: new(true)}
			if look {
				opts.DryRun = []string{metav1.DryRunAll}
			}
			text, err := obj.MarshalJSON()
			f.must(err)
			_, err = resourceOf(c, obj).Patch(f.Context(), obj.GetName(), "application/apply-patch+yaml", text, opts)
			if err != nil {
				f.Fatalf("apply %s %s: %v", obj.GetKind(), obj.GetName(), err)
			}
			if obj.GetKind() == "Deployment" {
				containers, _, err := unstructured.NestedSlice(obj.Object, "spec", "template", "spec", "containers")
				f.must(err)
				args, _, err = unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
				f.must(err)
			}
		}
	}
	if len(warned.texts) > 0 {
		f.Errorf("the API server warns: %q", warned.texts)
	}
	return slices.DeleteFunc(args, func(a string) bool {
		return strings.Contains(a, "-address=") || strings.HasPrefix(a, "--webhook-service=")
	})
}

// nobodyConverts serves a definition at the version alone that it is stored at.
func nobodyConverts(crd *unstructured.Unstructured) {
	unstructured.RemoveNestedField(crd.Object, "spec", "conversion")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		v.(map[string]any)["served"] = v.(map[string]any)["storage"]
	}
	_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions") // what was read can be written
}

func resourceOf(c dynamic.Interface, obj *unstructured.Unstructured) dynamic.ResourceInterface {
	kind := strings.ToLower(obj.GetKind())
	plural := kind + "s"
	if strings.HasSuffix(kind, "y") {
		plural = strings.TrimSuffix(kind, "y") + "ies"
	}
	gvk := obj.GroupVersionKind()
	all := c.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: plural})
	if obj.GetNamespace() == "" {
		return all
	}
	return all.Namespace(obj.GetNamespace())
}

// warnings are those of an API server.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// accountOf writes a kubeconfig for a service account of the manager's namespace,
// whose requests are looked at on their way.
func (f fleet) accountOf(name string, asked *rights) string {
	f.Helper()
	set, err := kubernetes.NewForConfig(f.Config)
	f.must(err)
	token, err := set.CoreV1().ServiceAccounts(manifests.Namespace).CreateToken(f.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	f.must(err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(f.Config))
	f.must(err)
	to, err := url.Parse(f.Config.Host)
	f.must(err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport:      transport,
		FlushInterval:  -1, // events of a watch go on at once
		ModifyResponse: asked.note,
	})
	f.Cleanup(proxy.CloseClientConnections)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: proxy.URL}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token.Status.Token}
	config.Contexts["x"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	path := filepath.Join(f.TempDir(), "kubeconfig")
	f.must(clientcmd.WriteToFile(*config, path))
	return path
}

// rights are those that requests have asked for.
type rights struct {
	mu        sync.Mutex      // guards what follows
	used      map[string]bool // "group/resource verb"
	forbidden []string
}

func (r *rights) note(resp *http.Response) error {
	factory := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	asked := resp.Request.Clone(resp.Request.Context())
	info, err := factory.NewRequestInfo(asked)
	if err != nil {
		return err
	}
	resource := strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
	what := info.APIGroup + "/" + resource + " " + info.Verb
	r.mu.Lock()
	defer r.mu.Unlock()
	if resp.StatusCode == http.StatusForbidden {
		r.forbidden = append(r.forbidden, what+" "+info.Name)
	}
	if info.IsResourceRequest {
		r.used[what] = true
	}
	return nil
}

// leads waits until somebody else than before holds the lease.
func (f fleet) leads(before string) (holder string) {
	f.Helper()
	f.eventually(func() error {
		lease := f.lease()
		if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || *lease.Spec.HolderIdentity == before {
			return fmt.Errorf("nobody leads but %q", before)
		}
		holder = *lease.Spec.HolderIdentity
		return nil
	})
	return holder
}

func (f fleet) lease() *coordinationv1.Lease {
	f.Helper()
	leases := &coordinationv1.LeaseList{}
	f.must(f.Client.List(f.Context(), leases, client.InNamespace(manifests.Namespace)))
	if len(leases.Items) == 0 {
		return nil
	}
	return &leases.Items[0]
}

// usesItsRights holds that no role has a rule that no request needs, but those that
// unused tells of.
func (f fleet) usesItsRights(asked *rights) {
	f.Helper()
	roles, err := manifests.RBAC()
	f.must(err)
	roles = append(roles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "capstan-inventory"}})
	f.must(f.Client.Get(f.Context(), client.ObjectKey{Name: "capstan-inventory"}, roles[len(roles)-1]))
	given := map[string]bool{}
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						given[group+"/"+resource+" "+verb] = true
					}
				}
			}
		}
	}
	maps.DeleteFunc(given, func(right string, _ bool) bool { return asked.used[right] })
	f.Logf("UNUSED\n%s", strings.Join(slices.Sorted(maps.Keys(given)), "\n"))
}
