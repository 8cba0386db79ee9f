// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// cluster is a management cluster that is no plane of Capstan, with repositories, and
// with the test in the place of its nodes.
type cluster struct {
	*testenv.Env
	dir, program string

	mu    sync.Mutex // guards asked
	asked []string   // what the webhook of cert-manager was asked about
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return withRepositories(t, testenv.Foreign(t))
}

// withRepositories has releases for a management cluster.
func withRepositories(t *testing.T, env *testenv.Env) *cluster {
	t.Helper()
	c := &cluster{Env: env, dir: t.TempDir(), program: testenv.Binary(t)}
	for _, release := range []string{"aws-v2.11.1", "openstack-v0.14.0"} {
		name, version, _ := strings.Cut(release, "-v")
		c.unpack(t, "../../../clusterctl/testdata/releases/infrastructure-"+release+".tar.gz", filepath.Join("infrastructure-"+name, "v"+version))
	}
	manifest, err := os.ReadFile("testdata/cert-manager/cert-manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for version, more := range map[string]string{"v1.20.0": "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: cert-manager-former, namespace: cert-manager}\n", "v1.21.1": ""} {
		c.write(t, filepath.Join("cert-manager", version, "cert-manager.yaml"), strings.ReplaceAll(string(manifest), "VERSION", version)+more)
	}
	for label, file := range map[string]string{"cluster-api": "core", "bootstrap-kubeadm": "bootstrap", "control-plane-kubeadm": "control-plane"} {
		c.write(t, label+"/v1.11.0/metadata.yaml", "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries: [{major: 1, minor: 11, contract: v1beta2}]\n")
		c.write(t, label+"/v1.11.0/"+file+"-components.yaml", fmt.Sprintf(controllers, label))
	}
	c.write(t, "infrastructure-plain/v1.0.0/metadata.yaml", "apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3\nkind: Metadata\nreleaseSeries: [{major: 1, minor: 0, contract: v1beta2}]\n")
	c.write(t, "infrastructure-plain/v1.0.0/infrastructure-components.yaml", fmt.Sprintf(controllers, "plain"))
	c.configure(t, "v1.20.0", "")
	return c
}

// controllers are components of a provider that has nothing else.
const controllers = `
apiVersion: v1
kind: Namespace
metadata: {name: %[1]s-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[1]s-system}
spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: manager, image: "example.com/%[1]s:v1"}]}}}
`

func (c *cluster) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(c.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// unpack writes the files of a release into a folder.
func (c *cluster) unpack(t *testing.T, archive, folder string) {
	t.Helper()
	packed, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(zipped); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		content, readErr := io.ReadAll(in)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		c.write(t, filepath.Join(folder, filepath.Base(header.Name)), string(content))
	}
}

// configure writes the configuration, with a version of cert-manager.
func (c *cluster) configure(t *testing.T, certManager, more string) {
	t.Helper()
	text := "AWS_B64ENCODED_CREDENTIALS: bm9uZQ==\nproviders:\n"
	for _, p := range [][]string{
		{"cluster-api", "CoreProvider", "cluster-api/v1.11.0/core"}, {"kubeadm", "BootstrapProvider", "bootstrap-kubeadm/v1.11.0/bootstrap"}, {"kubeadm", "ControlPlaneProvider", "control-plane-kubeadm/v1.11.0/control-plane"},
		{"aws", "InfrastructureProvider", "infrastructure-aws/v2.11.1/infrastructure"}, {"openstack", "InfrastructureProvider", "infrastructure-openstack/v0.14.0/infrastructure"}, {"plain", "InfrastructureProvider", "infrastructure-plain/v1.0.0/infrastructure"},
	} {
		text += fmt.Sprintf("- {name: %s, type: %s, url: %q}\n", p[0], p[1], c.dir+"/"+p[2]+"-components.yaml")
	}
	c.write(t, "c.yaml", text+fmt.Sprintf("cert-manager: {url: %q, version: %s, timeout: 3m%s}\n", c.dir+"/cert-manager/v1.21.1/cert-manager.yaml", certManager, more))
}

// run runs a command line, and returns its output.
func (c *cluster) run(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.program, append(args, "--kubeconfig", c.Kubeconfig, "--config", filepath.Join(c.dir, "c.yaml"))...)
	cmd.Env = []string{"HOME=" + c.dir, "PATH=" + os.Getenv("PATH")}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (c *cluster) must(t *testing.T, says string, args ...string) string {
	t.Helper()
	out, err := c.run(t.Context(), args...)
	if err != nil || !strings.Contains(out, says) {
		t.Fatalf("%v: %v, want %q:\n%s", args, err, says, out)
	}
	return out
}

func (c *cluster) refused(t *testing.T, says string, args ...string) {
	t.Helper()
	out, err := c.run(t.Context(), args...)
	if failed, ok := errors.AsType[*exec.ExitError](err); !ok || failed.ExitCode() != 1 || !strings.Contains(out, says) {
		t.Fatalf("%v: %v, want status 1 and %q:\n%s", args, err, says, out)
	}
}

// webhook answers for that of cert-manager.
func (c *cluster) webhook(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		c.asked = append(c.asked, fmt.Sprint(review.Request.Kind.Kind, " ", review.Request.Namespace, "/", review.Request.Name, " dry=", review.Request.DryRun != nil && *review.Request.DryRun))
		c.mu.Unlock()
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		review.Request = nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(server.Close)
	return server
}

// comeUp simulates the nodes: once the registration of cert-manager's webhook names
// its Service, the Service is routed to the server.
func (c *cluster) comeUp(t *testing.T, server *httptest.Server, before func()) {
	t.Helper()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	url := server.URL + "/validate"
	testenv.Eventually(t, func() error {
		hooks := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "cert-manager-webhook"}, hooks); err != nil {
			return err
		}
		if hooks.Webhooks[0].ClientConfig.Service == nil {
			return errors.New("the webhook is as it was")
		}
		if before != nil {
			before()
			before = nil
		}
		hooks.Webhooks[0].ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: bundle}
		return c.Client.Update(t.Context(), hooks)
	})
}

// while runs a command line, during which the test plays the nodes.
func (c *cluster) while(t *testing.T, play func(), args ...string) string {
	t.Helper()
	type result struct {
		out string
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := c.run(t.Context(), args...)
		done <- result{out, err}
	}()
	play()
	r := <-done
	if r.err != nil {
		t.Fatalf("%v: %v:\n%s", args, r.err, r.out)
	}
	return r.out
}

// installed are the objects that init writes for a provider.
func (c *cluster) installed(t *testing.T, flag, name string) (missing []string, kinds map[string]int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.program, "generate", "provider", flag, name, "--config", filepath.Join(c.dir, "c.yaml"))
	cmd.Env = []string{"HOME=" + c.dir}
	doc, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := template.Objects(doc)
	if err != nil {
		t.Fatal(err)
	}
	kinds = map[string]int{}
	for _, obj := range objects {
		kinds[obj.GetKind()]++
		live := obj.DeepCopy()
		if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), live); err != nil {
			missing = append(missing, apply.Name(obj)+": "+err.Error())
		}
	}
	return missing, kinds
}

func (c *cluster) inventory(t *testing.T) (all []string) {
	t.Helper()
	list, err := inventory.New(c.Client).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		all = append(all, p.Namespace+"/"+p.Name+" "+p.Version)
	}
	slices.Sort(all)
	return all
}

// version is that of cert-manager's Deployment.
func (c *cluster) version(t *testing.T) string {
	t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("apps/v1")
	obj.SetKind("Deployment")
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "cert-manager", Name: "cert-manager"}, obj); err != nil {
		t.Fatal(err)
	}
	return obj.GetAnnotations()["cert-manager.clusterctl.cluster.x-k8s.io/version"]
}

// TestRealProvidersAreInstalledOnAnyCluster installs the real releases of two
// providers, whose Certificates require cert-manager, on an API server without
// Cluster API.
func TestRealProvidersAreInstalledOnAnyCluster(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	c := newCluster(t)
	server := c.webhook(t)

	// Nothing is written before it is known which controller issues Certificates.
	c.refused(t, `no matches for kind "Certificate"`, "init", "--infrastructure", "aws", "--skip-cert-manager")
	c.configure(t, "v1.20.0", ", externallyProvisioned: true")
	c.refused(t, "the configuration says that others install it", "init", "--infrastructure", "aws")
	if all := c.inventory(t); len(all) > 0 {
		t.Errorf("inventory %v", all)
	}
	c.configure(t, "v1.20.0", "")

	providers := []string{"--infrastructure", "aws,openstack"}
	out := c.while(t, func() {
		c.comeUp(t, server, func() {
			if all := c.inventory(t); len(all) > 0 {
				t.Errorf("installed while cert-manager's webhook did not answer: %v", all)
			}
		})
	}, append([]string{"init"}, providers...)...)
	for _, want := range []string{"Installing cert-manager v1.20.0", "Waiting for cert-manager to be available", "Your management cluster has been initialized successfully!"} {
		if !strings.Contains(out, want) {
			t.Errorf("said, without %q:\n%s", want, out)
		}
	}
	want := []string{"bootstrap-kubeadm-system/bootstrap-kubeadm v1.11.0", "capa-system/infrastructure-aws v2.11.1", "capo-system/infrastructure-openstack v0.14.0", "cluster-api-system/cluster-api v1.11.0", "control-plane-kubeadm-system/control-plane-kubeadm v1.11.0"}
	if diff := cmp.Diff(want, c.inventory(t)); diff != "" {
		t.Errorf("inventory (-want +got):\n%s", diff)
	}
	for name, crds := range map[string]int{"aws": 23, "openstack": 7} {
		missing, kinds := c.installed(t, "--infrastructure", name)
		if len(missing) > 0 || kinds["CustomResourceDefinition"] != crds || kinds["Certificate"] == 0 {
			t.Errorf("%s: missing %v of %v", name, missing, kinds)
		}
	}
	c.established(t)
	c.mu.Lock()
	asked := slices.Clone(c.asked)
	c.mu.Unlock()
	for _, want := range []string{"Certificate default/capstan-probe dry=true", "Certificate capa-system/capa-serving-cert dry=false"} {
		if !slices.Contains(asked, want) {
			t.Errorf("the webhook was not asked about %s, but %v", want, asked)
		}
	}
	if i := slices.IndexFunc(asked, func(s string) bool { return strings.Contains(s, "capstan-probe dry=false") }); i >= 0 {
		t.Errorf("a probe was written: %v", asked)
	}

	// The same again changes nothing.
	out = c.must(t, "Nothing to install", append([]string{"init"}, providers...)...)
	if strings.Contains(out, "Installing") {
		t.Errorf("installed again:\n%s", out)
	}
	c.upgradesCertManager(t, server)

	c.must(t, "Deleted: ", "delete", "--all", "--include-crd", "--include-namespace", "--yes")
	testenv.Eventually(t, func() error { // namespaces and what is in them go by and by
		if all := c.inventory(t); len(all) > 0 {
			return fmt.Errorf("inventory %v", all)
		}
		return nil
	})
}

// established waits until all definitions are served.
func (c *cluster) established(t *testing.T) {
	t.Helper()
	testenv.Eventually(t, func() error {
		list := &apiextensionsv1.CustomResourceDefinitionList{}
		if err := c.Client.List(t.Context(), list); err != nil {
			return err
		}
		for _, crd := range list.Items {
			if !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
				return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
			}) {
				return fmt.Errorf("%s: %v", crd.Name, crd.Status.Conditions)
			}
		}
		return nil
	})
}

// upgradesCertManager upgrades it, while all providers stay as they are.
func (c *cluster) upgradesCertManager(t *testing.T, server *httptest.Server) {
	t.Helper()
	c.must(t, "Cert-Manager is already up to date", "upgrade", "plan")
	c.configure(t, "v1.21.1", "")
	c.must(t, `Cert-Manager will be upgraded from "v1.20.0" to "v1.21.1"`, "upgrade", "plan")
	out := c.while(t, func() { c.comeUp(t, server, nil) }, "upgrade", "apply", "--contract", "v1beta2")
	if !strings.Contains(out, "Upgrading cert-manager from v1.20.0 to v1.21.1") || c.version(t) != "v1.21.1" {
		t.Errorf("version %s:\n%s", c.version(t), out)
	}
	former := &unstructured.Unstructured{}
	former.SetAPIVersion("v1")
	former.SetKind("ServiceAccount")
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: "cert-manager", Name: "cert-manager-former"}, former); !apierrors.IsNotFound(err) {
		t.Errorf("what the new release does not have: %v", err)
	}
	if missing, _ := c.installed(t, "--infrastructure", "aws"); len(missing) > 0 {
		t.Errorf("gone with the upgrade: %v", missing)
	}
	c.must(t, "Cert-Manager is already up to date", "upgrade", "plan")
}
