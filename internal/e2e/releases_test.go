// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/host/pods"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// published are real releases of other providers, as their authors publish them.
var published = map[string]struct{ version, namespace, prefix, image, says string }{
	"aws": {"v2.11.1", "capa-system", "capa", "gcr.io/k8s-staging-cluster-api-aws/cluster-api-aws-controller:latest",
		"manager elect true level 0 insecure false arguments []\nuser 65532 group 65532 groups [1000] <nil>\ncredentials 5 bytes\n"},
	"openstack": {"v0.14.0", "capo-system", "capo", "gcr.io/k8s-staging-capi-openstack/capi-openstack-controller:dev",
		"manager elect true level 2 insecure true arguments []\nuser 65532 group 65532 groups [] <nil>\n"},
}

// asked are objects of kinds of both for which their webhooks are called.
const asked = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: AWSCluster
metadata: {name: %[1]s, namespace: default}
spec: {region: eu-west-1}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: OpenStackCluster
metadata: {name: %[1]s, namespace: default}
spec: {identityRef: {type: Secret, name: cloud-config, cloudName: openstack}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: OpenStackServer
metadata: {name: %[1]s, namespace: default}
spec: {flavor: small, sshKeyName: key, image: {id: 0d63af4c-3b78-4b8b-b4c4-3c1c0ac0a2b2}, identityRef: {type: Secret, name: cloud-config, cloudName: openstack}, ports: [{description: first}]}
`

// TestAPlaneRunsReleasesOfOthers: AWS and OpenStack are installed from their
// releases in one plane, unchanged except for their images, which are replaced by a
// program that takes their arguments and answers their webhooks. They become
// Available, admit objects and convert them to other versions, and are deleted
// again.
func TestAPlaneRunsReleasesOfOthers(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	rootless := needSandboxes(t).Mode == pods.Rootless
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	r := releases{p.start("--providers=core,kubeadm,certificates", "--simulated-dir="+t.TempDir()), t.TempDir()}
	before := r.provided()
	r.publish()
	r.supply(p.dir, "aws")
	wait := []string{"init", "--infrastructure", "aws,openstack", "--wait-providers"}

	// One image is missing: it is named, and the same command ends well once it is there.
	out, err := r.try(append(wait, "--wait-provider-timeout=3")...)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("init without an image ends with %v", err)
	}
	for _, want := range []string{"Certificates are honoured here already", "providers are not available after 3s", "Deployment capo-system/capo-controller-manager", "image " + published["openstack"].image} {
		if !strings.Contains(out, want) {
			t.Errorf("init without an image says, without %q:\n%s", want, out)
		}
	}
	r.supply(p.dir, "openstack")
	out = r.run(wait...)
	for _, want := range []string{"infrastructure-openstack v0.14.0 is installed already", "Waiting for providers to be available", "Nothing to install."} {
		if !strings.Contains(out, want) {
			t.Errorf("init again says, without %q:\n%s", want, out)
		}
	}
	for name := range published {
		r.available(name, rootless)
		r.trusted(name)
	}
	r.answered()

	out = r.run("upgrade", "plan")
	for name, about := range published {
		if !slices.ContainsFunc(strings.Split(out, "\n"), func(line string) bool {
			return slices.Equal(strings.Fields(line), []string{"infrastructure-" + name, about.namespace, "InfrastructureProvider", about.version, "already", "up", "to", "date"})
		}) {
			t.Errorf("the plan of an upgrade, without %s:\n%s", name, out)
		}
	}
	r.removed(before)
}

// releases are those of others in a plane.
type releases struct {
	fleet
	dir string // of a repository and a configuration
}

// publish creates the repository.
func (r releases) publish() {
	r.Helper()
	config := "providers:\n"
	for name, about := range published {
		folder := filepath.Join(r.dir, "infrastructure-"+name, about.version)
		r.must(os.MkdirAll(folder, 0o700))
		unpackRelease(r.T, name, about.version, folder)
		config += fmt.Sprintf("- {name: %s, type: InfrastructureProvider, url: %q}\n", name, filepath.Join(folder, "infrastructure-components.yaml"))
	}
	r.must(os.WriteFile(r.config(), []byte(config), 0o600))
}

// unpackRelease has the files of a release of a real provider in a folder.
func unpackRelease(t *testing.T, provider, version, dir string) {
	t.Helper()
	file := fmt.Sprintf("../../clusterctl/testdata/releases/infrastructure-%s-%s.tar.gz", provider, version)
	if out, err := exec.CommandContext(t.Context(), "tar", "-xzf", file, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", file, err, out)
	}
}

// supply gives the plane the image of a release.
func (r releases) supply(plane, name string) {
	r.Helper()
	importImage(r.T, plane, programImage(r.T, published[name].image, "test/manager"))
}

func (r releases) config() string { return filepath.Join(r.dir, "clusterctl.yaml") }

// run runs a command of capstan with the variables that the releases require, and
// returns all its output.
func (r releases) run(args ...string) string {
	r.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.Fatalf("capstan %v: %v\n%s", args, err, out)
	}
	return out
}

func (r releases) try(args ...string) (string, error) {
	r.Helper()
	cmd := exec.CommandContext(r.Context(), testenv.Binary(r), append(args, "--config", r.config(), "--kubeconfig", r.Kubeconfig)...)
	cmd.Env = append(os.Environ(), "AWS_B64ENCODED_CREDENTIALS=ZHVtbXk=")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// available returns an error unless a provider's Deployment is as clusterctl
// requires it, and its program was run as the release defines.
func (r releases) available(name string, rootless bool) {
	r.Helper()
	about := published[name]
	d := &appsv1.Deployment{}
	r.must(r.Client.Get(r.Context(), client.ObjectKey{Namespace: about.namespace, Name: about.prefix + "-controller-manager"}, d))
	if d.Status.AvailableReplicas != 1 || d.Status.ObservedGeneration != d.Generation {
		r.Errorf("%s has the status %+v", d.Name, d.Status)
	}
	log := r.run("logs", "provider", name)
	for line := range strings.Lines(about.says) {
		if rootless { // a Pod of a plain user's plane has one group
			line = strings.Replace(line, "groups [1000]", "groups []", 1)
		}
		if !strings.Contains(log, line) {
			r.Errorf("%s wrote, without %q:\n%s", name, line, log)
		}
	}
}

// trusted waits until all objects into which the authority of a provider's
// Certificate is injected have it.
func (r releases) trusted(name string) {
	r.Helper()
	about := published[name]
	secret := &corev1.Secret{}
	r.must(r.Client.Get(r.Context(), client.ObjectKey{Namespace: about.namespace, Name: about.prefix + "-webhook-service-cert"}, secret))
	if len(secret.Data["ca.crt"]) == 0 {
		r.Fatalf("Secret %s has no authority", secret.Name)
	}
	wanting := 0
	for _, obj := range r.provided()["infrastructure-"+name] {
		if obj.GetAnnotations()[certmanagerv1.InjectFromAnnotation] != about.namespace+"/"+about.prefix+"-serving-cert" {
			continue
		}
		if _, asks, _ := unstructured.NestedMap(obj.Object, "spec", "conversion", "webhook"); !asks && obj.GetKind() == "CustomResourceDefinition" {
			continue // it is annotated like the others, and there is nothing to fill in
		}
		wanting++
		r.eventually(func() error { return r.injected(obj.DeepCopy(), secret.Data["ca.crt"]) })
	}
	if wanting < 5 { // four or more definitions, and the webhooks
		r.Errorf("%d objects want the authority of %s", wanting, name)
	}
}

// answered creates objects for which webhooks are called, and reads one at a
// version at which it is not stored.
func (r releases) answered() {
	r.Helper()
	create := func(name string, check func(*unstructured.Unstructured, error) error) {
		objects, err := template.Objects(fmt.Appendf(nil, asked, name))
		r.must(err)
		for _, obj := range objects {
			// The API server follows a Service by and by.
			r.eventually(func() error {
				obj := obj.DeepCopy()
				return check(obj, client.IgnoreAlreadyExists(r.Client.Create(r.Context(), obj, client.FieldValidation("Strict"))))
			})
		}
	}
	create("bad", func(obj *unstructured.Unstructured, err error) error {
		if err == nil || !strings.Contains(err.Error(), strings.ToLower(obj.GetKind())+" finds it bad") {
			return fmt.Errorf("%s: the webhook refuses by %w", obj.GetKind(), err)
		}
		return nil
	})
	create("good", func(_ *unstructured.Unstructured, err error) error { return err })
	r.eventually(func() error {
		old := &unstructured.Unstructured{}
		old.SetAPIVersion("infrastructure.cluster.x-k8s.io/v1beta1")
		old.SetKind("OpenStackCluster")
		if err := r.Client.Get(r.Context(), r.key("good"), old); err != nil {
			return err
		}
		cloud, _, err := unstructured.NestedString(old.Object, "spec", "identityRef", "cloudName")
		if cloud != "openstack" {
			return fmt.Errorf("at the older version it is of cloud %q, %w", cloud, err)
		}
		return nil
	})
	for name, lines := range map[string][]string{
		"aws":       {"review /mutate-infrastructure-cluster-x-k8s-io-v1beta2-awscluster admission.k8s.io/v1 CREATE good", "review /validate-infrastructure-cluster-x-k8s-io-v1beta2-awscluster admission.k8s.io/v1 CREATE good"},
		"openstack": {"review /validate-infrastructure-cluster-x-k8s-io-v1alpha1-openstackserver admission.k8s.io/v1beta1 CREATE good", "convert OpenStackCluster from infrastructure.cluster.x-k8s.io/v1beta2 to infrastructure.cluster.x-k8s.io/v1beta1"},
	} {
		log := r.run("logs", "provider", name)
		for _, line := range lines {
			if !strings.Contains(log, line+"\n") {
				r.Errorf("%s was asked, without %q:\n%s", name, line, log)
			}
		}
	}
}

// removed deletes the providers once there are no objects of theirs. What is left is
// what clusterctl leaves: roles that are not named after the provider's namespace.
func (r releases) removed(before map[string][]*unstructured.Unstructured) {
	r.Helper()
	all := []string{"delete", "--all", "--include-crd", "--include-namespace", "--yes"}
	out, err := r.try(all...)
	if err == nil || !strings.Contains(out, "AWSCluster default/good") || !strings.Contains(out, "OpenStackServer default/good") {
		r.Errorf("while there are objects, delete ends with %v:\n%s", err, out)
	}
	objects, err := template.Objects(fmt.Appendf(nil, asked, "good"))
	r.must(err)
	for _, obj := range objects {
		r.must(r.Client.Delete(r.Context(), obj))
	}
	r.run(all...)
	want := map[string]string{}
	for label, objects := range before {
		want[label] = names(objects)
	}
	for name, about := range published {
		want["infrastructure-"+name] = fmt.Sprintf("[ClusterRole /%[1]s-manager-role ClusterRoleBinding /%[1]s-manager-rolebinding]", about.prefix)
	}
	r.eventually(func() error { // namespaces and what is in them go by and by
		got := map[string]string{}
		for label, objects := range r.provided() {
			got[label] = names(objects)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("what is left (-want +got):\n%s", diff)
		}
		return nil
	})
	pods := &corev1.PodList{}
	r.must(r.Client.List(r.Context(), pods))
	if len(pods.Items) > 0 {
		r.Errorf("%d Pods are left", len(pods.Items))
	}
}

func names(objects []*unstructured.Unstructured) string {
	var all []string
	for _, obj := range objects {
		all = append(all, obj.GetKind()+" "+obj.GetNamespace()+"/"+obj.GetName())
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}

// provided are all objects of all kinds that carry the label of a provider, by it.
func (r releases) provided() map[string][]*unstructured.Unstructured {
	r.Helper()
	all := map[string][]*unstructured.Unstructured{}
	for _, kind := range r.kinds() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		err := r.Client.List(r.Context(), list, client.HasLabels{clusterctlv1.ClusterctlLabel, "cluster.x-k8s.io/provider"})
		if meta.IsNoMatchError(err) { // it has just been deleted
			continue
		}
		r.must(client.IgnoreNotFound(err))
		for i := range list.Items {
			label := list.Items[i].GetLabels()["cluster.x-k8s.io/provider"]
			all[label] = append(all[label], &list.Items[i])
		}
	}
	return all
}

// kinds are all that can be listed.
func (r releases) kinds() []schema.GroupVersionKind {
	r.Helper()
	c, err := discovery.NewDiscoveryClientForConfig(r.Config)
	r.must(err)
	groups, err := c.ServerPreferredResources()
	r.must(err)
	all := map[schema.GroupVersionKind]bool{}
	for _, g := range discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list", "delete"}}, groups) {
		version, err := schema.ParseGroupVersion(g.GroupVersion)
		r.must(err)
		for _, resource := range g.APIResources {
			all[version.WithKind(resource.Kind)] = true
		}
	}
	return slices.Collect(maps.Keys(all))
}
