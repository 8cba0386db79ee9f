// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// DeleteCluster asks for the deletion of a Cluster; its controllers delete
// workers, control plane and infrastructure in that order. WaitDeleted follows it.
func (c *Client) DeleteCluster(ctx context.Context, key client.ObjectKey) error {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := explain(c.mgmt.Delete(ctx, cluster), clusterv1.ClusterKind)
	if apierrors.IsNotFound(err) {
		return c.noCluster(key)
	}
	if err != nil {
		return fmt.Errorf("delete Cluster %s: %w", key, err)
	}
	return nil
}

// WaitDeleted follows a Cluster until it is gone. It ends with the context; the
// error then says what is still awaited.
func (c *Client) WaitDeleted(ctx context.Context, key client.ObjectKey, progress func(Event)) error {
	last := ""
	cluster, err := c.follow(ctx, key, func(cluster *clusterv1.Cluster) bool {
		if text := conditions.Message(cluster, clusterv1.DeletingCondition); text != last && text != "" {
			last = text
			progress(Event{text})
		}
		return false
	})
	if err != nil || cluster == nil {
		return err
	}
	if last == "" || conditions.IsTrue(cluster, clusterv1.PausedCondition) {
		last = awaited(cluster)
	}
	return fmt.Errorf("Cluster %s is still being deleted, waiting for:\n%s", key, last)
}

func (c *Client) noCluster(key client.ObjectKey) error {
	return fmt.Errorf("there is no Cluster %s in namespace %s: `kubectl get clusters --all-namespaces` lists those there are", key.Name, key.Namespace)
}
