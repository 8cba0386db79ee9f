// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
)

// Losses are what the deletion of a Cluster deletes, and what it leaves, for people.
type Losses struct{ Lost, Stays []string }

// Losses returns what DeleteCluster would delete, or DeleteRemains if the Cluster does
// not exist: the error is a NoClusterError then.
func (c *Client) Losses(ctx context.Context, key client.ObjectKey) (Losses, error) {
	cluster := &clusterv1.Cluster{}
	err := references.Explain(c.mgmt.Get(ctx, key, cluster), clusterv1.ClusterKind)
	gone := apierrors.IsNotFound(err)
	if err != nil && !gone {
		return Losses{}, fmt.Errorf("get Cluster %s: %w", key, err)
	}
	var machines clusterv1.MachineList
	if err := c.list(ctx, key, &machines); err != nil {
		return Losses{}, err
	}
	objects, err := c.labelled(ctx, key)
	if err != nil {
		return Losses{}, err
	}
	var secrets corev1.SecretList
	// A user without permission to list Secrets does not see them.
	if err := c.list(ctx, key, &secrets); err != nil && !apierrors.IsForbidden(err) {
		return Losses{}, err
	}
	var l Losses
	for _, m := range machines.Items {
		node := "no Node yet"
		if m.Status.NodeRef.Name != "" {
			node = "Node " + m.Status.NodeRef.Name
		}
		if !gone || len(m.OwnerReferences) == 0 {
			l.Lost = append(l.Lost, fmt.Sprintf("Machine %s with %s, its host and its disks", m.Name, node))
		}
	}
	l.sort(objects, gone)
	for _, s := range secrets.Items {
		if len(s.OwnerReferences) == 0 {
			l.Stays = append(l.Stays, "Secret "+s.Name+", which nothing owns")
		}
	}
	if gone {
		return l, &NoClusterError{Key: key, flags: c.Flags}
	}
	if class := cluster.Spec.Topology.ClassRef.Name; class != "" {
		l.Stays = append(l.Stays, "ClusterClass "+class+" with its templates")
	}
	return l, nil
}

// sort adds the other objects of a cluster by kind: objects with an owner are deleted
// with the Cluster, and those without one are left, or deleted if the Cluster does not
// exist.
func (l *Losses) sort(objects []metav1.PartialObjectMetadata, gone bool) {
	lost := map[string][]string{}
	for _, obj := range objects {
		owned := len(obj.OwnerReferences) > 0
		switch {
		case obj.Kind == "Machine" || gone && owned:
		case owned || gone || obj.Kind == clusterv1.ClusterKind:
			lost[obj.Kind] = append(lost[obj.Kind], obj.Name)
		default:
			l.Stays = append(l.Stays, fmt.Sprintf("%s %s, which nothing owns", obj.Kind, obj.Name))
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(lost)) {
		slices.Sort(lost[kind])
		l.Lost = append(l.Lost, kind+" "+strings.Join(lost[kind], ", "))
	}
}
