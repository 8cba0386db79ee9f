// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
)

// old is a client that supports only v1beta1.
type old struct {
	fleet
	dynamic.Interface
}

func (f fleet) old() old {
	f.Helper()
	cfg := rest.CopyConfig(f.Config)
	cfg.WarningHandler = rest.NoWarnings{}
	c, err := dynamic.NewForConfig(cfg)
	if err != nil {
		f.Fatal(err)
	}
	return old{f, c}
}

// resource is a kind of v1beta1, by its plural and group.
func (o old) resource(name string) dynamic.ResourceInterface {
	plural, group, _ := strings.Cut(name, ".")
	return o.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: plural}).Namespace(o.Namespace)
}

// one is the only object of a kind that is selected.
func (o old) one(resource string, selected metav1.ListOptions) (*unstructured.Unstructured, error) {
	list, err := o.resource(resource).List(o.Context(), selected)
	if err != nil {
		return nil, err
	}
	if n := len(list.Items); n != 1 {
		return nil, fmt.Errorf("%d %s", n, resource)
	}
	return &list.Items[0], nil
}

// TestClientsOfV1beta1SeeAClusterThatLives reads a cluster as providers and tools
// do that support no other version, and wait for its v1beta1 status.
func TestClientsOfV1beta1SeeAClusterThatLives(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{workers: 1})
	f.becomes("c")
	o := f.old()
	of := metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=c"}
	ofControlPlane := metav1.ListOptions{LabelSelector: of.LabelSelector + ",cluster.x-k8s.io/control-plane"}
	ofWorkers := metav1.ListOptions{LabelSelector: of.LabelSelector + ",!cluster.x-k8s.io/control-plane"}
	tests := map[string]struct {
		resource   string
		selected   metav1.ListOptions
		fields     map[string]any // of the status
		conditions []string       // that are True
	}{
		"the cluster": {
			resource: "clusters.cluster.x-k8s.io", selected: metav1.ListOptions{FieldSelector: "metadata.name=c"},
			fields:     map[string]any{"infrastructureReady": true, "controlPlaneReady": true, "phase": "Provisioned"},
			conditions: []string{"Ready", "InfrastructureReady", "ControlPlaneReady", "ControlPlaneInitialized"},
		},
		"the deployment of its workers": {
			resource: "machinedeployments.cluster.x-k8s.io", selected: of,
			fields:     map[string]any{"replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1), "unavailableReplicas": int64(0)},
			conditions: []string{"Ready", "Available", "MachineSetReady"},
		},
		"the set of its workers": {
			resource: "machinesets.cluster.x-k8s.io", selected: of,
			fields:     map[string]any{"replicas": int64(1), "fullyLabeledReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1)},
			conditions: []string{"Ready", "MachinesCreated", "MachinesReady", "Resized"},
		},
		"a worker": {
			resource: "machines.cluster.x-k8s.io", selected: ofWorkers,
			fields:     map[string]any{"bootstrapReady": true, "infrastructureReady": true, "phase": "Running"},
			conditions: []string{"Ready", "InfrastructureReady", "BootstrapReady", "NodeHealthy"},
		},
		"the control plane": {
			resource: "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", selected: of,
			fields:     map[string]any{"ready": true, "initialized": true, "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "unavailableReplicas": int64(0)},
			conditions: []string{"Ready", "Available", "CertificatesAvailable", "MachinesCreated", "MachinesSpecUpToDate", "MachinesReady", "Resized", "ControlPlaneComponentsHealthy", "EtcdClusterHealthy"},
		},
		"its machine": {
			resource: "machines.cluster.x-k8s.io", selected: ofControlPlane,
			fields:     map[string]any{"bootstrapReady": true, "infrastructureReady": true, "phase": "Running"},
			conditions: []string{"Ready", "InfrastructureReady", "BootstrapReady", "NodeHealthy", "APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy", "EtcdMemberHealthy"},
		},
		"the bootstrap config of a worker": {
			resource: "kubeadmconfigs.bootstrap.cluster.x-k8s.io", selected: ofWorkers,
			fields: map[string]any{"ready": true}, conditions: []string{"Ready", "CertificatesAvailable", "DataSecretAvailable"},
		},
	}
	for name, tc := range tests {
		f.eventually(func() error {
			obj, err := o.one(tc.resource, tc.selected)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			status, _ := obj.Object["status"].(map[string]any)
			got, want := map[string]any{}, map[string]any{}
			for field, value := range tc.fields {
				got[field], want[field] = status[field], value
			}
			told := map[string]any{}
			list, _ := status["conditions"].([]any)
			for _, c := range list {
				c := c.(map[string]any)
				told[c["type"].(string)] = c["status"]
			}
			for _, c := range tc.conditions {
				got[c], want[c] = told[c], "True"
			}
			if diff := cmp.Diff(want, got); diff != "" {
				return fmt.Errorf("%s (-want +got)\n%s", name, diff)
			}
			return nil
		})
	}
}

// TestAWriteOfV1beta1ReplacesNoMachine changes labels in the templates of machines,
// and in the control plane the fields that its machines copy unchanged. The rest is
// written again as well, in the form that v1beta1 gives it.
func TestAWriteOfV1beta1ReplacesNoMachine(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{workers: 1, change: func(obj client.Object) {
		if cp, is := obj.(*controlplanev1.KubeadmControlPlane); is {
			spec := &cp.Spec.KubeadmConfigSpec
			spec.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: new("2")}, {Name: "profiling", Value: new("false")}}
			spec.Files = append(spec.Files, bootstrapv1.File{Path: "/etc/motd", Content: "x", Append: new(false)})
		}
	}})
	f.becomes("c")
	before, o := f.uids("c", every), f.old()
	for _, resource := range []string{
		"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", "kubeadmconfigs.bootstrap.cluster.x-k8s.io",
		"machinedeployments.cluster.x-k8s.io", "machinesets.cluster.x-k8s.io", "machines.cluster.x-k8s.io",
	} {
		list, err := o.resource(resource).List(t.Context(), metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=c"})
		f.must(err)
		for _, obj := range list.Items {
			_, err := o.resource(resource).Patch(t.Context(), obj.GetName(), types.MergePatchType, []byte(`{"metadata":{"labels":{"written":"old"}}}`), metav1.PatchOptions{})
			f.must(err)
		}
	}
	const timeout = `{"spec":{"machineTemplate":{"nodeDrainTimeout":"7s"}}}`
	_, err := o.resource("kubeadmcontrolplanes.controlplane.cluster.x-k8s.io").Patch(t.Context(), "c-control-plane", types.MergePatchType, []byte(timeout), metav1.PatchOptions{})
	f.must(err)
	f.eventually(func() error {
		cp := &controlplanev1.KubeadmControlPlane{}
		if err := f.Client.Get(t.Context(), f.key("c-control-plane"), cp); err != nil {
			return err
		}
		args := cp.Spec.KubeadmConfigSpec.ClusterConfiguration.APIServer.ExtraArgs
		if cp.Generation < 2 || cp.Status.ObservedGeneration != cp.Generation || len(args) != 2 || args[0].Name != "profiling" {
			return fmt.Errorf("generation %d, observed %d, arguments %+v; want them sorted, and seen", cp.Generation, cp.Status.ObservedGeneration, args)
		}
		return f.settled("c")
	})
	if diff := cmp.Diff(before, f.uids("c", every)); diff != "" {
		t.Errorf("machines (-before +after)\n%s", diff)
	}
}
