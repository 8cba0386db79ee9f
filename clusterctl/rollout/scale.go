// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

// ScaleOptions define the desired number of machines.
type ScaleOptions struct {
	Replicas int32
	// Current is the expected present number of replicas; nil does not check it.
	Current *int32
	// DryRun checks whether it is possible, and changes nothing.
	DryRun bool
}

// Scale sets the number of machines, and returns what it changed: for an object that a
// topology creates, the topology, which would revert any other change.
func (c *Client) Scale(ctx context.Context, o Object, opts ScaleOptions) (string, error) {
	obj, err := c.get(ctx, o)
	if err != nil {
		return "", err
	}
	_, inTopology := obj.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]
	was := int64(0)
	// Invalid values, such as a control plane with an even number of etcd members, are
	// refused by the admission of the object also when its topology changes.
	err = c.change(ctx, o.GroupVersionKind(), o.ObjectKey, opts.DryRun || inTopology, func(now *unstructured.Unstructured) error {
		was, _ = number(now, "spec", "replicas")
		if opts.Current != nil && int64(*opts.Current) != was {
			return fmt.Errorf("%s is asked for %d machines, not for %d: nothing was changed", o, was, *opts.Current)
		}
		if owner := metav1.GetControllerOf(now); o.Kind == "MachineSet" && owner != nil {
			return fmt.Errorf("%s belongs to %s %s, which says how many machines it has: scale that one", o, owner.Kind, owner.Name)
		}
		return set(now, int64(opts.Replicas), "spec", "replicas")
	})
	changed := fmt.Sprintf("%s is scaled from %d to %d", o, was, opts.Replicas)
	if err != nil || !inTopology {
		return changed, err
	}
	cluster, at := Object{clusterv1.ClusterKind, client.ObjectKey{Namespace: o.Namespace, Name: obj.GetLabels()[clusterv1.ClusterNameLabel]}}, ""
	err = c.change(ctx, cluster.GroupVersionKind(), cluster.ObjectKey, opts.DryRun, func(cluster *unstructured.Unstructured) (err error) {
		at, err = setReplicas(cluster, obj, int64(opts.Replicas))
		return err
	})
	return fmt.Sprintf("%s: %s of %s is its source, and is changed", changed, at, cluster), err
}

// setReplicas changes the topology of a Cluster where it describes obj, and returns the
// path.
func setReplicas(cluster, obj *unstructured.Unstructured, replicas int64) (string, error) {
	for list, label := range map[string]string{"machineDeployments": clusterv1.ClusterTopologyMachineDeploymentNameLabel, "machinePools": clusterv1.ClusterTopologyMachinePoolNameLabel} {
		called, ok := obj.GetLabels()[label]
		if !ok {
			continue
		}
		workers, _, err := unstructured.NestedSlice(cluster.Object, "spec", "topology", "workers", list)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name(cluster), err)
		}
		for i, w := range workers {
			if w, ok := w.(map[string]any); ok && w["name"] == called {
				w["replicas"] = replicas
				return fmt.Sprintf("spec.topology.workers.%s[%d].replicas", list, i), set(cluster, workers, "spec", "topology", "workers", list)
			}
		}
		return "", fmt.Errorf("%s has no %q in spec.topology.workers.%s: %s is about to be deleted", name(cluster), called, list, name(obj))
	}
	return "spec.topology.controlPlane.replicas", set(cluster, replicas, "spec", "topology", "controlPlane", "replicas")
}

// WaitScaled returns when an object has the number of machines that it was scaled to. A
// topology may take a moment to pass the number to it.
func (c *Client) WaitScaled(ctx context.Context, o Object, replicas int32, progress func(string)) error {
	return c.wait(ctx, progress, func(watched *references.Watcher) (string, error) {
		follow(watched, o.GroupVersionKind(), o.ObjectKey)
		obj, err := c.get(ctx, o)
		if err != nil {
			return "", err
		}
		if asked, _ := number(obj, "spec", "replicas"); asked != int64(replicas) {
			return "the topology to ask for " + fmt.Sprint(replicas) + " machines", nil
		}
		if missing := awaited(obj); missing == "" || !paused(obj) {
			return missing, nil
		}
		return "", fmt.Errorf("%s: %w", o, errPaused)
	})
}
