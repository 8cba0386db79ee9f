// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/clusterctl/tree"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// settle is how long further changes are awaited after one: an operation on a cluster
// changes many objects within moments.
const settle = 200 * time.Millisecond

// FollowTree reads the tree of a Cluster as ReadTree does and passes it to show, and does
// so again whenever it has changed. It sends no requests while nothing changes. It ends
// without an error when ctx does, and with a *NoClusterError when the Cluster does not
// exist, or no longer exists.
func (c *Client) FollowTree(ctx context.Context, key client.ObjectKey, o tree.Options, show func(tree.Input) error) error {
	watched := references.NewWatcher(ctx, c.mgmt)
	defer watched.Stop()
	follow := func(gvk schema.GroupVersionKind, of ...client.ListOption) {
		watched.Follow(gvk, append(of, client.InNamespace(key.Namespace))...)
	}
	var last *tree.Input
	for {
		in, refs, err := c.readTree(ctx, key, o)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if last == nil || !equality.Semantic.DeepEqual(*last, in) {
			if err := show(in); err != nil {
				return err
			}
			last = &in
		}
		follow(clusterv1.GroupVersion().WithKind(clusterv1.ClusterKind), client.MatchingFields{"metadata.name": key.Name})
		for _, kind := range []string{"MachineDeployment", "MachineSet", "MachinePool", "MachineHealthCheck", "Machine"} {
			follow(clusterv1.GroupVersion().WithKind(kind), references.OfCluster(key.Name))
		}
		for _, ref := range refs {
			if gvk, err := c.references().Mapped(ref); err == nil && ref.Namespace == key.Namespace {
				follow(gvk, references.OfCluster(key.Name))
			}
		}
		select {
		case <-watched.Changed():
		case <-ctx.Done():
			return nil
		}
		if lifecycle.Sleep(ctx, settle) != nil {
			return nil
		}
		select {
		case <-watched.Changed(): // the next read includes it
		default:
		}
	}
}
