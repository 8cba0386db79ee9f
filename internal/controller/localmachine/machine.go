// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
	"github.com/capstan-dev/capstan/internal/pure/localstatus"
)

// waitForOthers ends the reconcile while the machine cannot start yet. Watches
// trigger the next.
func (r *Reconciler) waitForOthers(ctx context.Context, s *state) (reconciler.Next, error) {
	backend, err := r.Backends.OfMachine(s.local.Spec)
	if err != nil {
		s.waiting = localstatus.Wait{Reason: infrav1.VMNotProvisionedReason, Message: err.Error()} // until the spec changes: a retry would fail the same way
		return reconciler.Wait(0), nil
	}
	s.backend = backend
	if s.provisioned() {
		return reconciler.Continue(), nil
	}
	if s.waiting = localstatus.BeforeStart(s.cluster, *s.order); s.waiting.Reason == "" {
		return reconciler.Continue(), nil
	}
	ctrl.LoggerFrom(ctx).V(2).Info("Waiting before the machine is started", "reason", s.waiting.Message)
	return reconciler.Wait(0), nil
}

// readBootstrapData reads the Secret that the Machine, or the MachinePool, names. A
// machine that has run its bootstrap data no longer needs it.
func (r *Reconciler) readBootstrapData(ctx context.Context, s *state) (reconciler.Next, error) {
	name := ptr.Deref(s.order.Spec.Bootstrap.DataSecretName, "")
	if name == "" {
		return reconciler.Continue(), nil
	}
	key := client.ObjectKey{Namespace: s.local.Namespace, Name: name}
	secret := &corev1.Secret{}
	err := r.Mgmt.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) && !s.provisioned() {
		err = r.Live.Get(ctx, key, secret) // the cache lags, or holds only Secrets with the cluster's label
	}
	if err == nil && !s.provisioned() {
		if s.waiting = localstatus.BeforeData(s.cluster, *s.order, secret); s.waiting.Reason != "" {
			return reconciler.Wait(0), nil
		}
	}
	switch {
	case err == nil:
		s.data = bootstrapData{value: secret.Data["value"], format: string(secret.Data["format"])}
	case s.provisioned() && apierrors.IsNotFound(err):
		return reconciler.Continue(), nil
	default:
		return reconciler.Continue(), fmt.Errorf("get Secret %s named by %s: %w", key, s.order.By, err)
	}
	if len(s.data.value) == 0 && !s.provisioned() {
		return reconciler.Continue(), fmt.Errorf("Secret %s named by %s has no bootstrap data under the key \"value\"", key, s.order.By) // a kind's name
	}
	return reconciler.Continue(), nil
}

// run starts the machine, or reads its progress.
func (r *Reconciler) run(ctx context.Context, s *state) (reconciler.Next, error) {
	started := conditions.Has(s.local, infrav1.BootstrapExecSucceededCondition)
	seen, err := s.backend.EnsureMachine(ctx, wanted(s))
	if errors.Is(err, localinfra.ErrOpening) {
		return reconciler.Wait(0), nil // the earlier state stays valid: the backend sends a notification soon
	}
	if errors.Is(err, localinfra.ErrNoCluster) && !s.provisioned() {
		return reconciler.Continue(), fmt.Errorf("start the machine: LocalCluster of Cluster %s has not been provisioned here: %w", s.cluster.Name, err)
	}
	if errors.Is(err, localinfra.ErrNotAllowed) {
		s.waiting = localstatus.Wait{Reason: infrav1.VMNotProvisionedReason, Message: err.Error()}
		return reconciler.Wait(0), nil // until the process is started with other flags
	}
	if err != nil && s.provisioned() && !errors.Is(err, localinfra.ErrClosed) { // which runs again after the restart
		s.stopped = err
	}
	if _, held := errors.AsType[*localinfra.HeldError](err); held || errors.Is(err, localinfra.ErrNotHere) {
		if s.stopped == nil {
			s.waiting = localstatus.Wait{Reason: infrav1.VMNotProvisionedReason, Message: "Waiting for the machine to be started: " + err.Error()}
		}
		return reconciler.Wait(0), nil // the backend sends a notification when it can be
	}
	if err != nil {
		return reconciler.Continue(), err
	}
	s.seen = &localstatus.Seen{
		Up: seen.Up(), Done: seen.Stage == localinfra.Done, Failed: seen.Stage == localinfra.Failed,
		Message: seen.Message, Addresses: seen.Addresses, ProviderID: seen.ProviderID,
	}
	if !started {
		ctrl.LoggerFrom(ctx).Info("Starting machine", "version", s.order.Spec.Version)
	}
	if s.seen.Failed && conditions.Reason(s.local, infrav1.BootstrapExecSucceededCondition) != infrav1.BootstrapExecFailedReason {
		r.Recorder.Eventf(s.local, s.order.Who, corev1.EventTypeWarning, "BootstrapFailed", "Bootstrap", "%s", seen.Message)
	}
	if localstatus.Take(s.local, *s.order, *s.seen) { // no event: the conditions report it, and the Machine reports its Node next
		ctrl.LoggerFrom(ctx).Info("Machine is provisioned", "providerID", seen.ProviderID, "result", seen.Message)
	}
	return reconciler.Continue(), nil
}

// wanted returns the desired machine.
func wanted(s *state) localinfra.Machine {
	return localinfra.Machine{
		NamespacedName: client.ObjectKeyFromObject(s.local), ID: localinfra.MachineID(s.local), Cluster: s.clusterKey().Name, ClusterID: s.clusterID,
		FailureDomain:   s.order.Spec.FailureDomain,
		Version:         s.order.Spec.Version,
		ControlPlane:    s.order.ControlPlane,
		Provisioned:     s.provisioned(),
		BootstrapData:   s.data.value,
		BootstrapFormat: s.data.format,
		Spec:            s.local.Spec,
	}
}

// remove deletes the machine, in any state.
func (r *Reconciler) remove(ctx context.Context, s *state) (reconciler.Next, error) {
	backend, err := r.Backends.OfMachine(s.local.Spec)
	if err != nil && !errors.Is(err, localinfra.ErrNotChosen) {
		s.waiting = localstatus.Wait{Reason: infrav1.VMDeletingReason, Message: err.Error()} // its infrastructure is on the host that created it
		return reconciler.Wait(0), nil
	}
	if key := s.clusterKey(); err == nil && key.Name != "" { // without a cluster it was never started
		ctrl.LoggerFrom(ctx).Info("Deleting machine", "providerID", s.local.Spec.ProviderID)
		which := localinfra.Machine{NamespacedName: client.ObjectKeyFromObject(s.local), ID: localinfra.MachineID(s.local), Cluster: key.Name, ClusterID: s.clusterID, Spec: s.local.Spec}
		if err := backend.DeleteMachine(ctx, which); err != nil {
			return reconciler.Continue(), err
		}
	}
	reconciler.RemoveFinalizers(s.local, infrav1.LocalMachineFinalizer, formerFinalizer)
	return reconciler.Continue(), nil
}

// removed deletes the machine of a LocalMachine that disappeared without its
// finalizer, if its deletion was requested.
func (r *Reconciler) removed(ctx context.Context, lm *infrav1.LocalMachine, asked bool) {
	if !asked {
		return
	}
	s := &state{local: lm.DeepCopy()}
	err := r.observeCluster(ctx, s)
	if err == nil {
		_, err = r.remove(ctx, s)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Deleting the machine of a LocalMachine that has gone", "LocalMachine", klog.KObj(lm))
	}
}
