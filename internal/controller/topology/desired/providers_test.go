// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// TestAClassOfAProvider computes objects from a class as a provider publishes it, and a
// Cluster from the template next to it: variables are defaulted, patches run.
func TestAClassOfAProvider(t *testing.T) {
	t.Parallel()
	w := load(t, "openstack.yaml")
	d := w.provided(t)
	md0Seed := func(t testing.TB, d desired.Desired) *unstructured.Unstructured {
		return deployment(t, d, "md-0").Bootstrap
	}
	image := map[string]any{"imageRef": map[string]any{"name": "node-image"}}
	for _, c := range []check{
		{infra, "kind", "OpenStackCluster"}, {infra, "metadata annotations capo.e2e.test/template-metadata", "propagated"},
		{infra, "spec apiServer managedLoadBalancer", map[string]any{"enabled": true, "allowedCIDRs": []any{"10.0.0.0/8"}}},
		{infra, "spec identityRef", map[string]any{"name": "dev-test-cloud-config", "cloudName": "capo-e2e"}}, {infra, "spec bastion", nil},
		{plane, "kind", "KubeadmControlPlane"}, {plane, "spec version", "v1.34.2"}, {plane, "spec replicas", int64(3)}, {plane, "spec rollout strategy type", "RollingUpdate"},
		{plane, "spec kubeadmConfigSpec format", "ignition"}, {planeHosts, "spec template spec image", image}, {md0Hosts, "spec template spec image", image},
		{planeHosts, "spec template spec flavor filter name", "m1.medium"}, {md0Seed, "spec template spec format", "ignition"}, {md0, "spec replicas", int64(2)},
	} {
		if diff := cmp.Diff(c.want, at(t, c.of(t, d), c.path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
	if commands := at(t, plane(t, d), "spec kubeadmConfigSpec preKubeadmCommands"); !strings.Contains(strings.Join(texts(commands), "\n"), "envsubst < /etc/kubeadm.yml") {
		t.Errorf("it runs %v first", commands)
	}
}

// TestAClassOfAProviderOfTheOlderContract names kinds of kubeadm by v1beta1, and
// infrastructure of which all versions follow the contract v1beta1.
func TestAClassOfAProviderOfTheOlderContract(t *testing.T) {
	t.Parallel()
	w := load(t, "aws.yaml")
	var err error
	if w.contract, err = contract.Followed(map[string]string{"cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2"}, "v1beta1"); err != nil {
		t.Fatal(err)
	}
	d := w.provided(t)
	host := func(profile, size string) map[string]any {
		return map[string]any{"iamInstanceProfile": profile + ".cluster-api-provider-aws.sigs.k8s.io", "instanceType": size, "sshKeyName": "key"}
	}
	for _, c := range []check{
		{infra, "apiVersion", "infrastructure.cluster.x-k8s.io/v1beta2"}, {infra, "kind", "AWSCluster"}, {infra, "spec region", "eu-west-1"}, {infra, "spec sshKeyName", "key"},
		{plane, "apiVersion", "controlplane.cluster.x-k8s.io/v1beta1"}, {plane, "spec version", "v1.34.2"}, {plane, "spec replicas", int64(3)}, {plane, "spec machineTemplate spec", nil},
		{plane, "spec machineTemplate infrastructureRef", map[string]any{
			"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSMachineTemplate", "namespace": "default", "name": d.ControlPlane.Hosts.GetName(),
		}},
		{plane, "spec kubeadmConfigSpec clusterConfiguration controllerManager extraArgs", map[string]any{"cloud-provider": "aws"}},
		{planeHosts, "spec template spec", host("control-plane", "m5.large")}, {md0Hosts, "spec template spec", host("nodes", "t3.medium")}, {md0, "spec replicas", int64(2)},
	} {
		if diff := cmp.Diff(c.want, at(t, c.of(t, d), c.path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.path, diff)
		}
	}
}

// provided writes the desired objects of a provider's class, with its variables
// defaulted, and requires that nothing is left to write then.
func (w *world) provided(t *testing.T) desired.Desired {
	t.Helper()
	var err error
	w.class.Status.Variables, err = variables.Merge([]variables.Source{{From: clusterv1.VariableDefinitionFromInline, Variables: w.class.Spec.Variables}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := variables.Resolve(w.class.Status.Variables, variables.Compile)
	if err != nil {
		t.Fatal(err)
	}
	topology, at0 := &w.cluster.Spec.Topology, field.NewPath("spec", "topology")
	if wrong := append(definitions.Default(at0, topology), definitions.Validate(at0, topology, nil)...); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	d := w.write(t)
	if got := errs(d); len(got) > 0 || len(d.Unmatched) > 0 {
		t.Fatalf("errors %v, patches that match nothing: %v", got, d.Unmatched)
	}
	if diff := cmp.Diff(d.Objects(), w.write(t).Objects()); diff != "" {
		t.Errorf("it does not reach a steady state (-first +next):\n%s", diff)
	}
	return d
}

func texts(list any) (out []string) {
	all, _ := list.([]any)
	for _, each := range all {
		text, _ := each.(string)
		out = append(out, text)
	}
	return out
}
