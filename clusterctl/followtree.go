// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/tree"
)

// settle is how long more changes are awaited after one: what happens to a cluster
// changes many objects within moments.
const settle = 200 * time.Millisecond

// FollowTree reads the tree of a Cluster as ReadTree does and hands it to show, and
// does so again whenever it has changed. Nothing is read while nothing changes. It
// ends without an error when ctx does, and with a *NoClusterError when there is no
// such Cluster, or no more.
func (c *Client) FollowTree(ctx context.Context, key client.ObjectKey, o tree.Options, show func(tree.Input) error) error {
	ctx, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	changed := make(chan struct{}, 1)
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // it is known already
		}
	}
	watched := map[schema.GroupVersionKind]bool{}
	follow := func(gvk schema.GroupVersionKind, of ...client.ListOption) {
		if !watched[gvk] {
			watched[gvk] = true
			watching.Go(func() { c.signal(ctx, gvk, append(of, client.InNamespace(key.Namespace)), tell) })
		}
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
			follow(clusterv1.GroupVersion().WithKind(kind), ofCluster(key.Name))
		}
		for _, ref := range refs {
			if gvk, err := c.mapped(ref); err == nil && ref.namespace == key.Namespace {
				follow(gvk, ofCluster(key.Name))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
		if !sleep(ctx, settle) {
			return nil
		}
		select {
		case <-changed: // the reading that follows sees it
		default:
		}
	}
}

// signal tells that objects of a kind have changed, or may have: a watch that
// begins or ends has missed what was before or comes after it.
func (c *Client) signal(ctx context.Context, gvk schema.GroupVersionKind, of []client.ListOption, tell func()) {
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if w, err := c.mgmt.Watch(ctx, list, of...); err == nil {
			pass(ctx, w, tell)
		}
		if !sleep(ctx, lookPeriod) {
			return
		}
		tell()
	}
}

// pass tells of each event of a watch until that ends.
func pass(ctx context.Context, w watch.Interface, tell func()) {
	defer w.Stop()
	for {
		select {
		case _, ok := <-w.ResultChan():
			if !ok {
				return
			}
			tell()
		case <-ctx.Done():
			return
		}
	}
}
