// SPDX-License-Identifier: Apache-2.0

package tree_test

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/clusterctl/tree"
)

// Client.ReadTree reads the input from a management cluster; here it is built by
// hand.
func ExampleBuild() {
	machine := func(name, ownerKind, owner string) tree.Machine {
		return tree.Machine{Object: tree.Object{Kind: "Machine", Name: name, Owners: []metav1.OwnerReference{{Kind: ownerKind, Name: owner}}}}
	}
	root := tree.Build(tree.Input{
		Cluster:            tree.Object{Kind: "Cluster", Name: "demo"},
		ControlPlane:       &tree.Object{Kind: "KubeadmControlPlane", Name: "demo-cp"},
		MachineDeployments: []tree.Object{{Kind: "MachineDeployment", Name: "workers"}},
		MachineSets:        []tree.Object{{Kind: "MachineSet", Name: "workers-1", Owners: []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "workers"}}}},
		Machines: []tree.Machine{
			machine("demo-cp-1", "KubeadmControlPlane", "demo-cp"),
			machine("workers-1-a", "MachineSet", "workers-1"),
			machine("workers-1-b", "MachineSet", "workers-1"),
		},
	}, tree.Options{Grouping: true})

	var show func(n *tree.Node, depth int)
	show = func(n *tree.Node, depth int) {
		fmt.Println(strings.Repeat("  ", depth) + n.Title)
		for _, c := range n.Children {
			show(c, depth+1)
		}
	}
	show(root, 0)
	// Output:
	// Cluster/demo
	//   KubeadmControlPlane/demo-cp
	//     Machine/demo-cp-1
	//   Workers
	//     MachineDeployment/workers
	//       2 Machines...
}
