// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// published are releases of real providers, and an object of each.
var published = map[string]struct {
	version, namespace, image string
	kind                      schema.GroupVersionKind
	spec                      map[string]any
}{
	"aws": {
		"v2.11.1", "capa-system", "gcr.io/k8s-staging-cluster-api-aws/cluster-api-aws-controller:latest",
		schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Kind: "AWSClusterTemplate"}, map[string]any{},
	},
	"openstack": {
		"v0.14.0", "capo-system", "gcr.io/k8s-staging-capi-openstack/capi-openstack-controller:dev",
		// It is stored as another version, into which the provider converts it.
		schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1", Kind: "OpenStackClusterTemplate"},
		map[string]any{"identityRef": map[string]any{"name": "a", "cloudName": "b"}},
	},
}

// TestReleasesOfProvidersRunAsTheyArePublished: what real providers ask of a Pod, a
// Service, a certificate and a webhook is had, by all of them in one plane. Only the
// program in their images is another.
func TestReleasesOfProvidersRunAsTheyArePublished(t *testing.T) {
	t.Parallel()
	needSandboxes(t)
	plane := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := plane.start("--providers=core,kubeadm,certificates")
	dir := t.TempDir()
	x := example{config: filepath.Join(dir, "clusterctl.yaml")}
	config := "AWS_B64ENCODED_CREDENTIALS: Zm9v\nproviders:\n"
	for name, r := range published {
		folder := filepath.Join(dir, "infrastructure-"+name, r.version)
		f.must(os.MkdirAll(folder, 0o755))
		unpackRelease(t, name, r.version, folder)
		config += fmt.Sprintf("- {name: %s, type: InfrastructureProvider, url: %q}\n", name, filepath.Join(folder, "infrastructure-components.yaml"))
		importImage(t, plane.dir, programImage(t, r.image, "./testdata/manager"))
	}
	f.must(os.WriteFile(x.config, []byte(config), 0o600))

	var kept []client.Object
	x.run(f, "init", "--infrastructure", "aws,openstack", "--wait-providers")
	for name, r := range published {
		if log := x.run(f, "logs", "provider", name); !strings.Contains(log, "in place of [/manager --leader-elect ") {
			t.Errorf("%s wrote %q", name, log)
		}
		obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": r.spec}}}}
		obj.SetGroupVersionKind(r.kind)
		obj.SetNamespace("default")
		obj.SetName("bad")
		if err := f.Client.Create(t.Context(), obj); err == nil || !strings.Contains(err.Error(), "it is bad") {
			t.Errorf("%s: a bad %s is answered %v, want that a webhook of the provider refuses it", name, r.kind.Kind, err)
		}
		obj.SetName("good")
		f.must(f.Client.Create(t.Context(), obj))
		kept = append(kept, obj)
	}
	if out := x.run(f, "upgrade", "plan"); !strings.Contains(out, "You are already up to date!") {
		t.Errorf("the plan of an upgrade: %s", out)
	}
	remove := []string{"delete", "--infrastructure", "aws,openstack", "--include-crd", "--include-namespace"}
	refused := exec.CommandContext(t.Context(), testenv.Binary(t), append(remove, "--config", x.config, "--kubeconfig", f.Kubeconfig)...)
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "* AWSClusterTemplate default/good\n* OpenStackClusterTemplate default/good\n") {
		t.Errorf("the deletion of definitions that have objects says %v\n%s", err, out)
	}
	for _, obj := range kept {
		f.must(f.Client.Delete(t.Context(), obj))
	}
	x.run(f, remove...)
	for name, r := range published {
		f.gone(name, r.namespace)
	}
}
