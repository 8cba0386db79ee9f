// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/pure/fieldrules"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

var configKind = bootstrapv1.GroupVersion().WithKind("KubeadmConfig").GroupKind()

// scaleUp makes a machine: its bootstrap config, its infrastructure, itself, all
// of one name. If that fails halfway, what was made is deleted again.
func (r *Reconciler) scaleUp(ctx context.Context, s *state, a kubeadmcontrolplane.Create) (err error) {
	random := strings.TrimPrefix(r.Name(""), "-")
	name, err := kubeadmcontrolplane.Name(s.ControlPlane, s.Cluster.Name, random)
	if err != nil {
		return err
	}
	var made lifecycle.Stack
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Unwind(context.WithoutCancel(ctx)))
			r.event(s, nil, corev1.EventTypeWarning, "FailedScaleUp", "Create", a.String())
		}
	}()
	m, err := r.newMachine(s, name, a.FailureDomain)
	if err != nil {
		return err
	}
	if m.Spec.Bootstrap.ConfigRef, err = r.createConfig(ctx, s, m, a.Init, &made); err != nil {
		return err
	}
	if m.Spec.InfrastructureRef, err = r.createInfrastructure(ctx, s, m, &made); err != nil {
		return err
	}
	if err := r.Mgmt.Create(ctx, m, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("create Machine %s: %w", client.ObjectKeyFromObject(m), err)
	}
	fresh := &kubeadmcontrolplane.Machine{Machine: m, Verdict: kubeadmcontrolplane.Verdict{UpToDate: true}}
	conditions.Set(m, s.Now, upToDate(fresh)) // for our own counters; it is reported later
	s.Machines = append(s.Machines, fresh)
	delete(s.ControlPlane.Annotations, controlplanev1.RemediationInProgressAnnotation) // the machine carries it on
	ctrl.LoggerFrom(ctx).Info("Created Machine", "Machine", name, "reason", a.Why)
	r.event(s, m, corev1.EventTypeNormal, "SuccessfulCreate", "Create", a.String())
	return nil
}

// newMachine makes a Machine with everything it will ever need from its control
// plane, so that no later write has to add it.
func (r *Reconciler) newMachine(s *state, name, failureDomain string) (*clusterv1.Machine, error) {
	mine, err := owner.Controller(s.ControlPlane, r.Mgmt)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{}
	maps.Copy(annotations, s.ControlPlane.Spec.MachineTemplate.ObjectMeta.Annotations)
	annotations[controlplanev1.PreTerminateHookCleanupAnnotation] = ""
	if replaces, ok := s.ControlPlane.Annotations[controlplanev1.RemediationInProgressAnnotation]; ok {
		annotations[controlplanev1.RemediationForAnnotation] = replaces
	}
	m := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       s.ControlPlane.Namespace,
			Name:            name,
			Labels:          machineLabels(s),
			Annotations:     annotations,
			Finalizers:      []string{clusterv1.MachineFinalizer},
			OwnerReferences: []metav1.OwnerReference{mine},
		},
		Spec: clusterv1.MachineSpec{ClusterName: s.Cluster.Name, Version: s.ControlPlane.Spec.Version, FailureDomain: failureDomain},
	}
	setInPlaceFields(m, s.ControlPlane)
	return m, nil
}

func (r *Reconciler) createConfig(ctx context.Context, s *state, m *clusterv1.Machine, init bool, made *lifecycle.Stack) (ref clusterv1.ContractVersionedObjectReference, err error) {
	keeper, err := owner.Reference(s.ControlPlane, r.Mgmt)
	if err != nil {
		return ref, err
	}
	config := &bootstrapv1.KubeadmConfig{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       m.Namespace,
			Name:            m.Name,
			Labels:          m.Labels,
			Annotations:     s.ControlPlane.Spec.MachineTemplate.ObjectMeta.Annotations,
			OwnerReferences: []metav1.OwnerReference{keeper},
		},
		Spec: kubeadmcontrolplane.ConfigSpec(s.ControlPlane, init),
	}
	if err := r.Mgmt.Create(ctx, config, client.FieldOwner(fieldOwner)); err != nil {
		return ref, fmt.Errorf("create KubeadmConfig %s: %w", client.ObjectKeyFromObject(config), err)
	}
	made.Push("creation of KubeadmConfig "+config.Name, func(ctx context.Context) error {
		return client.IgnoreNotFound(r.Mgmt.Delete(ctx, config))
	})
	return clusterv1.ContractVersionedObjectReference{APIGroup: configKind.Group, Kind: configKind.Kind, Name: config.Name}, nil
}

func (r *Reconciler) createInfrastructure(ctx context.Context, s *state, m *clusterv1.Machine, made *lifecycle.Stack) (ref clusterv1.ContractVersionedObjectReference, err error) {
	keeper, err := owner.Reference(s.ControlPlane, r.Mgmt)
	if err != nil {
		return ref, err
	}
	return r.Providers.Make(ctx, provider.Copy{
		Template:    s.template,
		Name:        m.Name,
		Cluster:     s.Cluster.Name,
		Labels:      m.Labels,
		Annotations: s.ControlPlane.Spec.MachineTemplate.ObjectMeta.Annotations,
		Owner:       &keeper,
	}, fieldOwner, made)
}

// sweep deletes what was made for Machines that then were not created.
func (r *Reconciler) sweep(ctx context.Context, s *state) error {
	err := r.Providers.Sweep(ctx, r.Live, provider.Leftovers{
		Maker:  s.ControlPlane,
		Kinds:  []schema.GroupKind{configKind, provider.CopyKind(s.ControlPlane.Spec.MachineTemplate.Spec.InfrastructureRef.GroupKind())},
		Labels: client.MatchingLabels{clusterv1.MachineControlPlaneNameLabel: fieldrules.AsLabelValue(s.ControlPlane.Name)},
	})
	if _, unusable := errors.AsType[*provider.KindError](err); unusable {
		return nil // the conditions tell of it, and nothing is created until it is mended
	}
	return err
}

// scaleDown asks for the deletion of a machine. Its etcd member is removed when
// it has been drained, before its infrastructure goes.
func (r *Reconciler) scaleDown(ctx context.Context, s *state, a kubeadmcontrolplane.Delete) error {
	m := a.Machine
	if err := s.commitNow(ctx, m); err != nil { // after the deletion it would be a conflict
		return err
	}
	err := r.Mgmt.Delete(ctx, m.Machine, client.Preconditions{UID: new(m.UID)})
	if client.IgnoreNotFound(err) != nil {
		r.event(s, m.Machine, corev1.EventTypeWarning, "FailedScaleDown", "Delete", a.String())
		return fmt.Errorf("delete Machine %s: %w", client.ObjectKeyFromObject(m.Machine), err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleting Machine", "Machine", m.Name, "reason", a.Why)
	r.event(s, m.Machine, corev1.EventTypeNormal, "SuccessfulDelete", "Delete", a.String())
	return nil
}
