// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestManagersRunAsPods has a plane that runs nothing of Cluster API run the output
// of generate manager, with the image that make image builds: two Pods, of which
// one leads and is killed, with webhooks and conversion that are reached through
// their Service. In all that they are refused nothing, and many other requests are
// not allowed to them.
func TestManagersRunAsPods(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	needSandboxes(t)
	f, dir := barePlane(t)
	importImage(t, dir, imageOf(t, "capstan-manager"))
	objects := f.generate("image: {repository: example.com/capstan-manager, tag: v1}\nproviders: [core, kubeadm, local]\n")
	f.take(objects)
	f.managersAreAvailable(2)
	f.create("c", shape{workers: 1})
	f.create("t", shape{workers: 1, template: template.LocalTopology()})
	f.becomes("c")
	f.becomes("t")
	f.refuses() // and reads at an old version

	(&deployed{fleet: f}).hurryRotation()
	leader := f.leadingPod("")
	f.must(f.Client.Delete(f.Context(), leader, client.GracePeriodSeconds(0)))
	f.leadingPod(leader.Name)
	f.managersAreAvailable(2)
	f.trusts(2)
	f.refuses()                               // of one that shows a certificate of the next authority, and one of the former
	for _, name := range []string{"c", "t"} { // what is simulated went with the Pod
		f.remove(name)
	}
	f.create("c", shape{workers: 1})
	f.becomes("c")
	f.take(objects)
	f.becomes("c")
	f.mayNot()
	f.noRequestWasRefused()
}

// barePlane is a plane without any of Cluster API, and its data directory.
func barePlane(t *testing.T) (fleet, string) {
	t.Helper()
	dir := t.TempDir()
	if _, err := testenv.Up(t, "--data-dir="+dir, "--listen=127.0.0.1:0", "--providers=certificates"); err != nil {
		t.Fatal(err)
	}
	env, err := testenv.Connect(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	f := fleet{t, env}
	f.Namespace = metav1.NamespaceDefault
	var crds apiextensionsv1.CustomResourceDefinitionList
	f.must(f.Client.List(t.Context(), &crds))
	for _, crd := range crds.Items {
		if strings.HasSuffix(crd.Spec.Group, "cluster.x-k8s.io") {
			t.Errorf("a plane that does not run Cluster API has %s", crd.Name)
		}
	}
	if out, err := exec.CommandContext(t.Context(), testenv.Binary(t), "status", "--data-dir", dir).CombinedOutput(); err != nil {
		t.Errorf("status: %v\n%s", err, out)
	}
	return f, dir
}

// imageOf returns the archive of the image of one of our programs for this machine, which
// the Makefile built as make image does.
func imageOf(t *testing.T, program string) string {
	t.Helper()
	return filepath.Join(testenv.Program(t, "test/images"), program, runtime.GOARCH+".tar")
}

// managersAreAvailable waits until all replicas of the manager serve.
func (f fleet) managersAreAvailable(replicas int32) {
	f.Helper()
	f.eventually(func() error {
		d := &appsv1.Deployment{}
		f.must(f.Client.Get(f.Context(), client.ObjectKey{Namespace: managers, Name: "capstan-manager"}, d))
		if s := d.Status; s.ObservedGeneration != d.Generation || s.AvailableReplicas != replicas || s.UpdatedReplicas != replicas || s.Replicas != replicas {
			return fmt.Errorf("the Deployment has the status %+v", s)
		}
		return nil
	})
}

// leadingPod waits until a Pod leads that is another than the one before.
func (f fleet) leadingPod(before string) *corev1.Pod {
	f.Helper()
	pod := &corev1.Pod{}
	f.eventually(func() error {
		var leases coordinationv1.LeaseList
		f.must(f.Client.List(f.Context(), &leases, client.InNamespace(managers)))
		if len(leases.Items) != 1 || leases.Items[0].Spec.HolderIdentity == nil {
			return fmt.Errorf("%d Leases, want that of the managers", len(leases.Items))
		}
		name, _, _ := strings.Cut(*leases.Items[0].Spec.HolderIdentity, "_")
		if name == before {
			return errors.New("the Pod that was killed still has the Lease")
		}
		return f.Client.Get(f.Context(), client.ObjectKey{Namespace: managers, Name: name}, pod)
	})
	return pod
}

// trusts waits until the API server trusts some authorities of webhooks.
func (f fleet) trusts(authorities int) {
	f.Helper()
	f.eventually(func() error {
		config := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		f.must(f.Client.Get(f.Context(), client.ObjectKey{Name: "capstan-core"}, config))
		trusted, err := certs.ParseCertificates(config.Webhooks[0].ClientConfig.CABundle)
		if err == nil && len(trusted) != authorities {
			err = fmt.Errorf("the API server trusts %d authorities, want %d", len(trusted), authorities)
		}
		return err
	})
}

// mayNot checks that the account of the managers has no other rights.
func (f fleet) mayNot() {
	f.Helper()
	set, err := kubernetes.NewForConfig(f.Config)
	f.must(err)
	groups := []string{"system:serviceaccounts", "system:serviceaccounts:" + managers, "system:authenticated"}
	for _, asked := range []struct {
		may                                  bool
		verb, group, resource, sub, in, name string
	}{
		{may: true, verb: "update", group: "coordination.k8s.io", resource: "leases", in: managers},
		{may: true, verb: "patch", group: "apiextensions.k8s.io", resource: "customresourcedefinitions", name: "clusters.cluster.x-k8s.io"},
		{verb: "update", group: "coordination.k8s.io", resource: "leases", in: "kube-system"},
		{verb: "patch", group: "apiextensions.k8s.io", resource: "customresourcedefinitions", name: "others.example.com"},
		{verb: "create", group: "apiextensions.k8s.io", resource: "customresourcedefinitions"},
		{verb: "delete", group: "apiextensions.k8s.io", resource: "customresourcedefinitions", name: "clusters.cluster.x-k8s.io"},
		{verb: "delete", group: "cluster.x-k8s.io", resource: "clusters", in: "default"},
		{verb: "create", group: "cluster.x-k8s.io", resource: "clusters", in: "default"},
		{verb: "update", group: "admissionregistration.k8s.io", resource: "validatingwebhookconfigurations", name: "others"},
		{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterroles"},
		{verb: "escalate", group: "rbac.authorization.k8s.io", resource: "clusterroles"},
		{verb: "bind", group: "rbac.authorization.k8s.io", resource: "clusterroles", name: "cluster-admin"},
		{verb: "create", group: "rbac.authorization.k8s.io", resource: "clusterrolebindings"},
		{verb: "impersonate", resource: "users"},
		{verb: "impersonate", resource: "serviceaccounts", in: "default"},
		{verb: "create", resource: "serviceaccounts", sub: "token", in: managers, name: "capstan-manager"},
		{verb: "create", resource: "pods", in: "default"},
		{verb: "create", resource: "pods", sub: "exec", in: "default"},
		{verb: "create", group: "apps", resource: "deployments", in: managers},
		{verb: "delete", resource: "namespaces", name: "default"},
		{verb: "patch", resource: "nodes"},
		{verb: "get", resource: "nodes", sub: "proxy"},
		{verb: "approve", group: "certificates.k8s.io", resource: "signers"},
		{verb: "*", group: "*", resource: "*"},
	} {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + managers + ":capstan-manager", Groups: groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: asked.verb, Group: asked.group, Resource: asked.resource, Subresource: asked.sub, Namespace: asked.in, Name: asked.name,
			},
		}}
		got, err := set.AuthorizationV1().SubjectAccessReviews().Create(f.Context(), review, metav1.CreateOptions{})
		f.must(err)
		if got.Status.Allowed != asked.may {
			f.Errorf("%+v: allowed is %t: %s", asked, got.Status.Allowed, got.Status.Reason)
		}
	}
}

// noRequestWasRefused reads what the API server has forbidden since it was started; and
// then it forbids something, to see that this is how it counts.
func (f fleet) noRequestWasRefused() {
	f.Helper()
	if n := f.refusals(); n != 0 {
		f.Errorf("the API server has forbidden %v requests, and only managers sent requests without permission", n)
	}
	nobody := rest.CopyConfig(f.Config)
	nobody.Impersonate.UserName = "unprivileged"
	set, err := kubernetes.NewForConfig(nobody)
	f.must(err)
	if _, err := set.CoreV1().Nodes().List(f.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		f.Errorf("an unprivileged user lists Nodes: %v", err)
	}
	if n := f.refusals(); n != 1 {
		f.Errorf("the API server counts %v refusals where there was one", n)
	}
}

// refusals are the requests that the API server has forbidden.
func (f fleet) refusals() (sum float64) {
	f.Helper()
	set, err := kubernetes.NewForConfig(f.Config)
	f.must(err)
	text, err := set.RESTClient().Get().AbsPath("/metrics").DoRaw(f.Context())
	f.must(err)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "authorization_attempts_total{") || strings.Contains(line, `result="allowed"`) {
			continue
		}
		fields := strings.Fields(line)
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		f.must(err)
		sum += n
	}
	return sum
}
