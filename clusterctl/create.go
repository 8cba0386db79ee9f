// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/references"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/pause"
)

// fieldOwner is the field manager of the fields that users set through the commands.
const fieldOwner = "capstan"

// Create creates the objects of a generated cluster. The API server checks every object
// before the first is created, so that a mistake in one of them leaves nothing behind.
// Only a Namespace in the document is created before: nothing can be checked in one that
// does not exist.
//
// An existing object that has all requested fields is not changed, so that an interrupted
// creation is resumed by running it again. One that differs, or is being deleted, is an
// error.
func (c *Client) Create(ctx context.Context, doc []byte, progress func(Event)) error {
	objects, err := template.Objects(doc)
	if err != nil {
		return err
	}
	all := arrange(objects)
	begin := slices.IndexFunc(all, func(p *part) bool { return p.rank != namespaces })
	there := map[*part]*clusterv1.Cluster{}
	for i, p := range all {
		if i == begin {
			err = c.check(ctx, all[i:])
		}
		created := false
		if err == nil && p.rank == clusters {
			c.awaitClass(ctx, p.Unstructured)
		}
		if err == nil {
			created, err = c.createPart(ctx, p, there)
		}
		switch {
		case err != nil && i > 0:
			return fmt.Errorf("%w\nmade so far: %d of %d objects; run the same command to continue, and `capstan delete cluster` removes what is the cluster's", err, i, len(all))
		case err != nil:
			return err
		case created:
			progress(Event{fmt.Sprintf("Created %s %s", p.GetKind(), client.ObjectKeyFromObject(p))})
		default:
			progress(Event{fmt.Sprintf("%s %s is there already", p.GetKind(), client.ObjectKeyFromObject(p))})
		}
	}
	return nil
}

// rehearsal marks the context of a dry run.
type rehearsal struct{}

// Rehearsal reports whether a request of a Client is only a check, and is sent again if
// all checks pass. Its warnings are repeated then, unless their cause is resolved
// meanwhile, for example by the creation of a class before its Cluster.
func Rehearsal(ctx context.Context) bool { return ctx.Value(rehearsal{}) != nil }

// check has the API server check objects.
func (c *Client) check(ctx context.Context, all []*part) error {
	ctx = context.WithValue(ctx, rehearsal{}, true)
	var errs []error
	for _, p := range all {
		_, _, err := c.create(ctx, p.Unstructured, p.Unstructured, client.DryRunAll)
		if none, ok := errors.AsType[*noNamespaceError](err); ok {
			return none // with a Namespace the others may be right
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// createPart creates an object with its owner. there are the Clusters that have been
// created; a new one is added to them.
func (c *Client) createPart(ctx context.Context, p *part, there map[*part]*clusterv1.Cluster) (created bool, err error) {
	owned := p.owned(there)
	live, created, err := c.create(ctx, p.Unstructured, owned)
	if apierrors.IsForbidden(err) && owned != p.Unstructured {
		// Setting an owner may need more permissions than creation (the admission plugin
		// OwnerReferencesPermissionEnforcement): the controllers have them.
		live, created, err = c.create(ctx, p.Unstructured, p.Unstructured)
	}
	if err == nil && p.rank == clusters {
		there[p] = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: live.GetNamespace(), Name: live.GetName(), UID: live.GetUID()}}
	}
	return created, err
}

// noNamespaceError means that a Namespace is not found.
type noNamespaceError struct{ name string }

func (e *noNamespaceError) Error() string {
	return fmt.Sprintf("namespace %[1]s does not exist: create it first (kubectl create namespace %[1]s)", e.name)
}

// create creates the desired object, in the form of as, or verifies that the existing
// object is the same. It returns the stored object.
func (c *Client) create(ctx context.Context, want, as *unstructured.Unstructured, opts ...client.CreateOption) (live *unstructured.Unstructured, created bool, err error) {
	live = as.DeepCopy()
	opts = append(opts, client.FieldOwner(fieldOwner), client.FieldValidation("Strict"))
	err = c.mgmt.Create(ctx, live, opts...)
	refused, _ := errors.AsType[*apierrors.StatusError](err)
	switch {
	case apierrors.IsAlreadyExists(err):
		// Controllers write objects repeatedly while a cluster is created, also between
		// the read and the comparison. A webhook can answer with a conflict each time.
		for range 100 {
			if live, err = c.checkSame(ctx, want); !apierrors.IsConflict(err) {
				break
			}
		}
		return live, false, err
	case apierrors.IsNotFound(err) && refused.ErrStatus.Details != nil && refused.ErrStatus.Details.Kind == "namespaces":
		return nil, false, &noNamespaceError{want.GetNamespace()}
	case err != nil:
		return nil, false, fmt.Errorf("create %s %s: %w", want.GetKind(), client.ObjectKeyFromObject(want), references.Explain(err, want.GetKind()))
	}
	return live, true, nil
}

// checkSame returns the live object, or an error unless it has everything that want
// specifies. The API server computes what want would change, so that defaults, and fields
// that controllers set, do not count as differences. It returns a conflict when the
// object is written meanwhile.
func (c *Client) checkSame(ctx context.Context, want *unstructured.Unstructured) (live *unstructured.Unstructured, err error) {
	what := fmt.Sprintf("%s %s", want.GetKind(), client.ObjectKeyFromObject(want))
	live = &unstructured.Unstructured{}
	live.SetGroupVersionKind(want.GroupVersionKind())
	if err := c.mgmt.Get(ctx, client.ObjectKeyFromObject(want), live); err != nil {
		return nil, fmt.Errorf("get %s, which exists already: %w", what, err)
	}
	if live.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("%s is being deleted: wait until it is gone, or choose another name", what)
	}
	asked := want.DeepCopy()
	asked.SetResourceVersion(live.GetResourceVersion())
	patch, err := json.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", what, err)
	}
	merged := live.DeepCopy()
	err = c.mgmt.Patch(ctx, merged, client.RawPatch(types.MergePatchType, patch), client.DryRunAll, client.FieldOwner(fieldOwner), client.FieldValidation("Strict"))
	switch {
	case apierrors.IsInvalid(err): // it would change an immutable field, which the error names
		return nil, fmt.Errorf("%s exists already and is not the same: %w: %s", what, err, takenAdvice(want.GetKind()))
	case err != nil:
		return nil, fmt.Errorf("compare %s, which exists already: %w", what, err)
	}
	if field := difference(live, merged); field != "" {
		return nil, fmt.Errorf("%s exists already with another %s: %s", what, field, takenAdvice(want.GetKind()))
	}
	return live, nil
}

// takenAdvice is what a user can do about an object that is there and differs. Only a
// Cluster has the name that the user chose; a class or its templates can have one name
// for all clusters of a namespace.
func takenAdvice(kind string) string {
	if kind == "Cluster" {
		return "choose another name, or inspect it with `capstan describe cluster`"
	}
	return "choose another name for the cluster, or if its clusters share the object, another namespace with -n; to change it for all of them, apply the output of `capstan generate cluster` with kubectl"
}

// WaitAvailable follows a Cluster until it is Available and all its machines are ready.
// It ends with the context; the error then names what is still awaited.
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
		return fmt.Errorf("Cluster %s is not all there yet, waiting for:\n%s\nit continues automatically: inspect it with `capstan describe cluster %s -n %s%s`", key, awaited(cluster), key.Name, key.Namespace, c.Flags)
	}
	return nil
}

// lookPeriod is the interval between two reads of a Cluster that cannot be watched, for
// example because the user may only read it, or whose watch has ended.
const lookPeriod = time.Second

// follow watches a Cluster until done returns true, it no longer exists (nil is
// returned), or ctx ends (its last state is returned).
func (c *Client) follow(ctx context.Context, key client.ObjectKey, done func(*clusterv1.Cluster) bool) (*clusterv1.Cluster, error) {
	var last *clusterv1.Cluster
	for first := true; ; first = false {
		if !first && lifecycle.Sleep(ctx, lookPeriod) != nil {
			return last, nil
		}
		cluster := &clusterv1.Cluster{}
		err := references.Explain(c.mgmt.Get(ctx, key, cluster), clusterv1.ClusterKind)
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
			continue // the next read succeeds, or returns the cause
		}
		last = drain(w, last, done)
		w.Stop()
		if last == nil || done(last) || ctx.Err() != nil {
			return last, nil
		}
	}
}

// drain reads a watch until it ends or done returns true, and returns the last observed
// state; nil when the Cluster no longer exists.
func drain(w watch.Interface, last *clusterv1.Cluster, done func(*clusterv1.Cluster) bool) *clusterv1.Cluster {
	for e := range w.ResultChan() {
		cluster, ok := e.Object.(*clusterv1.Cluster)
		if !ok {
			return last // the watch expired: start again
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

// state is one line about a Cluster that is being provisioned.
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

// complete reports whether a Cluster is Available with the desired number of machines.
func complete(cluster *clusterv1.Cluster) bool {
	all := func(desired, ready *int32) bool { return desired == nil || (ready != nil && *ready >= *desired) }
	cp, w := cluster.Status.ControlPlane, cluster.Status.Workers
	return conditions.IsTrue(cluster, clusterv1.AvailableCondition) &&
		(cp == nil || all(cp.DesiredReplicas, cp.ReadyReplicas)) && (w == nil || all(w.DesiredReplicas, w.ReadyReplicas))
}

// awaited is what is missing according to the conditions, and to the Cluster itself: its
// controllers may report a pause later than a user asks.
func awaited(cluster *clusterv1.Cluster) string {
	if paused := pause.Condition(cluster, cluster); paused.Status == metav1.ConditionTrue {
		return "* the end of the pause: " + paused.Message
	}
	for _, t := range []string{clusterv1.AvailableCondition, clusterv1.ClusterScalingUpCondition, clusterv1.ClusterControlPlaneMachinesReadyCondition, clusterv1.ClusterWorkerMachinesReadyCondition} {
		if m := conditions.Message(cluster, t); m != "" {
			return m
		}
	}
	return "* its controllers to reconcile it (do they run? see `capstan status`)"
}
