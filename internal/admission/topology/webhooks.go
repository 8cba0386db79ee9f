// SPDX-License-Identifier: Apache-2.0

// Package topology defaults and validates ClusterClasses and Clusters: each object
// separately, and Clusters together with their class.
//
// A class is read from the cache. If it is not found, or not ready, a new Cluster
// is admitted with a warning, since both may be in one manifest; the topology
// controller validates the Cluster again. A change outside the topology needs no
// class: a Cluster whose class was deleted can still be paused, labelled and
// deleted.
package topology

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/kit/webhook"
	"github.com/capstan-dev/capstan/internal/pure/classrefs"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// Reads has the readers of other objects.
type Reads struct {
	Cache     client.Reader // with the indexes of package kit/index
	Providers *provider.Objects
	Workload  workload.Clients
}

type admission struct {
	Reads
	classes *classes.Classes
}

// Webhooks are the webhooks of Clusters and ClusterClasses.
func Webhooks(reads Reads) []webhook.Webhook {
	a := &admission{reads, classes.New(reads.Cache)}
	class, cluster := target(clusterv1.ClusterClassKind, "clusterclasses", nil), target(clusterv1.ClusterKind, "clusters", nil)
	cluster.When = map[string]string{"spec-or-annotation-changed": webhook.SpecChanged + " || " + concurrencyChanged}
	lacking := target(clusterv1.ClusterKind, "clusters", map[string]string{
		"defaults-missing": "(" + webhook.LacksFinalizer(clusterv1.ClusterFinalizer) + ") || (object.spec.?topology.hasValue() && (oldObject == null || object.spec.?topology != oldObject.spec.?topology)) || (" + endpointLost + ")",
	})
	changed := class
	changed.When = map[string]string{"spec-changed": webhook.SpecChanged}
	return []webhook.Webhook{
		webhook.Mutate(lacking, a.defaultCluster),
		webhook.Validate(cluster, a.validateCluster),
		webhook.Validate(changed, a.validateClass),
		webhook.Guard(class, a.deleteClass),
	}
}

const concurrencyChanged = `object.metadata.?annotations[?'` + clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation + `'].orValue('')` +
	` != oldObject.metadata.?annotations[?'` + clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation + `'].orValue('')`

// endpointLost is true for an update that omits the endpoint, as kubectl replace
// does: the controller, not the user, sets the endpoint.
const endpointLost = `oldObject != null && oldObject.?spec.?controlPlaneEndpoint.?host.hasValue() && !object.?spec.?controlPlaneEndpoint.?host.hasValue()`

func target(kind, resource string, when map[string]string) webhook.Target {
	return webhook.Target{Kind: clusterv1.GroupVersion().WithKind(kind), Resource: resource, When: when}
}

// defaultCluster adds the finalizer to a Cluster, restores the stored endpoint in
// an update that omits it, and sets the variables of a topology to the defaults of
// the class. It also validates the variables against the class that the defaults
// are from: the class may change before the validating webhook is called.
func (a *admission) defaultCluster(ctx context.Context, r webhook.Review[clusterv1.Cluster]) (v webhook.Result, err error) {
	c := r.Object
	if r.Old == nil {
		controllerutil.AddFinalizer(c, clusterv1.ClusterFinalizer)
	} else if c.Spec.ControlPlaneEndpoint.IsZero() {
		c.Spec.ControlPlaneEndpoint = r.Old.Spec.ControlPlaneEndpoint
	}
	if !c.Spec.Topology.IsDefined() || !c.DeletionTimestamp.IsZero() || !changed(c, r.Old) {
		return v, nil
	}
	c.Spec.Topology.Version = fieldvalidation.NormalVersion(c.Spec.Topology.Version)
	class, err := a.classes.Get(ctx, classKey(r))
	if err != nil || class == nil || classes.Unready(class) != "" {
		return v, err // the validating webhook reports it
	}
	definitions, err := a.classes.Definitions(class)
	if err != nil {
		return v, err
	}
	at, old := field.NewPath("spec", "topology"), (*clusterv1.Topology)(nil)
	if r.Old != nil {
		old = &r.Old.Spec.Topology
	}
	if v.Errors = definitions.Default(at, &c.Spec.Topology); len(v.Errors) == 0 {
		v.Errors = definitions.Validate(at, &c.Spec.Topology, old)
	}
	return v, nil
}

// classKey returns the key of the class of a Cluster, whose metadata may not have
// the namespace yet.
func classKey(r webhook.Review[clusterv1.Cluster]) client.ObjectKey {
	key := r.Object.GetClassKey()
	key.Namespace = cmp.Or(key.Namespace, r.Namespace)
	return key
}

// validateCluster returns the errors in a Cluster, and those in its topology
// according to its class.
func (a *admission) validateCluster(ctx context.Context, r webhook.Review[clusterv1.Cluster]) (v webhook.Result, err error) {
	v.Errors = ValidateCluster(r.Object, r.Old)
	if !r.Object.Spec.Topology.IsDefined() || !r.Object.DeletionTimestamp.IsZero() || !changed(r.Object, r.Old) {
		return v, nil
	}
	at := field.NewPath("spec", "topology")
	key := classKey(r)
	class, err := a.classes.Get(ctx, key)
	switch {
	case err != nil:
		return v, err
	case class == nil && r.Old == nil:
		v.Warnings = append(v.Warnings, fmt.Sprintf("ClusterClass %s does not exist: the topology was not checked, and has to wait for it", key))
	case class == nil:
		v.Errors = append(v.Errors, field.Invalid(at.Child("classRef"), key.String(), "there is no such ClusterClass: create it, or name another"))
		return v, nil
	default:
		v.Errors = append(v.Errors, fits(at, &r.Object.Spec.Topology, class)...)
		if why := classes.Unready(class); why != "" && !rebased(r.Object, r.Old) {
			v.Warnings = append(v.Warnings, why+": the variables of the topology were not checked")
		}
	}
	if r.Old == nil || !r.Old.Spec.Topology.IsDefined() {
		return v, nil
	}
	if rebased(r.Object, r.Old) {
		err = a.rebase(ctx, r, class, &v)
	} else {
		v.Errors = append(v.Errors, stuck(at, &r.Object.Spec.Topology, &r.Old.Spec.Topology, class, class)...)
	}
	if err == nil && r.Object.Spec.Topology.Version != r.Old.Spec.Topology.Version {
		err = a.upgrade(ctx, r, class, &v)
	}
	return v, err
}

// rebase adds an error if a Cluster cannot change to another class. The current
// class need not be ready: a Cluster can leave a broken class.
func (a *admission) rebase(ctx context.Context, r webhook.Review[clusterv1.Cluster], class *clusterv1.ClusterClass, v *webhook.Result) error {
	at := field.NewPath("spec", "topology", "classRef")
	if why := classes.Unready(class); why != "" {
		v.Errors = append(v.Errors, field.Invalid(at, class.Name, why+": wait for it, or name another"))
	}
	old, err := a.classes.Get(ctx, r.Old.GetClassKey())
	if err != nil {
		return err
	}
	if old == nil {
		v.Errors = append(v.Errors, field.Invalid(at, class.Name, fmt.Sprintf("the ClusterClass of the Cluster, %s, does not exist, so it is unknown whether this one can follow it: create it again", r.Old.GetClassKey())))
		return nil
	}
	if differences := classrefs.Compatible(class, old); len(differences) > 0 {
		v.Errors = append(v.Errors, field.Invalid(at, class.Name, fmt.Sprintf("cannot follow ClusterClass %s: %s", old.Name, strings.Join(differences, "; "))))
	}
	v.Errors = append(v.Errors, stuck(field.NewPath("spec", "topology"), &r.Object.Spec.Topology, &r.Old.Spec.Topology, class, old)...)
	return nil
}

// upgrade adds an error if the version cannot change, or only a warning if an
// annotation of the Cluster skips the check.
func (a *admission) upgrade(ctx context.Context, r webhook.Review[clusterv1.Cluster], class *clusterv1.ClusterClass, v *webhook.Result) error {
	u, err := a.observeUpgrade(ctx, r.Object, r.Old, class)
	if err != nil {
		return err
	}
	if len(u.unseen) > 0 { // the upgrading controller checks again
		v.Warnings = append(v.Warnings, fmt.Sprintf("the workload cluster is not connected: whether MachinePools [%s] still complete a previous upgrade was not checked", list(u.unseen)))
	}
	errs := u.check(field.NewPath("spec", "topology", "version"))
	if _, skip := r.Object.Annotations[clusterv1.ClusterTopologyUnsafeUpdateVersionAnnotation]; !skip {
		v.Errors = append(v.Errors, errs...)
		return nil
	}
	for _, e := range errs {
		v.Warnings = append(v.Warnings, e.Error())
	}
	return nil
}

// validateClass returns the errors in a ClusterClass, and one for each part that
// its Clusters use and the class lacks.
func (a *admission) validateClass(ctx context.Context, r webhook.Review[clusterv1.ClusterClass]) (v webhook.Result, err error) {
	if !r.Object.DeletionTimestamp.IsZero() {
		return v, nil
	}
	v.Errors = ValidateClass(r.Object, r.Old)
	if r.Old == nil {
		return v, nil
	}
	clusters, err := a.clustersOf(ctx, r.Old)
	v.Errors = append(v.Errors, used(r.Object, r.Old, clusters)...)
	return v, err
}

// deleteClass refuses to delete a class while Clusters use it.
func (a *admission) deleteClass(ctx context.Context, r webhook.Review[clusterv1.ClusterClass]) (v webhook.Result, err error) {
	clusters, err := a.clustersOf(ctx, r.Old)
	if err == nil && len(clusters) > 0 {
		v.Forbidden = inUse(clusters)
	}
	return v, err
}
