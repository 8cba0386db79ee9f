// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
	"github.com/capstan-dev/capstan/internal/pure/fieldrules"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

// nodeDeletionSeconds is what admission fills in where a Machine says nothing;
// to write anything else would only be undone.
const nodeDeletionSeconds = 10

var clusterKind = schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind}

// adopt takes machines of the control plane that nobody controls, such as those
// that outlived an earlier KubeadmControlPlane. A mixture is refused: machines
// that somebody else made have other names for the same things.
func (r *Reconciler) adopt(ctx context.Context, s *state) (phase.Next, error) {
	if len(s.orphans) == 0 {
		return phase.Continue(), nil
	}
	if len(s.Machines) > 0 {
		names := make([]string, 0, len(s.orphans))
		for _, m := range s.orphans {
			names = append(names, m.Name)
		}
		return phase.Continue(), fmt.Errorf("control plane machines %v of the Cluster have no owner, yet others are owned by this control plane: delete them, or make this control plane their controller", names)
	}
	ref, err := owner.Controller(s.ControlPlane, r.Mgmt)
	if err != nil {
		return phase.Continue(), err
	}
	for _, m := range s.orphans {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		commit := patch.Remember(r.Mgmt, m, patch.As(fieldOwner))
		owner.Set(m, ref)
		if err := commit(ctx); err != nil {
			return phase.Continue(), fmt.Errorf("adopt Machine %s: %w", m.Name, err)
		}
		ctrl.LoggerFrom(ctx).Info("Adopted Machine", "Machine", m.Name)
	}
	return phase.Wait(cacheLag), nil // they count from the next reconcile on
}

// synchronise brings what may change in place to the machines, and labels and
// annotations on to what they refer to. The machines are written with the rest,
// at the end: as long as one does not have its labels, they are passed on again.
func (r *Reconciler) synchronise(ctx context.Context, s *state) (phase.Next, error) {
	var errs []error
	for _, m := range s.Machines {
		if m.Deleting() {
			m.Spec.Deletion = deletionOf(s.ControlPlane) // what else could still matter
			continue
		}
		if err := r.synchroniseLabels(ctx, s, m); err != nil {
			errs = append(errs, fmt.Errorf("Machine %s: %w", m.Name, err))
			continue
		}
		setInPlaceFields(m.Machine, s.ControlPlane)
	}
	return phase.Continue(), errors.Join(errs...)
}

func (r *Reconciler) synchroniseLabels(ctx context.Context, s *state, m *kubeadmcontrolplane.Machine) error {
	wanted := m.Machine.DeepCopy()
	changed, err := metadata.Sync(wanted, fieldOwner, metadata.Want{Labels: machineLabels(s), Annotations: machineAnnotations(s, m)})
	if err != nil || !changed {
		return err
	}
	var objects []client.Object
	if m.Config != nil {
		objects = append(objects, m.Config)
	}
	infra, err := r.Providers.Get(ctx, m.Namespace, m.Spec.InfrastructureRef)
	_, unusable := errors.AsType[*provider.KindError](err)
	switch {
	case err == nil:
		objects = append(objects, infra.Unstructured)
	case !apierrors.IsNotFound(err) && !unusable:
		return err
	}
	for _, obj := range objects {
		if err := r.passOn(ctx, s, m, wanted, obj); err != nil {
			return err
		}
	}
	m.Labels, m.Annotations = wanted.Labels, wanted.Annotations
	return nil
}

// passOn brings the labels and annotations that a machine is about to have to an
// object that it refers to.
func (r *Reconciler) passOn(ctx context.Context, s *state, m *kubeadmcontrolplane.Machine, wanted *clusterv1.Machine, obj client.Object) error {
	changed, ok := obj.DeepCopyObject().(client.Object)
	if !ok || !obj.GetDeletionTimestamp().IsZero() || claim.ByMachine(m.Machine).Judge(obj).Holder != "" {
		return nil
	}
	commit := patch.Remember(r.Mgmt, changed, patch.As(fieldOwner))
	had := metadata.Want{Labels: m.Labels, Annotations: m.Annotations}
	metadata.Pass(changed, wanted, had, metadata.Want{Labels: machineLabels(s), Annotations: s.ControlPlane.Spec.MachineTemplate.ObjectMeta.Annotations})
	return commit(ctx)
}

// machineLabels are the labels of the machines, and of all that is made for them.
func machineLabels(s *state) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, s.ControlPlane.Spec.MachineTemplate.ObjectMeta.Labels)
	labels[clusterv1.ClusterNameLabel] = s.Cluster.Name
	labels[clusterv1.MachineControlPlaneLabel] = ""
	labels[clusterv1.MachineControlPlaneNameLabel] = fieldrules.AsLabelValue(s.ControlPlane.Name)
	return labels
}

// ours are the annotations that this controller gives to a machine beside those
// of the template.
var ours = []string{
	controlplanev1.PreTerminateHookCleanupAnnotation,
	controlplanev1.RemediationForAnnotation,
	clusterv1.MachineCertificatesExpiryDateAnnotation,
}

func machineAnnotations(s *state, m *kubeadmcontrolplane.Machine) map[string]string {
	annotations := map[string]string{}
	maps.Copy(annotations, s.ControlPlane.Spec.MachineTemplate.ObjectMeta.Annotations)
	for _, key := range ours {
		if value, ok := m.Annotations[key]; ok {
			annotations[key] = value
		}
	}
	annotations[controlplanev1.PreTerminateHookCleanupAnnotation] = ""
	return annotations
}

// setInPlaceFields sets the fields of a machine that may change without a new
// machine being needed.
func setInPlaceFields(m *clusterv1.Machine, kcp *controlplanev1.KubeadmControlPlane) {
	t := kcp.Spec.MachineTemplate.Spec.DeepCopy()
	m.Spec.Taints = t.Taints
	m.Spec.Deletion = deletionOf(kcp)
	m.Spec.ReadinessGates = readinessGates(kcp, t.ReadinessGates)
}

// readinessGates make the health of the components part of a machine's.
func readinessGates(kcp *controlplanev1.KubeadmControlPlane, more []clusterv1.MachineReadinessGate) (gates []clusterv1.MachineReadinessGate) {
	for _, t := range kubeadmcontrolplane.ComponentConditions(kubeadmcontrolplane.ManagesEtcd(kcp)) {
		gates = append(gates, clusterv1.MachineReadinessGate{ConditionType: t})
	}
	for _, g := range more {
		if !slices.ContainsFunc(gates, func(have clusterv1.MachineReadinessGate) bool { return have.ConditionType == g.ConditionType }) {
			gates = append(gates, g)
		}
	}
	return gates
}

func deletionOf(kcp *controlplanev1.KubeadmControlPlane) clusterv1.MachineDeletionSpec {
	d := kcp.Spec.MachineTemplate.Spec.Deletion.DeepCopy()
	out := clusterv1.MachineDeletionSpec{
		NodeDrainTimeoutSeconds:        d.NodeDrainTimeoutSeconds,
		NodeVolumeDetachTimeoutSeconds: d.NodeVolumeDetachTimeoutSeconds,
		NodeDeletionTimeoutSeconds:     d.NodeDeletionTimeoutSeconds,
	}
	if out.NodeDeletionTimeoutSeconds == nil {
		out.NodeDeletionTimeoutSeconds = new(int32(nodeDeletionSeconds))
	}
	return out
}
