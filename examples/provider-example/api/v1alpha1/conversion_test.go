// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"

	"example.com/provider-example/api/v1beta1"
)

func TestNothingIsLostThereAndBack(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "a", Labels: map[string]string{"l": "v"}}
	ready := []metav1.Condition{{Type: "Ready"}}
	cluster := &ExampleCluster{
		ObjectMeta: meta, Spec: ExampleClusterSpec{Address: "192.0.2.1", ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "h", Port: 1}},
		Status: ExampleClusterStatus{Initialization: Initialization{Provisioned: new(true)}, Conditions: ready},
	}
	machine := &ExampleMachine{
		ObjectMeta: meta, Spec: ExampleMachineSpec{ProviderID: "p", Size: "large"},
		Status: ExampleMachineStatus{Initialization: Initialization{Provisioned: new(true)}, Addresses: []clusterv1.MachineAddress{{Address: "a"}}, Conditions: ready},
	}
	clusters := &ExampleClusterTemplate{ObjectMeta: meta}
	clusters.Spec.Template = ExampleClusterTemplateResource{ObjectMeta: clusterv1.ObjectMeta{Labels: meta.Labels}, Spec: cluster.Spec}
	machines := &ExampleMachineTemplate{ObjectMeta: meta}
	machines.Spec.Template = ExampleMachineTemplateResource{ObjectMeta: clusterv1.ObjectMeta{Labels: meta.Labels}, Spec: machine.Spec}

	hubCluster, backCluster := &v1beta1.ExampleCluster{}, &ExampleCluster{}
	hubMachine, backMachine := &v1beta1.ExampleMachine{}, &ExampleMachine{}
	hubClusters, backClusters := &v1beta1.ExampleClusterTemplate{}, &ExampleClusterTemplate{}
	hubMachines, backMachines := &v1beta1.ExampleMachineTemplate{}, &ExampleMachineTemplate{}
	for _, err := range []error{
		cluster.ConvertTo(hubCluster), backCluster.ConvertFrom(hubCluster), machine.ConvertTo(hubMachine), backMachine.ConvertFrom(hubMachine),
		clusters.ConvertTo(hubClusters), backClusters.ConvertFrom(hubClusters), machines.ConvertTo(hubMachines), backMachines.ConvertFrom(hubMachines),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if hubMachine.Spec.MachineSize != "large" || hubMachines.Spec.Template.Spec.MachineSize != "large" {
		t.Errorf("the size is %q and %q in v1beta1", hubMachine.Spec.MachineSize, hubMachines.Spec.Template.Spec.MachineSize)
	}
	for _, pair := range [][2]any{{cluster, backCluster}, {machine, backMachine}, {clusters, backClusters}, {machines, backMachines}} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("got %+v, want %+v", pair[1], pair[0])
		}
	}
}
