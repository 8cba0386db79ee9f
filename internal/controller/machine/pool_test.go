// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// pooled changes a Machine to one of a pool.
func pooled(m *clusterv1.Machine) {
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachinePoolNameLabel: "p"}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: "p", UID: "p", Controller: new(true)}}
	m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("")}
}

func TestAMachineOfAPoolFollowsItsKubelet(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kubelet, wantVersion, wantUpToDate string
	}{
		"as the pool asks":         {"v1.36.0", "v1.36.0", "True UpToDate"},
		"with what a vendor added": {"v1.36.0-eks-1", "v1.36.0-eks-1", "True UpToDate"},
		"newer":                    {"v1.37.1", "v1.37.1", "True UpToDate"},
		"older":                    {"v1.35.9", "v1.35.9", "False NotUpToDate: * Kubelet version v1.35.9, v1.36.0 required"},
		"nonsense":                 {"latest", "v1.36.0", "True UpToDate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
			p.Spec.Template.Spec.Version = "v1.36.0"
			w := newWorld(t, cluster(), p, machine(running, pooled), host("x://m0", map[string]any{"initialization": map[string]any{"provisioned": true}}), node(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = tc.kubelet }))
			m := w.settle()
			if m.Spec.Version != tc.wantVersion || cond(m, clusterv1.MachineUpToDateCondition) != tc.wantUpToDate {
				t.Errorf("version %s, UpToDate %s, want %s, %s", m.Spec.Version, cond(m, clusterv1.MachineUpToDateCondition), tc.wantVersion, tc.wantUpToDate)
			}
			if got := cond(m, clusterv1.MachineBootstrapConfigReadyCondition); got != "True DataSecretProvided" {
				t.Errorf("BootstrapConfigReady %s", got)
			}
		})
	}
}
