// SPDX-License-Identifier: Apache-2.0

package simulated_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/simulated"
)

// A program that is no test closes the cluster itself, and may let things go
// wrong while it runs.
func ExampleNew() {
	ctx := context.Background()
	cluster, err := simulated.New(simulated.Options{Version: "v1.35.2", Workers: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cluster.Close() }()
	client, err := kubernetes.NewForConfig(cluster.Config())
	if err != nil {
		log.Fatal(err)
	}
	if err := cluster.SetNodeFaults("worker-2", infrav1.MachineFaultNodeNotReady); err != nil {
		log.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, n := range nodes.Items {
		fmt.Println(n.Name, n.Status.NodeInfo.KubeletVersion, len(n.Spec.Taints) == 0)
	}
	// Output:
	// control-plane-1 v1.35.2 false
	// worker-1 v1.35.2 true
	// worker-2 v1.35.2 false
}

func ExampleStart() {
	// func TestMyController(t *testing.T)
	_ = func(t *testing.T) {
		cfg := simulated.Start(t, simulated.Options{Workers: 3})
		client, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Nodes().Get(t.Context(), "worker-3", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	}
}
