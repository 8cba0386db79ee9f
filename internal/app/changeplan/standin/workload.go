// SPDX-License-Identifier: Apache-2.0

// Package standin represents everything outside a management cluster that the
// controllers of a copy would reach: workload clusters with their etcd, infrastructure,
// and runtime extensions. It opens no connection.
package standin

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/sim"
)

// recovers is how long after an eviction another Pod of its owner is ready, so that
// the disruption budget allows the next one.
const recovers = 30 * time.Second

// workloads are the workload clusters of a copy, by the key of their Cluster. They
// implement workload.Clusters.
type workloads struct {
	clock *sim.Clock
	reads *sim.Reads
	of    map[client.ObjectKey]*cluster
}

var _ workload.Clusters = &workloads{}

// cluster is a workload cluster.
type cluster struct {
	api     client.WithWatch
	memory  sim.Memory
	clock   *sim.Clock
	since   time.Time
	servers map[string]bool // names of Nodes with a running API server
	members []etcd.Member
	leader  uint64
	lastID  uint64
	used    map[client.ObjectKey][]time.Time // evictions that count against a PodDisruptionBudget
	reads   *sim.Reads
	changes int // of servers, members and leader so far
}

func newWorkloads(c *sim.Clock, reads *sim.Reads) *workloads {
	return &workloads{clock: c, reads: reads, of: map[client.ObjectKey]*cluster{}}
}

// get returns a workload cluster, which is empty at first.
func (w *workloads) get(key client.ObjectKey) *cluster {
	if c := w.of[key]; c != nil {
		c.noteRead()
		return c
	}
	c := &cluster{clock: w.clock, since: w.clock.Now(), servers: map[string]bool{}, lastID: 1 << 32, used: map[client.ObjectKey][]time.Time{}, reads: w.reads}
	node, pod := corev1.SchemeGroupVersion.WithKind("Node"), corev1.SchemeGroupVersion.WithKind("Pod")
	c.memory = sim.NewMemory(scheme.Scheme, w.clock, w.reads, nil,
		sim.Index{Kind: node, Field: workload.NodeByProviderID, Of: func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }},
		sim.Index{Kind: pod, Field: "spec.nodeName", Of: func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }},
	)
	c.api = interceptor.NewClient(accepting{c.memory}, interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			if _, is := obj.(*unstructured.Unstructured); is {
				return nil // of a ClusterResourceSet
			}
			return api.Create(ctx, obj, opts...)
		},
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			return nil
		},
		SubResourceCreate: func(ctx context.Context, _ client.Client, name string, obj, _ client.Object, _ ...client.SubResourceCreateOption) error {
			if name != "eviction" {
				return fmt.Errorf("create %s of %s: not supported in a plan", name, obj.GetName())
			}
			return c.evict(ctx, client.ObjectKeyFromObject(obj))
		},
		Delete: func(ctx context.Context, api client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := api.Delete(ctx, obj, opts...); err != nil {
				return err
			}
			if _, is := obj.(*corev1.Node); is {
				return c.deletePods(ctx, obj.GetName())
			}
			return nil
		},
	})
	w.of[key] = c
	c.noteRead()
	return c
}

// accepting has any kind, so that what ClusterResourceSets apply is taken. It is not
// stored: nothing in a copy reads it.
type accepting struct{ client.WithWatch }

// RESTMapper implements client.Client.
func (a accepting) RESTMapper() meta.RESTMapper { return anyKind{a.WithWatch.RESTMapper()} }

type anyKind struct{ meta.RESTMapper }

// RESTMapping implements meta.RESTMapper.
func (anyKind) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return &meta.RESTMapping{GroupVersionKind: gk.WithVersion(versions[0]), Scope: meta.RESTScopeNamespace}, nil
}

// noteRead adds the state of the control plane to what is read.
func (c *cluster) noteRead() {
	was := c.changes
	c.reads.Note(func() bool { return c.changes == was })
}

// deletePods deletes the Pods of a Node, as the garbage collector of Pods does.
func (c *cluster) deletePods(ctx context.Context, node string) error {
	var pods corev1.PodList
	err := c.memory.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node})
	for i := range pods.Items {
		err = errors.Join(err, c.memory.Delete(ctx, &pods.Items[i]))
	}
	return err
}

// evict deletes a Pod if its budgets allow it. Its owner has another one ready a
// little later, on another Node.
func (c *cluster) evict(ctx context.Context, key client.ObjectKey) error {
	pod := &corev1.Pod{}
	if err := c.memory.Get(ctx, key, pod); err != nil {
		return err
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := c.memory.List(ctx, &budgets, client.InNamespace(pod.Namespace)); err != nil {
		return err
	}
	var counts []client.ObjectKey
	for _, b := range budgets.Items {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		name, pending := client.ObjectKeyFromObject(&b), 0
		for _, at := range c.used[name] {
			if c.clock.Now().Before(at.Add(recovers)) {
				pending++
			}
		}
		if int(b.Status.DisruptionsAllowed) <= pending {
			refused := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			refused.ErrStatus.Details.Causes = []metav1.StatusCause{{
				Type:    policyv1.DisruptionBudgetCause,
				Message: fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy),
			}}
			return refused
		}
		counts = append(counts, name)
	}
	for _, name := range counts {
		c.used[name] = append(c.used[name], c.clock.Now())
		c.clock.Await(recovers)
	}
	return c.memory.Delete(ctx, pod)
}

// failure is why the API server does not answer, or nil.
func (c *cluster) failure() error {
	if len(c.servers) == 0 {
		return errors.New("no control plane machine is up")
	}
	up := 0
	for _, m := range c.members {
		if c.servers[m.Name] {
			up++
		}
	}
	if len(c.members) > 0 && up*2 <= len(c.members) {
		return errors.New("etcd has no quorum")
	}
	return nil
}

// Client implements workload.Clusters.
func (w *workloads) Client(_ context.Context, key client.ObjectKey) (client.Client, error) {
	c := w.get(key)
	if err := c.failure(); err != nil {
		return nil, fmt.Errorf("%w: %w", workload.ErrNotConnected, err)
	}
	return c.api, nil
}

// Config implements workload.Clusters. It only names the cluster: nothing of a copy
// dials it.
func (w *workloads) Config(key client.ObjectKey) (*rest.Config, error) {
	return &rest.Config{Host: "https://" + key.Name + ".invalid", Dial: refuseDial}, nil
}

// Health implements workload.Clusters.
func (w *workloads) Health(key client.ObjectKey) workload.Health {
	c, now := w.get(key), w.clock.Now()
	if err := c.failure(); err != nil {
		return workload.Health{Since: c.since, Err: err, Failures: workload.Persistent}
	}
	return workload.Health{Since: c.since, Connected: true, LastProbeSuccess: now, Answering: c.since}
}

// Source implements workload.Clusters. It triggers nothing: every round reconciles
// everything.
func (*workloads) Source(client.Object, workload.ToRequests) source.Source { return nil }

// AwaitKinds implements workload.Clusters.
func (*workloads) AwaitKinds(client.ObjectKey) {}
