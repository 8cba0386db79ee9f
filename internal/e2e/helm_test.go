// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/app/chart"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// releaseLimit is how large the Secret may be in which helm keeps the chart and what
// it rendered: an API server takes a mebibyte, and a definition grows with each release.
const releaseLimit = 850 << 10

// TestHelmLooksAfterTheManager has helm install a former chart of the manager in a
// plane that runs nothing of Cluster API, upgrade it to this one, with its
// definitions, roll back, uninstall it, with which no cluster is deleted, and
// install it again.
func TestHelmLooksAfterTheManager(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	program := os.Getenv("CAPSTAN_HELM")
	if program == "" {
		t.Skip("CAPSTAN_HELM names no program: run make charts")
	}
	needSandboxes(t)
	f, dir := barePlane(t)
	importImage(t, dir, imageOf(t, "capstan-manager"))
	h := helm{fleet: f, program: program, dir: dir}
	former, latest := h.chart("v1.2.3", true), h.chart("v1.2.4", false)

	h.run("install", "capstan", former, "--create-namespace", "--values="+h.values(1), "--wait")
	h.isThere(1, 0)
	f.create("c", shape{workers: 1})
	f.becomes("c")
	f.refuses()
	h.run("upgrade", "capstan", latest, "--values="+h.values(2), "--wait")
	h.isThere(2, len(clusterColumns(f)))
	if len(clusterColumns(f)) == 0 {
		t.Error("the upgrade has left the definition of Clusters as it was")
	}
	f.refuses() // the authority that the API server trusts is not the chart's, and stays
	h.run("rollback", "capstan", "1", "--wait")
	h.isThere(1, 0)
	f.refuses()
	f.noRequestWasRefused() // later, managers that stop while their roles are deleted may be refused

	h.run("uninstall", "capstan", "--wait")
	f.must(f.Client.Get(f.Context(), f.key("c"), &clusterv1.Cluster{}))
	for _, gone := range []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ServiceAccount{}, &rbacv1.ClusterRoleBinding{}, &admissionregistrationv1.ValidatingWebhookConfiguration{},
	} {
		name := "capstan-manager"
		switch gone.(type) {
		case *corev1.Service:
			name = "capstan-webhooks"
		case *admissionregistrationv1.ValidatingWebhookConfiguration:
			name = "capstan-core"
		}
		if err := f.Client.Get(f.Context(), client.ObjectKey{Namespace: managers, Name: name}, gone); !apierrors.IsNotFound(err) {
			t.Errorf("%T %s is left: %v", gone, name, err)
		}
	}

	h.run("install", "capstan", latest, "--values="+h.values(2), "--wait")
	f.remove("c")
	var releases corev1.SecretList
	f.must(f.Client.List(f.Context(), &releases, client.InNamespace(managers), client.MatchingLabels{"owner": "helm"}))
	for _, r := range releases.Items {
		if size := len(r.Data["release"]); size == 0 || size > releaseLimit {
			t.Errorf("Secret %s has %d bytes, want at most %d", r.Name, size, releaseLimit)
		}
	}
}

// helm is the program, with a plane.
type helm struct {
	fleet
	program, dir string
}

func (h helm) run(args ...string) {
	h.Helper()
	cmd := exec.CommandContext(h.Context(), h.program, append(args, "--namespace="+managers, "--timeout="+testenv.Limit(stepTimeout).String())...)
	cmd.Env = []string{"HOME=" + h.TempDir(), "KUBECONFIG=" + filepath.Join(h.dir, "kubeconfig")}
	if out, err := cmd.CombinedOutput(); err != nil {
		h.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// chart writes the chart of a version, whose definition of Clusters may be that of a
// release which showed less of them.
func (h helm) chart(version string, former bool) string {
	h.Helper()
	files, err := chart.Files(version)
	h.must(err)
	if former {
		name := "files/crds/clusters.cluster.x-k8s.io.yaml"
		crd := &unstructured.Unstructured{}
		h.must(yaml.Unmarshal(files[name], &crd.Object))
		for _, v := range crd.Object["spec"].(map[string]any)["versions"].([]any) {
			delete(v.(map[string]any), "additionalPrinterColumns")
		}
		files[name], err = yaml.Marshal(crd.Object)
		h.must(err)
	}
	dir := filepath.Join(h.TempDir(), "capstan")
	h.must(chart.Write(dir, files))
	return dir
}

// clusterColumns are those that the API server shows of Clusters.
func clusterColumns(f fleet) []apiextensionsv1.CustomResourceColumnDefinition {
	f.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	f.must(f.Client.Get(f.Context(), client.ObjectKey{Name: "clusters.cluster.x-k8s.io"}, crd))
	return crd.Spec.Versions[0].AdditionalPrinterColumns
}

// values writes the values of a release of the image that the plane has.
func (h helm) values(replicas int) string {
	h.Helper()
	file := filepath.Join(h.TempDir(), "values.yaml")
	h.must(os.WriteFile(file, fmt.Appendf(nil, "image: {repository: example.com/capstan-manager, tag: v1}\nproviders: [core, kubeadm, local]\nreplicas: %d\n", replicas), 0o600))
	return file
}

// isThere compares the objects that a release has created.
func (h helm) isThere(replicas int32, columns int) {
	h.Helper()
	h.managersAreAvailable(replicas)
	if got := len(clusterColumns(h.fleet)); got != columns {
		h.Errorf("Clusters show %d columns, want %d", got, columns)
	}
}
