// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Clients provide clients of workload clusters. Those of package access/workload
// do, with a cache.
type Clients interface {
	Client(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
}

// DeploymentUpgrading reports whether one of the Machines of a MachineDeployment
// has another desired version, or its kubelet reports another. A Machine whose
// kubelet has not reported yet will run its desired version.
func DeploymentUpgrading(machines []*clusterv1.Machine, version string) (bool, error) {
	for _, m := range machines {
		if m.Spec.Version == "" {
			return false, fmt.Errorf("Machine %s has no spec.version: set the one that it runs", client.ObjectKeyFromObject(m)) // a kind's name
		}
		if info := m.Status.NodeInfo; m.Spec.Version != version || info != nil && info.KubeletVersion != version {
			return true, nil
		}
	}
	return false, nil
}

// PoolUpgrading reports whether the kubelet of one of the Nodes of a MachinePool
// reports another version. A Node that is not found is being replaced. While the
// cluster is not connected the error is workload.ErrNotConnected.
func PoolUpgrading(ctx context.Context, clusters Clients, pool *clusterv1.MachinePool, version string) (bool, error) {
	if len(pool.Status.NodeRefs) == 0 {
		return false, nil
	}
	remote, err := clusters.Client(ctx, client.ObjectKey{Namespace: pool.Namespace, Name: pool.Spec.ClusterName})
	if err != nil {
		return false, fmt.Errorf("read Nodes of MachinePool %s: %w", client.ObjectKeyFromObject(pool), err)
	}
	for _, ref := range pool.Status.NodeRefs {
		node := &corev1.Node{}
		err := remote.Get(ctx, client.ObjectKey{Name: ref.Name}, node)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read Node %s of MachinePool %s: %w", ref.Name, client.ObjectKeyFromObject(pool), err)
		}
		if apierrors.IsNotFound(err) || node.Status.NodeInfo.KubeletVersion != version {
			return true, nil
		}
	}
	return false, nil
}
