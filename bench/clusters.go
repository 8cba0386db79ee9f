// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/bench/planes"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
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
			names <- clusterName(i)
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
		case <-b.plane.Gone:
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

// clusterName is the name of one of the clusters, counted from 0.
func clusterName(i int) string { return fmt.Sprintf("bench-%04d", i) }

func (b *bench) createOne(ctx context.Context, lib *clusterctl.Client, name string) error {
	if b.scenario.Class {
		return b.mgmt.Create(ctx, b.scenario.classBased(name))
	}
	var from []byte // the usual one
	switch {
	case b.scenario.Pool:
		from = template.LocalMachinePool()
	case b.scenario.Containers:
		from = template.Container()
	}
	doc, err := clusterctl.Generate(clusterctl.GenerateOptions{
		Name: name, Namespace: namespace, KubernetesVersion: b.scenario.KubernetesVersion, Template: from,
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

// complete reports whether all machines of a cluster exist too: a cluster is
// Available as soon as it can be used.
func complete(c *clusterv1.Cluster) bool {
	cp, w := c.Status.ControlPlane, c.Status.Workers
	return cp != nil && equal(cp.DesiredReplicas, cp.AvailableReplicas) && (w == nil || equal(w.DesiredReplicas, w.AvailableReplicas))
}

func equal(want, have *int32) bool {
	return want == nil || (have != nil && *have == *want)
}

// delete deletes all clusters and waits until they no longer exist; the garbage
// collection after that is counted too.
func (b *bench) delete(ctx context.Context, r *Result) error {
	var list clusterv1.ClusterList
	if err := b.mgmt.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("list Clusters: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	gone := make(chan string, len(list.Items))
	if err := b.watchGone(ctx, list.ResourceVersion, gone, cancel); err != nil {
		return err
	}
	before, err := b.snap(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := b.deleteAll(ctx, list.Items, gone, cancel); err != nil {
		return err
	}
	r.Deletion.Seconds = round(time.Since(begin).Seconds())
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	q, n := after.requests.Since(before.requests), float64(b.scenario.Clusters)
	r.Deletion.CPUSeconds = round(after.cpu - before.cpu)
	r.Deletion.Requests, r.Deletion.RequestsPerCluster = q.Sum(planes.Counted), round(q.Sum(planes.Counted)/n)
	r.Deletion.Conflicts = q.Sum(planes.IsConflict)
	r.Deletion.ByVerbAndResource = q.Counts(planes.Counted)
	return nil
}

// deleteAll requests the deletion of all clusters and waits for it.
func (b *bench) deleteAll(ctx context.Context, clusters []clusterv1.Cluster, gone <-chan string, fail context.CancelCauseFunc) error {
	asked := make(chan *clusterv1.Cluster, len(clusters))
	for i := range clusters {
		asked <- &clusters[i]
	}
	close(asked)
	var asking sync.WaitGroup
	for range creators {
		asking.Go(func() {
			for c := range asked {
				if err := b.mgmt.Delete(ctx, c); client.IgnoreNotFound(err) != nil {
					fail(fmt.Errorf("delete Cluster %s: %w", c.Name, err))
				}
			}
		})
	}
	defer asking.Wait()
	for left := len(clusters); left > 0; left-- {
		select {
		case <-gone:
		case <-b.plane.Gone:
			return fmt.Errorf("%d Clusters are still there: the plane has ended", left)
		case <-ctx.Done():
			return fmt.Errorf("%d Clusters are still there: %w", left, context.Cause(ctx))
		}
	}
	return nil
}

// watchGone sends the name of each cluster that ends after a resourceVersion.
func (b *bench) watchGone(ctx context.Context, since string, gone chan<- string, fail context.CancelCauseFunc) error {
	w, err := b.mgmt.Watch(ctx, &clusterv1.ClusterList{}, client.InNamespace(namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}})
	if err != nil {
		return fmt.Errorf("watch Clusters: %w", err)
	}
	go func() {
		defer w.Stop()
		for e := range w.ResultChan() {
			switch e.Type {
			case watch.Error:
				fail(apierrors.FromObject(e.Object))
				return
			case watch.Deleted:
				gone <- e.Object.(*clusterv1.Cluster).Name
			}
		}
		fail(errors.New("watch Clusters: the plane has ended the watch"))
	}()
	return nil
}
