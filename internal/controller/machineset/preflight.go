// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// kubeadmTemplate is the kind whose machines are bootstrapped by kubeadm; the
// version skew that kubeadm allows concerns only those.
const kubeadmTemplate = "KubeadmConfigTemplate"

// preflight finds out why no Machine can be created now, if one might have to
// be. What cannot be found out blocks too.
func (r *Reconciler) preflight(ctx context.Context, s *state) (phase.Next, error) {
	if len(s.machines)+len(s.orphans) >= s.want() && !anyToRemediate(s.machines) {
		return phase.Continue(), nil
	}
	err := r.blockers(ctx, s)
	if err != nil {
		s.block("%v", err)
	}
	return phase.Continue(), err
}

func (r *Reconciler) blockers(ctx context.Context, s *state) error {
	switch {
	case !s.cluster.DeletionTimestamp.IsZero():
		s.block("Cluster %s is being deleted", s.cluster.Name)
		return nil
	case s.set.Annotations[clusterv1.DisableMachineCreateAnnotation] == "true":
		s.block("annotation %s is set", clusterv1.DisableMachineCreateAnnotation)
		return nil
	}
	var err error
	spec := s.set.Spec.Template.Spec
	if s.bootstrapTemplate, err = r.template(ctx, s, spec.Bootstrap.ConfigRef, claim.Bootstrap, "spec.template.spec.bootstrap.configRef"); err != nil {
		return err
	}
	if s.infraTemplate, err = r.template(ctx, s, spec.InfrastructureRef, claim.MachineInfrastructure, "spec.template.spec.infrastructureRef"); err != nil {
		return err
	}
	if !spec.Bootstrap.ConfigRef.IsDefined() && spec.Bootstrap.DataSecretName == nil {
		s.block("spec.template.spec.bootstrap has neither configRef nor dataSecretName")
	}
	facts, err := r.preflightFacts(ctx, s)
	if err != nil {
		return err
	}
	objections, err := facts.Objections()
	s.blocked = append(s.blocked, objections...)
	return err
}

func (s *state) block(format string, args ...any) {
	s.blocked = append(s.blocked, fmt.Sprintf(format, args...))
}

// template reads a template. One that is not there, or is not for this Cluster,
// blocks creation; its appearance, or a change of its owners, wakes us.
func (r *Reconciler) template(ctx context.Context, s *state, ref clusterv1.ContractVersionedObjectReference, role claim.Role, field string) (*provider.Object, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	err := r.Providers.Watch(ctx, ref, provider.Wake{Controller: name, Watcher: r.watcher, List: &clusterv1.MachineSetList{}})
	var t *provider.Object
	if err == nil {
		t, err = r.Providers.Template(ctx, s.cluster, ref, role)
	}
	switch {
	case apierrors.IsNotFound(err):
		s.block("%s %s, named by %s, does not exist: create it, or correct the reference", ref.Kind, ref.Name, field)
		return nil, nil
	case provider.Refused(err):
		s.block("%s: %v", field, err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return t, nil
}

func (r *Reconciler) preflightFacts(ctx context.Context, s *state) (scaling.Preflight, error) {
	p := scaling.Preflight{
		Topology: s.cluster.Spec.Topology.IsDefined(),
		Version:  s.set.Spec.Template.Spec.Version,
		Kubeadm:  s.set.Spec.Template.Spec.Bootstrap.ConfigRef.Kind == kubeadmTemplate,
		Skip:     scaling.SkipList(s.set.Annotations[clusterv1.MachineSetSkipPreflightChecksAnnotation]),
	}
	if s.bootstrapTemplate != nil {
		p.Skip = append(p.Skip, scaling.SkipList(s.bootstrapTemplate.GetAnnotations()[clusterv1.MachineSetSkipPreflightChecksAnnotation])...)
	}
	ref := s.cluster.Spec.ControlPlaneRef
	if !ref.IsDefined() {
		return p, nil
	}
	err := r.Providers.Watch(ctx, ref, provider.Wake{Controller: name, Watcher: r.watcher, To: r.ofControlPlane})
	var obj *provider.Object
	if err == nil {
		obj, err = r.Providers.Get(ctx, s.set.Namespace, ref)
	}
	if _, isKind := errors.AsType[*provider.KindError](err); apierrors.IsNotFound(err) || isKind {
		s.block("%s %s, the control plane of Cluster %s, does not exist: create it, or correct spec.controlPlaneRef of the Cluster", ref.Kind, ref.Name, s.cluster.Name)
		return p, nil // the Cluster controller tells more, and its news wake us
	}
	if err != nil {
		return p, err
	}
	p.ControlPlane, err = controlPlane(obj)
	return p, err
}

// controlPlane reads what the checks look at, by the contract.
func controlPlane(obj *provider.Object) (*scaling.ControlPlane, error) {
	c, err := contract.ControlPlaneFor(obj.Contract)
	if err != nil {
		return nil, err
	}
	out := &scaling.ControlPlane{Name: obj.GetKind() + " " + obj.GetName()}
	if out.Version, _, err = c.Version.Get(obj.Unstructured); err != nil {
		return nil, err
	}
	if out.Provisioning, err = c.IsProvisioning(obj.Unstructured); err != nil {
		return nil, err
	}
	out.Upgrading, err = c.IsUpgrading(obj.Unstructured)
	return out, err
}
