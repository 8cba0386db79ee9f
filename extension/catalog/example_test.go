// SPDX-License-Identifier: Apache-2.0

package catalog_test

import (
	"fmt"

	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/extension/catalog"
)

// A function represents a hook; the catalog has everything else.
func ExampleCatalog_Lookup() {
	d, err := catalog.Default().Lookup(hooksv1.BeforeClusterCreate)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(d)
	fmt.Println(d.Path("quota.example"))
	fmt.Println("can hold up the Cluster:", d.Blocking)
	// Output:
	// hooks.runtime.cluster.x-k8s.io/v1alpha1/BeforeClusterCreate
	// /hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/quota.example
	// can hold up the Cluster: true
}

// Text from a user names a hook, too.
func ExampleCatalog_Named() {
	d, err := catalog.Default().Named("generatepatches")
	fmt.Println(d, err)
	// Output: hooks.runtime.cluster.x-k8s.io/v1alpha1/GeneratePatches <nil>
}
