// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/topology/blueprint"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

// group is an existing group of workers.
type group struct {
	desired.Group
	version string
	pool    *clusterv1.MachinePool // nil of a MachineDeployment
	refs    [2]clusterv1.ContractVersionedObjectReference
}

// readCurrent reads the current state. If the control plane cannot be read, the
// next steps cannot be determined; other parts are skipped one at a time.
func (r *Reconciler) readCurrent(ctx context.Context, s *state) (reconciler.Next, error) {
	spec, done := &s.cluster.Spec, &s.cluster.Status.Initialization
	s.current.Infrastructure, s.lost = r.referred(ctx, s, "spec.infrastructureRef", spec.InfrastructureRef, s.blueprint.Infrastructure, done.InfrastructureProvisioned)
	template := s.blueprint.ControlPlane.Template.GroupVersionKind()
	// It is read and written in the version that the class names.
	kind, err := r.Providers.KindAs(ctx, provider.CopyKind(template.GroupKind()).WithVersion(template.Version))
	if err != nil {
		return reconciler.Continue(), err
	}
	s.contract = kind.Contract
	s.current.ControlPlane, err = r.referred(ctx, s, "spec.controlPlaneRef", spec.ControlPlaneRef, s.blueprint.ControlPlane.Template, done.ControlPlaneInitialized)
	if err != nil {
		return reconciler.Continue(), err
	}
	if s.current.Hosts, err = r.hosts(ctx, s); err != nil {
		return reconciler.Continue(), err
	}
	return reconciler.Continue(), r.readGroups(ctx, s)
}

// referred reads an object to which the Cluster refers: nil if it must still be
// created.
func (r *Reconciler) referred(ctx context.Context, s *state, field string, ref clusterv1.ContractVersionedObjectReference, template clusterv1.ClusterClassTemplateReference, made *bool) (*unstructured.Unstructured, error) {
	obj, err := r.read(ctx, s, field+" of Cluster", ref, template)
	if !apierrors.IsNotFound(err) {
		return obj, err
	}
	if !ptr.Deref(made, false) {
		return nil, nil
	}
	return nil, reconcile.TerminalError(fmt.Errorf("%s: %s %s/%s has been deleted while the Cluster still exists: delete the Cluster, or restore the object from a backup", field, ref.Kind, s.cluster.Namespace, ref.Name))
}

// hosts reads the template from which the control plane creates its machines.
func (r *Reconciler) hosts(ctx context.Context, s *state) (*unstructured.Unstructured, error) {
	if s.current.ControlPlane == nil || !s.blueprint.ControlPlane.Hosts.IsDefined() {
		return nil, nil
	}
	of, err := contract.ControlPlaneFor(s.contract)
	if err != nil {
		return nil, err
	}
	ref, _, err := of.MachineTemplate.InfrastructureRef.Get(s.current.ControlPlane)
	if err != nil {
		return nil, err
	}
	return r.template(ctx, s, s.current.ControlPlane, of.MachineTemplate.InfrastructureRef.String(), ref, s.blueprint.ControlPlane.Hosts)
}

// template reads a template to which another object refers. A deleted template is
// created again.
func (r *Reconciler) template(ctx context.Context, s *state, of client.Object, field string, ref clusterv1.ContractVersionedObjectReference, class clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
	obj, err := r.read(ctx, s, fmt.Sprintf("%s of %s %s", field, of.GetObjectKind().GroupVersionKind().Kind, of.GetName()), ref, class)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return obj, err
}

// read reads an object of the topology, nil if the reference is not set: in the
// version in which the class names templates of its kind, or else in the version
// that its CRD defines for the contract. where names the referring object.
func (r *Reconciler) read(ctx context.Context, s *state, where string, ref clusterv1.ContractVersionedObjectReference, class clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	as, err := r.as(ctx, ref.GroupKind(), class)
	if err == nil {
		err = r.watch(ctx, as, s)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	obj, err := r.Providers.GetAs(ctx, as, client.ObjectKey{Namespace: s.cluster.Namespace, Name: ref.Name})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	s.recordRead(obj)
	if !s.owns(obj) {
		return nil, reconcile.TerminalError(fmt.Errorf("%s %s/%s referenced from %s is not topology owned: give it label %s, and %s %s, or refer to one that has them", ref.Kind, s.cluster.Namespace, ref.Name, where, clusterv1.ClusterTopologyOwnedLabel, clusterv1.ClusterNameLabel, s.cluster.Name))
	}
	if !obj.GetDeletionTimestamp().IsZero() {
		s.leaving(obj.Unstructured)
	}
	return obj.Unstructured, nil
}

// as returns the version in which a kind is read.
func (r *Reconciler) as(ctx context.Context, kind schema.GroupKind, class clusterv1.ClusterClassTemplateReference) (schema.GroupVersionKind, error) {
	named := class.GroupVersionKind()
	if kind == named.GroupKind() || kind == provider.CopyKind(named.GroupKind()) {
		return kind.WithVersion(named.Version), nil
	}
	k, err := r.Providers.Kind(ctx, kind)
	return k.GroupVersionKind, err
}

// owns reports whether an object belongs to the topology.
func (s *state) owns(obj metav1.Object) bool {
	_, owned := obj.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]
	name := obj.GetLabels()[clusterv1.ClusterNameLabel]
	return owned && (name == "" || name == s.cluster.Name)
}

// leaving records an object that is being deleted.
func (s *state) leaving(obj client.Object) {
	s.current.Deleting = append(s.current.Deleting, obj.GetObjectKind().GroupVersionKind().Kind+"/"+obj.GetName())
}

// readGroups reads the groups of workers. An error in one of them stops no other.
func (r *Reconciler) readGroups(ctx context.Context, s *state) error {
	s.groups, s.current.Deployments, s.current.Pools = map[upgrade.GroupKey]*group{}, map[string]*desired.Group{}, map[string]*desired.Group{}
	var deployments clusterv1.MachineDeploymentList
	var pools clusterv1.MachinePoolList
	if err := errors.Join(r.ofCluster(ctx, s, &deployments), r.ofCluster(ctx, s, &pools)); err != nil {
		return err
	}
	for i := range deployments.Items {
		md := &deployments.Items[i]
		spec := &md.Spec.Template.Spec
		g := &group{version: spec.Version, refs: [2]clusterv1.ContractVersionedObjectReference{spec.Bootstrap.ConfigRef, spec.InfrastructureRef}}
		r.readGroup(ctx, s, upgrade.MachineDeployment, md, g)
	}
	for i := range pools.Items {
		mp := &pools.Items[i]
		spec := &mp.Spec.Template.Spec
		g := &group{version: spec.Version, pool: mp, refs: [2]clusterv1.ContractVersionedObjectReference{spec.Bootstrap.ConfigRef, spec.InfrastructureRef}}
		r.readGroup(ctx, s, upgrade.MachinePool, mp, g)
	}
	return nil
}

func (r *Reconciler) readGroup(ctx context.Context, s *state, kind string, obj client.Object, g *group) {
	if err := r.addGroup(ctx, s, kind, obj, g); err != nil {
		s.problems = append(s.problems, err)
	}
}

// addGroup adds a group to the current state, with the objects to which it refers
// if it will stay.
func (r *Reconciler) addGroup(ctx context.Context, s *state, kind string, obj client.Object, g *group) (err error) {
	label, groups := clusterv1.ClusterTopologyMachineDeploymentNameLabel, s.current.Deployments
	if kind == upgrade.MachinePool {
		label, groups = clusterv1.ClusterTopologyMachinePoolNameLabel, s.current.Pools
	}
	if g.Object, err = untyped(obj, kind); err != nil {
		return err
	}
	s.recordRead(obj)
	s.refers(obj, g.refs[:]...)
	if !obj.GetDeletionTimestamp().IsZero() {
		s.leaving(g.Object)
		return nil
	}
	name, ok := obj.GetLabels()[label]
	if !ok {
		return fmt.Errorf("failed to find label %s in %s %s/%s: give it the name that it has in the topology, or delete it", label, kind, obj.GetNamespace(), obj.GetName())
	}
	key := upgrade.GroupKey{Kind: kind, Name: name}
	of := s.workers(key)
	if s.groups[key] != nil {
		err := fmt.Errorf("duplicate %s %s/%s found for label %s: %s: delete one of them", kind, obj.GetNamespace(), obj.GetName(), label, name)
		if of != nil {
			of.Problem = err
			return nil
		}
		return err
	}
	s.groups[key], groups[name] = g, &g.Group
	if of == nil || of.Problem != nil {
		return nil
	}
	for i, of := range []struct {
		field string
		to    **unstructured.Unstructured
		class clusterv1.ClusterClassTemplateReference
	}{
		{"spec.template.spec.bootstrap.configRef", &g.Bootstrap, of.Bootstrap},
		{"spec.template.spec.infrastructureRef", &g.Hosts, of.Hosts},
	} {
		if *of.to, err = r.template(ctx, s, g.Object, of.field, g.refs[i], of.class); err != nil {
			s.workers(key).Problem = err
			return nil
		}
	}
	return nil
}

// workers returns the desired state of a group; nil if it is not in the topology.
func (s *state) workers(key upgrade.GroupKey) *blueprint.Workers {
	if key.Kind == upgrade.MachineDeployment {
		for i := range s.blueprint.MachineDeployments {
			if w := &s.blueprint.MachineDeployments[i].Workers; w.Name == key.Name {
				return w
			}
		}
		return nil
	}
	for i := range s.blueprint.MachinePools {
		if w := &s.blueprint.MachinePools[i].Workers; w.Name == key.Name {
			return w
		}
	}
	return nil
}

// untyped converts an object of core for the comparison with the desired state.
func untyped(obj client.Object, kind string) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("convert %s %s: %w", kind, client.ObjectKeyFromObject(obj), err)
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(clusterv1.GroupVersion().WithKind(kind))
	return u, nil
}
