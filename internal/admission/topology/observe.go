// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// clustersOf lists the Clusters of a class.
func (a *admission) clustersOf(ctx context.Context, class *clusterv1.ClusterClass) ([]clusterv1.Cluster, error) {
	var clusters clusterv1.ClusterList
	key := client.ObjectKeyFromObject(class).String()
	if err := a.Cache.List(ctx, &clusters, client.MatchingFields{index.ClusterClass: key}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Clusters of ClusterClass %s: %w", key, err)
	}
	return clusters.Items, nil
}

// observeUpgrade learns what an upgrade of a Cluster depends on.
func (a *admission) observeUpgrade(ctx context.Context, c, old *clusterv1.Cluster, class *clusterv1.ClusterClass) (u upgrade, err error) {
	u = upgrade{from: old.Spec.Topology.Version, to: c.Spec.Topology.Version}
	u.planned = class != nil && (len(class.Spec.KubernetesVersions) > 0 || class.Spec.Upgrade.External.GenerateUpgradePlanExtension != "")
	u.blocked = slices.Contains(inplace.Names(old.Annotations[runtimev1.PendingHooksAnnotation]), "AfterClusterUpgrade")
	if !old.Spec.ControlPlaneRef.IsDefined() {
		return u, nil
	}
	controlPlane, err := a.Providers.Get(ctx, c.Namespace, old.Spec.ControlPlaneRef)
	if apierrors.IsNotFound(err) {
		return u, nil
	}
	if err != nil {
		return u, fmt.Errorf("read spec.controlPlaneRef: %w", err)
	}
	of, err := contract.ControlPlaneFor(controlPlane.Contract)
	if err != nil {
		return u, err
	}
	u.made = true
	if u.wanted, _, err = of.Version.Get(controlPlane.Unstructured); err != nil {
		return u, err
	}
	if u.provisioning, err = of.IsProvisioning(controlPlane.Unstructured); err != nil {
		return u, err
	}
	if u.upgrading, err = of.IsUpgrading(controlPlane.Unstructured); err != nil {
		return u, err
	}
	return u, a.observeWorkers(ctx, old, &u)
}

// observeWorkers finds the workers of a topology that are not all at the version
// before.
func (a *admission) observeWorkers(ctx context.Context, old *clusterv1.Cluster, u *upgrade) error {
	of := []client.ListOption{client.InNamespace(old.Namespace), client.MatchingFields{index.ClusterName: old.Name}, client.UnsafeDisableDeepCopy}
	var machines clusterv1.MachineList
	var deployments clusterv1.MachineDeploymentList
	var pools clusterv1.MachinePoolList
	for _, found := range []client.ObjectList{&machines, &deployments, &pools} {
		if err := a.Cache.List(ctx, found, of...); err != nil {
			return fmt.Errorf("list workers of Cluster %s: %w", client.ObjectKeyFromObject(old), err)
		}
	}
	byDeployment := map[string][]*clusterv1.Machine{}
	for i := range machines.Items {
		m := &machines.Items[i]
		name := m.Labels[clusterv1.MachineDeploymentNameLabel]
		byDeployment[name] = append(byDeployment[name], m)
	}
	for i := range deployments.Items {
		md := &deployments.Items[i]
		if _, ok := md.Labels[clusterv1.ClusterTopologyOwnedLabel]; !ok {
			continue
		}
		upgrading, err := workload.DeploymentUpgrading(byDeployment[md.Name], u.from)
		if err != nil || upgrading || md.Spec.Template.Spec.Version != u.from {
			u.deployments = append(u.deployments, md.Name)
		}
	}
	for i := range pools.Items {
		mp := &pools.Items[i]
		if _, ok := mp.Labels[clusterv1.ClusterTopologyOwnedLabel]; !ok {
			continue
		}
		upgrading, err := workload.PoolUpgrading(ctx, a.Workload, mp, u.from)
		switch {
		case upgrading || mp.Spec.Template.Spec.Version != u.from:
			u.pools = append(u.pools, mp.Name)
		case errors.Is(err, workload.ErrNotConnected):
			u.unseen = append(u.unseen, mp.Name)
		case err != nil:
			return err
		}
	}
	return nil
}
