// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/conditions"
)

const (
	namespace = metav1.NamespaceDefault
	// creators is how many clusters are being written at the same moment.
	creators = 32
)

// createAll creates the clusters and returns how long each took to become
// Available.
func (b *bench) createAll(ctx context.Context) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	lib, err := clusterctl.New(b.config)
	if err != nil {
		return nil, err
	}
	available := make(chan string, b.scenario.Clusters)
	if err := b.watchAvailable(ctx, available, cancel); err != nil {
		return nil, err
	}
	var (
		mu     sync.Mutex // guards began
		began  = map[string]time.Time{}
		slots  = make(chan struct{}, inFlight(b.scenario))
		names  = make(chan string)
		making sync.WaitGroup
	)
	for range creators {
		making.Go(func() {
			for name := range names {
				mu.Lock()
				began[name] = time.Now()
				mu.Unlock()
				if err := b.createOne(ctx, lib, name); err != nil {
					cancel(err)
				}
			}
		})
	}
	go func() {
		defer close(names)
		for i := range b.scenario.Clusters {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			names <- fmt.Sprintf("bench-%04d", i)
		}
	}()
	var took []time.Duration
	for len(took) < b.scenario.Clusters {
		select {
		case name := <-available:
			mu.Lock()
			took = append(took, time.Since(began[name]))
			mu.Unlock()
			<-slots
		case <-b.plane.gone:
			return nil, fmt.Errorf("%d of %d clusters are Available: the plane has ended", len(took), b.scenario.Clusters)
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d clusters are Available: %w", len(took), b.scenario.Clusters, context.Cause(ctx))
		}
	}
	making.Wait()
	return took, nil
}

func inFlight(s *Scenario) int {
	if s.InFlight == 0 {
		return s.Clusters
	}
	return min(s.InFlight, s.Clusters)
}

func (b *bench) createOne(ctx context.Context, lib *clusterctl.Client, name string) error {
	doc, err := clusterctl.Generate(clusterctl.GenerateOptions{
		Name: name, Namespace: namespace, KubernetesVersion: b.scenario.KubernetesVersion,
		ControlPlaneMachines: &b.scenario.ControlPlane, WorkerMachines: &b.scenario.Workers,
	})
	if err != nil {
		return err
	}
	return lib.Create(ctx, doc, func(clusterctl.Event) {})
}

// watchAvailable sends the name of each cluster once, when it is Available.
func (b *bench) watchAvailable(ctx context.Context, available chan<- string, fail context.CancelCauseFunc) error {
	w, err := b.mgmt.Watch(ctx, &clusterv1.ClusterList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watch Clusters: %w", err)
	}
	go func() {
		defer w.Stop()
		seen := map[string]bool{}
		for e := range w.ResultChan() {
			if e.Type == watch.Error {
				fail(apierrors.FromObject(e.Object))
				return
			}
			c, ok := e.Object.(*clusterv1.Cluster)
			if ok && !seen[c.Name] && conditions.IsTrue(c, clusterv1.AvailableCondition) && complete(c) {
				seen[c.Name] = true
				available <- c.Name
			}
		}
	}()
	return nil
}

// complete reports whether all machines of a cluster are there too: a cluster
// is Available as soon as it can be used.
func complete(c *clusterv1.Cluster) bool {
	cp, w := c.Status.ControlPlane, c.Status.Workers
	return cp != nil && equal(cp.DesiredReplicas, cp.AvailableReplicas) && (w == nil || equal(w.DesiredReplicas, w.AvailableReplicas))
}

func equal(want, have *int32) bool {
	return want == nil || (have != nil && *have == *want)
}

// delete takes all clusters away and waits until they are gone.
func (b *bench) delete(ctx context.Context, r *Result) error {
	begin := time.Now()
	var list clusterv1.ClusterList
	if err := b.mgmt.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list Clusters: %w", err)
	}
	for i := range list.Items {
		if err := b.mgmt.Delete(ctx, &list.Items[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Cluster %s: %w", list.Items[i].Name, err)
		}
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		left := metav1.PartialObjectMetadataList{}
		left.SetGroupVersionKind(clusterv1.GroupVersion().WithKind("ClusterList"))
		if err := b.mgmt.List(ctx, &left, client.InNamespace(namespace)); err != nil {
			return fmt.Errorf("list Clusters: %w", err)
		}
		if len(left.Items) == 0 {
			r.DeleteSeconds = round(time.Since(begin).Seconds())
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d Clusters are still there: %w", len(left.Items), ctx.Err())
		}
	}
}
