// SPDX-License-Identifier: Apache-2.0

package clusterctl_test

import (
	"fmt"

	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
)

// The built-in template needs no more than a name and a version. Create hands
// what Generate returns to a management cluster.
func ExampleGenerate() {
	doc, err := clusterctl.Generate(clusterctl.GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3", WorkerMachines: new(int32(3))})
	if err != nil {
		fmt.Println(err)
		return
	}
	objects, err := template.Objects(doc)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range objects {
		fmt.Println(o.GetKind(), o.GetName())
	}
	// Output:
	// Cluster demo
	// LocalCluster demo
	// KubeadmControlPlane demo-control-plane
	// LocalMachineTemplate demo-control-plane
	// MachineDeployment demo-workers
	// LocalMachineTemplate demo-workers
	// KubeadmConfigTemplate demo-workers
}

// A custom template defines its own variables.
func ExampleVariables() {
	variables, err := clusterctl.Variables(clusterctl.GenerateOptions{Template: []byte("name: ${CLUSTER_NAME}\nsize: ${SIZE:=small}\n")})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*variables["SIZE"], variables["CLUSTER_NAME"] == nil)
	// Output: small true
}
