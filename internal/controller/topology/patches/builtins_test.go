// SPDX-License-Identifier: Apache-2.0

package patches_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
)

func TestBuiltins(t *testing.T) {
	t.Parallel()
	bare := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u"}}
	bare.Spec.Topology = clusterv1.Topology{Version: "v1.33.0", ClassRef: clusterv1.ClusterClassRef{Name: "k"}}
	full := bare.DeepCopy()
	full.Labels = map[string]string{"a": "b"}
	full.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}", "cluster.x-k8s.io/conversion-data": "{}", "note": "1",
		"runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade", "runtime.cluster.x-k8s.io/ok-to-delete": "", "topology.internal.cluster.x-k8s.io/upgrade-step": "v1.33.0"}
	full.Spec.Topology.ClassRef.Namespace = "classes"
	full.Spec.ClusterNetwork = clusterv1.ClusterNetwork{ServiceDomain: "d", Services: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.0.0.0/16"}}, Pods: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.1.0.0/16"}}}
	group := patches.Group{Name: "g", Version: "v1.32.0", Replicas: new(int32(0)), Infrastructure: "i", TopologyName: "t", Class: "k", Bootstrap: "b", Metadata: clusterv1.ObjectMeta{Labels: map[string]string{"a": "b"}}}
	workers := `{"version":"v1.32.0","metadata":{"labels":{"a":"b"}},"class":"k","name":"g","topologyName":"t","replicas":0,"bootstrap":{"configRef":{"name":"b"}},"infrastructureRef":{"name":"i"}}`
	tests := map[string]struct {
		got  hooksv1.Builtins
		want string
	}{
		"a Cluster that sets little": {patches.ClusterBuiltins(bare), `{"cluster":{"name":"c","namespace":"ns","uid":"u","metadata":{"labels":{"cluster.x-k8s.io/cluster-name":"c","topology.cluster.x-k8s.io/owned":""}},"topology":{"version":"v1.33.0","classRef":{"name":"k","namespace":"ns"},"class":"k","classNamespace":"ns"}}}`},
		"a Cluster that sets all": {patches.ClusterBuiltins(full), `{"cluster":{"name":"c","namespace":"ns","uid":"u","metadata":{"labels":{"a":"b","cluster.x-k8s.io/cluster-name":"c","topology.cluster.x-k8s.io/owned":""},"annotations":{"note":"1"}},
			"topology":{"version":"v1.33.0","classRef":{"name":"k","namespace":"classes"},"class":"k","classNamespace":"classes"},"network":{"serviceDomain":"d","services":["10.0.0.0/16"],"pods":["10.1.0.0/16"]}}}`},
		"a control plane": {patches.ControlPlaneBuiltins(group), `{"controlPlane":{"version":"v1.32.0","metadata":{"labels":{"a":"b"}},"name":"g","replicas":0,"machineTemplate":{"infrastructureRef":{"name":"i"}}}}`},
		"a control plane without machines, whose replicas are left to others": {patches.ControlPlaneBuiltins(patches.Group{Name: "g", Version: "v1"}), `{"controlPlane":{"version":"v1","name":"g"}}`},
		"a MachineDeployment": {patches.MachineDeploymentBuiltins(group), `{"machineDeployment":` + workers + `}`},
		"a MachinePool":       {patches.MachinePoolBuiltins(group), `{"machinePool":` + workers + `}`},
		"workers with little": {patches.MachineDeploymentBuiltins(patches.Group{Name: "g"}), `{"machineDeployment":{"name":"g"}}`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got, want any
			text, err := json.Marshal(tc.got)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
