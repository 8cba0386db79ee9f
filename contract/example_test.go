// SPDX-License-Identifier: Apache-2.0

package contract_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/contract"
)

// The labels of a provider's CRD name the contract that its API versions implement; the
// contract then defines the paths of the fields.
func Example() {
	version, apiVersion, err := contract.Choose(map[string]string{
		"cluster.x-k8s.io/v1beta1": "v1",
		"cluster.x-k8s.io/v1beta2": "v2_v3",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("read", apiVersion, "by contract", version)

	host := &unstructured.Unstructured{Object: map[string]any{
		"status": map[string]any{"initialization": map[string]any{"provisioned": true}},
	}}
	machine, err := contract.InfraMachineFor(version)
	if err != nil {
		fmt.Println(err)
		return
	}
	provisioned, found, err := machine.Provisioned.Get(host)
	fmt.Println(machine.Provisioned, provisioned, found, err)
	// Output:
	// read v3 by contract v1beta2
	// status.initialization.provisioned true true <nil>
}

// A provider's CRD must have this name; otherwise its labels are not found.
func ExampleCRDName() {
	fmt.Println(contract.CRDName("infrastructure.example.com", "HostCluster"))
	// Output: hostclusters.infrastructure.example.com
}

// A field that is missing is no error; one of a wrong type is.
func ExampleField_Get() {
	ready := contract.At[bool]("status.ready")
	for _, status := range []map[string]any{{"ready": true}, {}, {"ready": "yes"}} {
		value, found, err := ready.Get(&unstructured.Unstructured{Object: map[string]any{"status": status}})
		fmt.Println(value, found, err != nil)
	}
	// Output:
	// true true false
	// false false false
	// false false true
}
