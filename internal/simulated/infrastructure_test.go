// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
)

func TestTheControllersAskInTheirOwnTerms(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cluster := localinfra.Cluster{NamespacedName: l.cluster.Key(), ID: localinfra.ID(l.cluster.UID), Spec: infrav1.LocalClusterSpec{
		Simulated: &infrav1.LocalClusterSimulated{Faults: []infrav1.ClusterFault{infrav1.ClusterFaultAPIServerRefuses}},
	}}
	got, err := l.b.EnsureCluster(t.Context(), cluster)
	if err != nil || got != l.endpoint {
		t.Fatalf("got %v, %v, want %v", got, err, l.endpoint)
	}
	m := localinfra.Machine{
		ID: "uid-cp-1", Cluster: "prod", BootstrapData: l.initData(),
		Spec: infrav1.LocalMachineSpec{Simulated: &infrav1.LocalMachineSimulated{Faults: []infrav1.MachineFault{infrav1.MachineFaultNeverBoots}}},
	}
	m.Namespace, m.Name = "ns", "cp-1"
	ensure := func() localinfra.MachineStatus {
		t.Helper()
		s, err := l.b.EnsureMachine(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if s := ensure(); s.Up() || s.Message != "the machine to boot" {
		t.Errorf("got %+v, want it to boot for ever", s)
	}
	m.Spec.Simulated = &infrav1.LocalMachineSimulated{}
	if s := ensure(); s.Stage != localinfra.Bootstrapping {
		t.Errorf("got %+v, want it to wait while its cluster refuses connections", s)
	}
	cluster.Spec.Simulated = &infrav1.LocalClusterSimulated{}
	if _, err := l.b.EnsureCluster(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	want := localinfra.MachineStatus{
		Stage: localinfra.Done, Message: "machine is Node cp-1", ProviderID: "simulated://ns/prod/cp-1",
		Addresses: clusterv1.MachineAddresses{{Type: clusterv1.MachineHostName, Address: "cp-1"}, {Type: clusterv1.MachineInternalIP, Address: machineAddress(0)}},
	}
	if diff := cmp.Diff(want, ensure()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if o := l.b.Offer(m.Spec); o.Capacity.Cpu().Value() != 4 || o.Capacity.Pods().Value() != 110 || o.NodeInfo.OperatingSystem != "linux" {
		t.Errorf("offers %+v", o)
	}
	if err := l.b.DeleteMachine(t.Context(), m); err != nil {
		t.Error(err)
	}
	if err := l.b.DeleteCluster(t.Context(), cluster); err != nil {
		t.Error(err)
	}
	m.Provisioned = true
	if _, err := l.b.EnsureMachine(t.Context(), m); err == nil {
		t.Error("a machine runs whose cluster was deleted")
	}
}

func TestMachineReport(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status MachineStatus
		want   localinfra.MachineStatus
	}{
		"it boots":                 {MachineStatus{Stage: Booting}, localinfra.MachineStatus{Stage: localinfra.Booting, Message: "the machine to boot"}},
		"it looks for a cluster":   {MachineStatus{Stage: Bootstrapping, Message: "no route"}, localinfra.MachineStatus{Stage: localinfra.Bootstrapping, Message: "kubeadm to read its configuration and to find the cluster: no route"}},
		"its etcd starts":          {MachineStatus{Stage: StartingEtcd}, localinfra.MachineStatus{Stage: localinfra.Bootstrapping, Message: "the machine's etcd to become a healthy member"}},
		"its API server starts":    {MachineStatus{Stage: StartingAPIServer}, localinfra.MachineStatus{Stage: localinfra.Bootstrapping, Message: "the machine's API server to answer"}},
		"its kubelet starts":       {MachineStatus{Stage: RegisteringNode}, localinfra.MachineStatus{Stage: localinfra.Bootstrapping, Message: "the kubelet to register the Node"}},
		"its kubeadm has failed":   {MachineStatus{Stage: Failed, Message: "token has expired"}, localinfra.MachineStatus{Stage: localinfra.Failed, Message: "token has expired"}},
		"its kubeadm has finished": {MachineStatus{Stage: Running, NodeName: "n"}, localinfra.MachineStatus{Stage: localinfra.Done, Message: "machine is Node n"}},
	} {
		if diff := cmp.Diff(tc.want, tc.status.told()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
