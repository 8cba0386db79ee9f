// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/machines"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

var configKind = bootstrapv1.GroupVersion().WithKind("KubeadmConfig").GroupKind()

// scaleUp creates a machine: its bootstrap config, its infrastructure machine and
// its Machine, all with the same name.
func (r *Reconciler) scaleUp(ctx context.Context, s *state, a controlplane.Create) error {
	random := strings.TrimPrefix(r.Name(""), "-")
	name, err := controlplane.Name(s.ControlPlane, s.Cluster.Name, random)
	if err != nil {
		s.notCreated = v1beta1conditions.Failure{Reason: controlplanev1.MachineGenerationFailedV1Beta1Reason, Message: err.Error()}
		return err
	}
	m, err := r.factory().Make(ctx, order(s, name, a))
	if err != nil {
		if e, is := errors.AsType[*machines.NotMadeError](err); is {
			s.notCreated = v1beta1conditions.Failure{Reason: notMade[e.Part], Message: e.Lasting()}
		}
		r.event(s, nil, corev1.EventTypeWarning, "FailedScaleUp", "Create", fmt.Sprintf("%s: %v", a, err))
		return err
	}
	s.Machines = append(s.Machines, &controlplane.Machine{Machine: m, Comparison: controlplane.Comparison{UpToDate: true}})
	delete(s.ControlPlane.Annotations, controlplanev1.RemediationInProgressAnnotation) // the machine now has the annotation
	ctrl.LoggerFrom(ctx).Info("Created Machine", "Machine", name, "reason", a.Why)
	r.event(s, m, corev1.EventTypeNormal, "SuccessfulCreate", "Create", a.String())
	return nil
}

// notMade has the reasons in v1beta1 for a part of a machine that could not be
// created.
var notMade = map[machines.Part]string{
	machines.Bootstrap:      controlplanev1.BootstrapTemplateCloningFailedV1Beta1Reason,
	machines.Infrastructure: controlplanev1.InfrastructureTemplateCloningFailedV1Beta1Reason,
	machines.Itself:         controlplanev1.MachineGenerationFailedV1Beta1Reason,
}

// order returns the machine that an action requests.
func order(s *state, name string, a controlplane.Create) machines.Order {
	t := controlplane.MachineTemplate(s.ControlPlane, s.Cluster.Name)
	t.Spec.FailureDomain = a.FailureDomain
	return machines.Order{
		Name:                   name,
		Template:               t,
		Bootstrap:              &bootstrapv1.KubeadmConfig{Spec: controlplane.ConfigSpec(s.ControlPlane, a.Init)},
		InfrastructureTemplate: s.template,
	}
}

// factory creates and synchronizes the machines.
func (r *Reconciler) factory() machines.Factory {
	return machines.Factory{Mgmt: r.Mgmt, Live: r.Live, Providers: r.Providers, FieldOwner: fieldOwner}
}

// sweep deletes objects that were created for Machines that then were not created.
func (r *Reconciler) sweep(ctx context.Context, s *state) error {
	err := r.Providers.Sweep(ctx, r.Live, provider.Leftovers{
		Maker: s.ControlPlane,
		Kinds: []schema.GroupKind{configKind, provider.CopyKind(s.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.GroupKind())},
		Label: clusterv1.MachineControlPlaneNameLabel, Value: fieldvalidation.AsLabelValue(s.ControlPlane.Name),
	})
	if _, unusable := errors.AsType[*provider.KindError](err); unusable {
		return nil // the conditions report it, and nothing is created until it is repaired
	}
	return err
}

// scaleDown requests the deletion of a machine. Its etcd member is removed after
// the drain, before its infrastructure is deleted.
func (r *Reconciler) scaleDown(ctx context.Context, s *state, a controlplane.Delete) error {
	m := a.Machine
	if err := s.commitNow(ctx, m); err != nil { // after the deletion it would be a conflict
		return err
	}
	err := r.Mgmt.Delete(ctx, m.Machine, client.Preconditions{UID: new(m.UID)})
	if client.IgnoreNotFound(err) != nil {
		r.event(s, m.Machine, corev1.EventTypeWarning, "FailedScaleDown", "Delete", fmt.Sprintf("%s: %v", a, err))
		return fmt.Errorf("delete Machine %s: %w", client.ObjectKeyFromObject(m.Machine), err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleting Machine", "Machine", m.Name, "reason", a.Why)
	r.event(s, m.Machine, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", a.String())
	return nil
}
