// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/simulated"
	"github.com/capstan-dev/capstan/internal/testenv"
)

var exampleMachines = schema.GroupVersionKind{Group: "infrastructure.example.com", Version: "v1alpha1", Kind: "ExampleMachineList"}

// TestAProviderInAPlaneBringsUpAClusterThatMoves: the provider to copy, installed in
// two planes as its releases, has machines of a yard become a cluster with Nodes. The
// provider is upgraded, the cluster moved, grown and deleted, and no machine replaced.
func TestAProviderInAPlaneBringsUpAClusterThatMoves(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 2)
	needSandboxes(t)
	x := packExample(t)
	a := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	b := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	flags := []string{"--providers=core,kubeadm,certificates", "--simulated-dir=" + t.TempDir()}
	atA, atB := a.start(flags...), b.start(flags...)
	x.provide(atA, a.dir, "v0.1.0")
	x.provide(atB, b.dir, "v0.2.0")
	y := newYard(t, atA.named("c"))

	out := x.run(atA, "generate", "cluster", "c", "--infrastructure", "example:v0.1.0", "--flavor", "kubeadm", "--kubernetes-version", "v1.36.3",
		"--worker-machine-count", "2", "--var", "EXAMPLE_ADDRESS="+y.reserve())
	atA.apply(out)
	y.has(atA, 3)
	before, uids := atA.inside([]string{"c"}), atA.uids("c", every)

	x.load(atA, a.dir, "v0.2.0")
	x.run(atA, "upgrade", "apply", "--infrastructure", "example:v0.2.0", "--wait-providers")
	y.has(atA, 3)
	if log := x.run(atA, "logs", "provider", "example"); !strings.Contains(log, "Serving webhook server") {
		t.Errorf("the provider wrote %q, want that its webhooks serve", log)
	}
	if diff := cmp.Diff(uids, atA.uids("c", every)); diff != "" {
		t.Errorf("Machines after the upgrade (-before +after):\n%s", diff)
	}
	atA.migratesExamples()
	atA.convertsExamples()

	x.run(atA, "move", "--to-kubeconfig", atB.Kubeconfig)
	y.has(atB, 3)
	if diff := cmp.Diff(before, atB.inside([]string{"c"})); diff != "" {
		t.Errorf("in the cluster after the move (-before +after):\n%s", diff)
	}
	if left := atA.uids("c", every); len(left) > 0 {
		t.Errorf("Machines where the cluster was: %v", left)
	}

	modify(atB, "c-md-0", &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(3)) })
	y.has(atB, 4)
	after := atB.inside([]string{"c"})
	for key, uid := range before {
		if after[key] != uid {
			t.Errorf("%s has become %q, want %q", key, after[key], uid)
		}
	}
	atB.remove("c")
	if err := y.tend(atB); err != nil || len(y.booted) > 0 {
		t.Errorf("the yard runs %v, %v, want nothing", y.booted, err)
	}
	x.run(atB, "delete", "--infrastructure", "example")
	atB.must(atB.Client.Get(t.Context(), client.ObjectKey{Name: "example-system"}, &corev1.Namespace{}))
	atB.migratesExamples() // they are still defined
}

// migratesExamples checks that all definitions of the provider to copy store the version
// of its second release alone.
func (f fleet) migratesExamples() {
	f.Helper()
	var all apiextensionsv1.CustomResourceDefinitionList
	f.must(f.Client.List(f.Context(), &all, client.MatchingLabels{"cluster.x-k8s.io/provider": "infrastructure-example"}))
	if len(all.Items) != 4 {
		f.Errorf("there are %d definitions, want 4", len(all.Items))
	}
	for _, d := range all.Items {
		if diff := cmp.Diff([]string{"v1beta1"}, d.Status.StoredVersions); diff != "" {
			f.Errorf("%s stores (-want +got):\n%s", d.Name, diff)
		}
	}
}

// convertsExamples writes objects of the provider to copy in each of its versions, and
// reads them in the other one.
func (f fleet) convertsExamples() {
	f.Helper()
	sizes := map[string]string{"v1alpha1": "size", "v1beta1": "machineSize"}
	records := map[string]*unstructured.UnstructuredList{}
	for version := range sizes {
		records[version] = &unstructured.UnstructuredList{}
		records[version].SetGroupVersionKind(exampleMachines.GroupKind().WithVersion(version))
		f.must(f.Client.List(f.Context(), records[version], client.InNamespace(f.Namespace)))
		if len(records[version].Items) != 3 {
			f.Fatalf("there are %d records of version %s, want 3", len(records[version].Items), version)
		}
	}
	for _, tc := range []struct{ from, to, size string }{{"v1beta1", "v1alpha1", "large"}, {"v1alpha1", "v1beta1", "small"}} {
		written := &records[tc.from].Items[0]
		change := fmt.Appendf(nil, `{"spec": {%q: %q}}`, sizes[tc.from], tc.size)
		f.must(f.Client.Patch(f.Context(), written, client.RawPatch(types.MergePatchType, change)))
		read := &records[tc.to].Items[0]
		f.must(f.Client.Get(f.Context(), client.ObjectKeyFromObject(written), read))
		if got, _, err := unstructured.NestedString(read.Object, "spec", sizes[tc.to]); err != nil || got != tc.size {
			f.Errorf("what was written as %s is read as %s: %q, %v", tc.from, tc.to, got, err)
		}
	}
}

// example is the provider to copy, as its author publishes it, and the
// configuration of the user who installs it.
type example struct{ dir, config string }

// packExample returns both releases, which the Makefile built, with a configuration.
func packExample(t *testing.T) example {
	t.Helper()
	x := example{testenv.Program(t, "test/example"), filepath.Join(t.TempDir(), "clusterctl.yaml")}
	config := fmt.Sprintf("providers:\n- {name: example, type: InfrastructureProvider, url: %q}\n", filepath.Join(x.dir, "dist/infrastructure-example/v0.1.0/infrastructure-components.yaml"))
	if err := os.WriteFile(x.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return x
}

// run runs a command of capstan for a plane, and returns what it prints.
func (x example) run(f fleet, args ...string) string {
	f.Helper()
	cmd := exec.CommandContext(f.Context(), testenv.Binary(f), append(args, "--config", x.config, "--kubeconfig", f.Kubeconfig)...)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		f.Fatalf("capstan %v: %v\n%s%s", args, err, out, exit.Stderr)
	}
	f.must(err)
	return string(out)
}

// load gives a plane the image of a release.
func (x example) load(f fleet, dir, version string) {
	f.Helper()
	importImage(f.T, dir, programImage(f.T, "example.com/provider-example:"+version, filepath.Join("test/example", version, "provider-example")))
}

// provide installs a release in a plane, and waits for it.
func (x example) provide(f fleet, dir, version string) {
	f.Helper()
	x.load(f, dir, version)
	x.run(f, "init", "--infrastructure", "example:"+version, "--wait-providers")
}

// yard simulates the machines of a cluster of which the provider keeps records:
// what boots them with their bootstrap data is no part of the provider.
type yard struct {
	*testing.T
	cluster localinfra.Cluster
	backend *simulated.Backend
	booted  map[string]localinfra.Machine // by name
}

func newYard(t *testing.T, cluster types.NamespacedName) *yard {
	t.Helper()
	backend, err := simulated.New(simulated.Options{Dir: t.TempDir(), Unsynced: true})
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{T: t, backend: backend, booted: map[string]localinfra.Machine{}}
	y.cluster = localinfra.Cluster{NamespacedName: cluster, ID: "yard", Spec: infrav1.LocalClusterSpec{Simulated: &infrav1.LocalClusterSimulated{}}}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
	})
	return y
}

// reserve returns the address at which the cluster's API server will answer.
func (y *yard) reserve() string {
	y.Helper()
	at, err := y.backend.EnsureCluster(y.Context(), y.cluster)
	if err != nil {
		y.Fatal(err)
	}
	return at.Host
}

// has waits until the cluster is all that it should be, with so many Nodes.
func (y *yard) has(f fleet, nodes int) {
	f.Helper()
	f.eventually(func() error {
		if err := errors.Join(y.tend(f), f.settled(y.cluster.Name)); err != nil {
			return err
		}
		have, err := f.nodes(y.cluster.Name)
		if err != nil || len(have) != nodes {
			return errors.Join(err, fmt.Errorf("%d Nodes, want %d", len(have), nodes))
		}
		for _, n := range have {
			if m, ok := y.booted[n.Name]; !ok || n.Spec.ProviderID != m.Spec.ProviderID {
				return fmt.Errorf("Node %s has the provider ID %q, which is not that of a machine of the yard", n.Name, n.Spec.ProviderID)
			}
		}
		return nil
	})
}

// tend boots what the provider has a provider ID for, and switches off the others.
func (y *yard) tend(f fleet) error {
	records := &unstructured.UnstructuredList{}
	records.SetGroupVersionKind(exampleMachines)
	if err := f.Client.List(f.Context(), records, client.InNamespace(f.Namespace)); err != nil {
		return err
	}
	var errs []error
	for i := range records.Items {
		errs = append(errs, y.boot(f, &records.Items[i]))
	}
	for name, m := range y.booted {
		if slices.ContainsFunc(records.Items, func(r unstructured.Unstructured) bool { return r.GetName() == name }) {
			continue
		}
		errs = append(errs, y.backend.DeleteMachine(f.Context(), m))
		delete(y.booted, name)
	}
	return errors.Join(errs...)
}

// boot starts the machine of a record with the bootstrap data of its Machine, once.
func (y *yard) boot(f fleet, record *unstructured.Unstructured) error {
	id, _, err := unstructured.NestedString(record.Object, "spec", "providerID")
	if _, booted := y.booted[record.GetName()]; booted || err != nil || id == "" {
		return err
	}
	of := &clusterv1.Machine{}
	if err := f.Client.Get(f.Context(), f.key(owner.Name(record, schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: "Machine"})), of); err != nil {
		return err
	}
	secret := &corev1.Secret{}
	if err := f.Client.Get(f.Context(), f.key(*of.Spec.Bootstrap.DataSecretName), secret); err != nil {
		return err
	}
	m := localinfra.Machine{
		NamespacedName: f.named(record.GetName()), ID: localinfra.ID(record.GetUID()), Cluster: y.cluster.Name, ClusterID: y.cluster.ID,
		Version: of.Spec.Version, BootstrapData: secret.Data["value"],
		Spec: infrav1.LocalMachineSpec{ProviderID: id, Simulated: &infrav1.LocalMachineSimulated{}},
	}
	if _, err := y.backend.EnsureMachine(context.WithoutCancel(f.Context()), m); err != nil {
		return err
	}
	y.booted[record.GetName()] = m
	return nil
}
