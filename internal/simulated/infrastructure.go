// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
)

// providerIDScheme is the start of the provider ID of simulated machines.
const providerIDScheme = "simulated://"

var _ localinfra.Backend = (*Backend)(nil)

// CheckEndpoint implements localinfra.Backend. Only the addresses that clusters get
// anyway can be chosen: all others may belong to another program.
func (b *Backend) CheckEndpoint(at clusterv1.APIEndpoint) error {
	_, err := addressOf(at)
	return err
}

// EnsureCluster implements localinfra.Backend.
func (b *Backend) EnsureCluster(_ context.Context, want localinfra.Cluster) (clusterv1.APIEndpoint, error) {
	return b.ensureCluster(clusterOf(want))
}

// ResumeCluster implements localinfra.Backend.
func (b *Backend) ResumeCluster(_ context.Context, want localinfra.Cluster) error {
	return b.resumeCluster(clusterOf(want))
}

// ReleaseCluster implements localinfra.Backend.
func (b *Backend) ReleaseCluster(_ context.Context, which localinfra.Cluster) error {
	return b.releaseCluster(clusterOf(which))
}

// DeleteCluster implements localinfra.Backend.
func (b *Backend) DeleteCluster(_ context.Context, which localinfra.Cluster) error {
	return b.deleteCluster(clusterOf(which))
}

// ClusterChanges implements localinfra.Backend.
func (b *Backend) ClusterChanges(ctx context.Context) <-chan types.NamespacedName {
	return b.free.Subscribe(ctx)
}

func clusterOf(want localinfra.Cluster) clusterSpec {
	c := clusterSpec{
		Namespace: want.Namespace, Name: want.Name, UID: types.UID(want.ID), Object: want.Object, Owner: want.UID, Made: want.Made,
		Endpoint: want.Spec.ControlPlaneEndpoint,
	}
	if s := want.Spec.Simulated; s != nil {
		c.Faults = s.Faults
	}
	return c
}

// EnsureMachine implements localinfra.Backend.
func (b *Backend) EnsureMachine(_ context.Context, want localinfra.Machine) (localinfra.MachineStatus, error) {
	s, err := b.ensureMachine(b.machineOf(want))
	if err != nil {
		return localinfra.MachineStatus{}, err
	}
	return s.told(), nil
}

// DeleteMachine implements localinfra.Backend.
func (b *Backend) DeleteMachine(_ context.Context, which localinfra.Machine) error {
	return b.deleteMachine(b.machineOf(which))
}

func (b *Backend) machineOf(want localinfra.Machine) machineSpec {
	m := machineSpec{
		Namespace: want.Namespace, Name: want.Name, UID: types.UID(want.ID), Cluster: want.Cluster, ClusterUID: types.UID(want.ClusterID),
		ProviderID:    cmp.Or(want.Spec.ProviderID, b.ProviderID(want.NamespacedName, want.Cluster)),
		FailureDomain: want.FailureDomain, Version: want.Version,
		Provisioned: want.Provisioned, BootstrapData: want.BootstrapData, BootstrapFormat: want.BootstrapFormat,
	}
	if s := want.Spec.Simulated; s != nil {
		m.VM, m.Node, m.Etcd, m.APIServer, m.Faults = s.VM, s.Node, s.Etcd, s.APIServer, s.Faults
	}
	return m
}

// MachineChanges implements localinfra.Backend. Each caller receives all names; a machine
// that changes again before its name was read is sent once.
func (b *Backend) MachineChanges(ctx context.Context) <-chan types.NamespacedName {
	return b.machines.Subscribe(ctx)
}

// ProviderID implements localinfra.Backend.
func (b *Backend) ProviderID(machine types.NamespacedName, cluster string) string {
	return providerIDScheme + strings.Join([]string{machine.Namespace, cluster, machine.Name}, "/")
}

// Offer implements localinfra.Backend. Simulated machines are all alike.
func (b *Backend) Offer(infrav1.LocalMachineSpec) localinfra.Offer {
	return localinfra.Offer{
		Capacity: bootstrap.Capacity(),
		NodeInfo: infrav1.NodeInfo{Architecture: bootstrap.Architecture, OperatingSystem: bootstrap.OperatingSystem},
	}
}

// doing describes what a machine waits for.
var doing = map[Stage]string{
	Booting:           "the machine to boot",
	Bootstrapping:     "kubeadm to read its configuration and to find the cluster",
	StartingEtcd:      "the machine's etcd to become a healthy member",
	StartingAPIServer: "the machine's API server to answer",
	RegisteringNode:   "the kubelet to register the Node",
}

// told converts the status to the one that backends report.
func (s MachineStatus) told() localinfra.MachineStatus {
	out := localinfra.MachineStatus{Stage: localinfra.Bootstrapping, Message: doing[s.Stage], Addresses: s.Addresses, ProviderID: s.ProviderID}
	switch s.Stage {
	case Failed:
		out.Stage, out.Message = localinfra.Failed, s.Message
		return out
	case Running:
		out.Stage, out.Message = localinfra.Done, fmt.Sprintf("machine is Node %s", s.NodeName)
		return out
	case Booting:
		out.Stage = localinfra.Booting
	}
	if s.Message != "" {
		out.Message += ": " + s.Message
	}
	return out
}
