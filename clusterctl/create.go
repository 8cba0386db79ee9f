// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
)

// fieldOwner is whom the API server notes for the fields that users set by the commands.
const fieldOwner = "capstan"

// Create creates the objects of a generated cluster. Every object is checked
// by the API server before the first is created, so that a mistake in one of
// them leaves nothing behind; it is an error if one of them exists already.
func (c *Client) Create(ctx context.Context, doc []byte, progress func(Event)) error {
	objects, err := template.Objects(doc)
	if err != nil {
		return err
	}
	if err := c.checkNamespaces(ctx, objects); err != nil {
		return err
	}
	// Clusters go last: their controllers then find all that they refer to.
	slices.SortStableFunc(objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	if err := c.dryRun(ctx, objects); err != nil {
		return err
	}
	for i, obj := range objects {
		if err := c.create(ctx, obj); err != nil {
			return errors.Join(err, c.undo(context.WithoutCancel(ctx), objects[:i]))
		}
		progress(Event{fmt.Sprintf("Created %s %s", obj.GetKind(), client.ObjectKeyFromObject(obj))})
	}
	return nil
}

// dryRun checks all objects. If a Cluster exists already it says only that: its
// other objects do then, too.
func (c *Client) dryRun(ctx context.Context, objects []*unstructured.Unstructured) error {
	var errs []error
	for _, obj := range slices.Backward(objects) {
		err := c.create(ctx, obj.DeepCopy(), client.DryRunAll)
		if errors.As(err, new(*existsError)) && rank(obj) > 0 {
			return err
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	slices.Reverse(errs)
	return errors.Join(errs...)
}

// existsError says that the name of an object is taken.
type existsError struct {
	kind string
	key  client.ObjectKey
}

func (e *existsError) Error() string {
	return fmt.Sprintf("%s %s exists already: choose another name, or look at it with `capstan describe cluster`", e.kind, e.key)
}

func rank(obj *unstructured.Unstructured) int {
	if obj.GroupVersionKind().GroupKind() == clusterv1.GroupVersion.WithKind(clusterv1.ClusterKind).GroupKind() {
		return 1
	}
	return 0
}

func (c *Client) create(ctx context.Context, obj *unstructured.Unstructured, opts ...client.CreateOption) error {
	opts = append(opts, client.FieldOwner(fieldOwner), client.FieldValidation("Strict"))
	err := c.mgmt.Create(ctx, obj, opts...)
	switch {
	case apierrors.IsAlreadyExists(err):
		return &existsError{obj.GetKind(), client.ObjectKeyFromObject(obj)}
	case err != nil:
		return fmt.Errorf("create %s %s: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), explain(err, obj.GetKind()))
	}
	return nil
}

// undo deletes what was created before a failure.
func (c *Client) undo(ctx context.Context, created []*unstructured.Unstructured) error {
	var errs []error
	for _, obj := range slices.Backward(created) {
		if err := c.mgmt.Delete(ctx, obj); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("delete %s %s again: %w", obj.GetKind(), client.ObjectKeyFromObject(obj), err))
		}
	}
	return errors.Join(errs...)
}

func (c *Client) checkNamespaces(ctx context.Context, objects []*unstructured.Unstructured) error {
	seen := map[string]bool{"": true}
	for _, obj := range objects {
		if obj.GetKind() == "Namespace" {
			seen[obj.GetName()] = true
		}
	}
	for _, obj := range objects {
		name := obj.GetNamespace()
		if seen[name] {
			continue
		}
		seen[name] = true
		err := c.mgmt.Get(ctx, client.ObjectKey{Name: name}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s does not exist: create it first (kubectl create namespace %s)", name, name)
		}
		if err != nil {
			return fmt.Errorf("look for namespace %s: %w", name, err)
		}
	}
	return nil
}

// WaitAvailable follows a Cluster until it is Available and all its machines are
// ready. It ends with the context; the error then says what is still awaited.
func (c *Client) WaitAvailable(ctx context.Context, key client.ObjectKey, progress func(Event)) error {
	last := ""
	cluster, err := c.follow(ctx, key, func(cluster *clusterv1.Cluster) (done bool) {
		if text := state(cluster); text != last {
			last = text
			progress(Event{text})
		}
		return complete(cluster)
	})
	switch {
	case err != nil:
		return err
	case cluster == nil:
		return fmt.Errorf("Cluster %s was deleted while it came up", key)
	case !complete(cluster):
		return fmt.Errorf("Cluster %s is not all there yet, waiting for:\n%s\nit goes on by itself: look at it with `capstan describe cluster %s -n %s`", key, awaited(cluster), key.Name, key.Namespace)
	}
	return nil
}

// lookPeriod is between two looks at a Cluster that cannot be watched, as where
// the user may only read it, or whose watch has ended.
const lookPeriod = time.Second

// follow watches a Cluster until done says so, it is gone (nil is returned), or
// ctx ends (its last state is returned).
func (c *Client) follow(ctx context.Context, key client.ObjectKey, done func(*clusterv1.Cluster) bool) (*clusterv1.Cluster, error) {
	var last *clusterv1.Cluster
	for first := true; ; first = false {
		if !first && !sleep(ctx, lookPeriod) {
			return last, nil
		}
		cluster := &clusterv1.Cluster{}
		err := explain(c.mgmt.Get(ctx, key, cluster), clusterv1.ClusterKind)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil && ctx.Err() != nil && last != nil:
			return last, nil
		case err != nil:
			return nil, fmt.Errorf("get Cluster %s: %w", key, err)
		case done(cluster):
			return cluster, nil
		}
		last = cluster
		from := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: cluster.ResourceVersion}}
		w, err := c.mgmt.Watch(ctx, &clusterv1.ClusterList{}, client.InNamespace(key.Namespace), client.MatchingFields{"metadata.name": key.Name}, from)
		if err != nil {
			continue // reading goes on, or says what is wrong
		}
		last = drain(w, last, done)
		w.Stop()
		if last == nil || done(last) || ctx.Err() != nil {
			return last, nil
		}
	}
}

// sleep reports whether it was not ended by ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain reads a watch until it ends or done says so, and returns the last
// state seen; nil when the Cluster is gone.
func drain(w watch.Interface, last *clusterv1.Cluster, done func(*clusterv1.Cluster) bool) *clusterv1.Cluster {
	for e := range w.ResultChan() {
		cluster, ok := e.Object.(*clusterv1.Cluster)
		if !ok {
			return last // the watch expired: begin anew
		}
		if e.Type == watch.Deleted {
			return nil
		}
		if last = cluster; done(cluster) {
			return last
		}
	}
	return last
}

// state is one line about a Cluster that comes up.
func state(cluster *clusterv1.Cluster) string {
	var parts []string
	count := func(what string, ready, desired *int32) {
		if desired != nil && *desired > 0 {
			have := int32(0)
			if ready != nil {
				have = *ready
			}
			parts = append(parts, fmt.Sprintf("%s %d/%d", what, have, *desired))
		}
	}
	if cp := cluster.Status.ControlPlane; cp != nil {
		count("control plane machines ready", cp.ReadyReplicas, cp.DesiredReplicas)
	}
	if w := cluster.Status.Workers; w != nil {
		count("workers ready", w.ReadyReplicas, w.DesiredReplicas)
	}
	phase := cluster.Status.Phase
	if phase == "" {
		phase = string(clusterv1.ClusterPhasePending)
	}
	if conditions.IsTrue(cluster, clusterv1.AvailableCondition) {
		phase = clusterv1.AvailableCondition
	}
	if len(parts) == 0 {
		return phase
	}
	return phase + ": " + strings.Join(parts, ", ")
}

// complete reports whether a Cluster is Available with all the machines that are
// wanted.
func complete(cluster *clusterv1.Cluster) bool {
	all := func(desired, ready *int32) bool { return desired == nil || (ready != nil && *ready >= *desired) }
	cp, w := cluster.Status.ControlPlane, cluster.Status.Workers
	return conditions.IsTrue(cluster, clusterv1.AvailableCondition) &&
		(cp == nil || all(cp.DesiredReplicas, cp.ReadyReplicas)) && (w == nil || all(w.DesiredReplicas, w.ReadyReplicas))
}

// awaited is what the conditions say is missing.
func awaited(cluster *clusterv1.Cluster) string {
	if conditions.IsTrue(cluster, clusterv1.PausedCondition) {
		return "* somebody to end the pause: " + conditions.Message(cluster, clusterv1.PausedCondition)
	}
	for _, t := range []string{clusterv1.AvailableCondition, clusterv1.ClusterScalingUpCondition, clusterv1.ClusterControlPlaneMachinesReadyCondition, clusterv1.ClusterWorkerMachinesReadyCondition} {
		if m := conditions.Message(cluster, t); m != "" {
			return m
		}
	}
	return "* its controllers to look at it (do they run? see `capstan status`)"
}
