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
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// old is a client that knows nothing but v1beta1.
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

// one is the object of a kind that belongs to a cluster, and to a control plane or
// to none.
func (o old) one(resource, cluster, selector string) (*unstructured.Unstructured, error) {
	kind, group, _ := strings.Cut(resource, ".")
	list, err := o.Resource(schema.GroupVersionResource{Group: group, Version: "v1beta1", Resource: kind}).Namespace(o.Namespace).
		List(o.Context(), metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/cluster-name=" + cluster + selector})
	if err != nil {
		return nil, err
	}
	if n := len(list.Items); n != 1 {
		return nil, fmt.Errorf("%d %s", n, resource)
	}
	return &list.Items[0], nil
}

// TestClientsOfV1beta1SeeAClusterThatLives reads a cluster as providers and tools do
// that know no other version, and wait for what is said there.
func TestClientsOfV1beta1SeeAClusterThatLives(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("c", shape{workers: 1})
	f.becomes("c")
	o := f.old()
	const (
		ofControlPlane = ",cluster.x-k8s.io/control-plane"
		ofWorkers      = ",!cluster.x-k8s.io/control-plane"
	)
	tests := map[string]struct {
		resource, selector string
		fields             map[string]any // of the status
		conditions         []string       // that are True
	}{
		"the control plane": {
			resource:   "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
			fields:     map[string]any{"ready": true, "initialized": true, "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "unavailableReplicas": int64(0)},
			conditions: []string{"Ready", "Available", "CertificatesAvailable", "MachinesCreated", "MachinesSpecUpToDate", "Resized", "ControlPlaneComponentsHealthy", "EtcdClusterHealthy"},
		},
		"its machine": {
			resource: "machines.cluster.x-k8s.io", selector: ofControlPlane,
			fields:     map[string]any{"bootstrapReady": true, "infrastructureReady": true, "phase": "Running"},
			conditions: []string{"APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "EtcdPodHealthy", "EtcdMemberHealthy"},
		},
		"the bootstrap config of a worker": {
			resource: "kubeadmconfigs.bootstrap.cluster.x-k8s.io", selector: ofWorkers,
			fields: map[string]any{"ready": true}, conditions: []string{"Ready", "CertificatesAvailable", "DataSecretAvailable"},
		},
	}
	for name, tc := range tests {
		f.eventually(func() error {
			obj, err := o.one(tc.resource, "c", tc.selector)
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
