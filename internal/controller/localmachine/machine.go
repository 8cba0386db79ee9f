// SPDX-License-Identifier: Apache-2.0

package localmachine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/kit/finalizer"
	"github.com/capstan-dev/capstan/internal/kit/phase"
	"github.com/capstan-dev/capstan/internal/pure/claim"
)

// waitForOthers ends the reconcile while the machine cannot start yet. Watches
// wake it.
func (r *Reconciler) waitForOthers(ctx context.Context, s *state) (phase.Next, error) {
	backend, err := r.Backends.OfMachine(s.local.Spec)
	if err != nil {
		s.waiting = bootstrapWait{infrav1.VMNotProvisionedReason, err.Error()} // for another spec: no use in trying again
		return phase.Wait(0), nil
	}
	s.backend = backend
	if s.provisioned() {
		return phase.Continue(), nil
	}
	initialized := s.cluster.Status.Initialization
	_, controlPlane := s.machine.Labels[clusterv1.MachineControlPlaneLabel]
	switch {
	case !ptr.Deref(initialized.InfrastructureProvisioned, false):
		s.waiting = bootstrapWait{infrav1.VMWaitingForClusterInfrastructureReason,
			fmt.Sprintf("Waiting for the infrastructure of Cluster %s to be provisioned", s.cluster.Name)}
	case s.machine.Spec.Bootstrap.DataSecretName != nil:
		return phase.Continue(), nil
	case !controlPlane && !ptr.Deref(initialized.ControlPlaneInitialized, false):
		s.waiting = bootstrapWait{infrav1.VMWaitingForControlPlaneInitializedReason,
			fmt.Sprintf("Waiting for the control plane of Cluster %s to be initialized", s.cluster.Name)}
	default:
		s.waiting = bootstrapWait{infrav1.VMWaitingForBootstrapDataReason,
			fmt.Sprintf("Waiting for spec.bootstrap.dataSecretName of Machine %s", s.machine.Name)}
	}
	ctrl.LoggerFrom(ctx).V(2).Info("Waiting before the machine is started", "reason", s.waiting.message)
	return phase.Wait(0), nil
}

// readBootstrapData reads the Secret that the Machine names. A machine that
// has run its data does not need it any more.
func (r *Reconciler) readBootstrapData(ctx context.Context, s *state) (phase.Next, error) {
	name := s.machine.Spec.Bootstrap.DataSecretName
	if name == nil {
		return phase.Continue(), nil
	}
	key := client.ObjectKey{Namespace: s.local.Namespace, Name: *name}
	secret := &corev1.Secret{}
	err := r.Mgmt.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) && !s.provisioned() {
		err = r.Live.Get(ctx, key, secret) // the cache lags, or holds only Secrets with the cluster's label
	}
	switch {
	case err == nil && !s.provisioned() && bootstrapHolder(s, secret) != "":
		s.waiting = bootstrapWait{infrav1.VMWaitingForBootstrapDataReason,
			fmt.Sprintf("Secret %s, named by spec.bootstrap.dataSecretName of Machine %s, is held by %s: name another Secret", *name, s.machine.Name, bootstrapHolder(s, secret))}
		return phase.Wait(0), nil
	case err == nil:
		s.data = bootstrapData{value: secret.Data["value"], format: string(secret.Data["format"])}
	case s.provisioned() && apierrors.IsNotFound(err):
		return phase.Continue(), nil
	default:
		return phase.Continue(), fmt.Errorf("get Secret %s named by Machine %s: %w", key, s.machine.Name, err)
	}
	if len(s.data.value) == 0 && !s.provisioned() {
		return phase.Continue(), fmt.Errorf("Secret %s named by Machine %s has no bootstrap data under the key \"value\"", key, s.machine.Name) // a kind's name
	}
	return phase.Continue(), nil
}

// bootstrapHolder says whose the Secret is, if it is not for this machine.
func bootstrapHolder(s *state, secret *corev1.Secret) string {
	mine, ref := claim.ToShare(s.cluster), s.machine.Spec.Bootstrap.ConfigRef
	mine.Maker = &metav1.OwnerReference{APIVersion: ref.APIGroup + "/", Kind: ref.Kind, Name: ref.Name}
	return mine.Judge(secret).Holder
}

// run starts the machine, or looks how far it is.
func (r *Reconciler) run(ctx context.Context, s *state) (phase.Next, error) {
	started := conditions.Has(s.local, infrav1.BootstrapExecSucceededCondition)
	seen, err := s.backend.EnsureMachine(ctx, wanted(s))
	if errors.Is(err, host.ErrNoCluster) && !s.provisioned() {
		return phase.Continue(), fmt.Errorf("start the machine: LocalCluster of Cluster %s has not been provisioned here: %w", s.cluster.Name, err)
	}
	if err != nil {
		if !errors.Is(err, host.ErrClosed) { // then it runs again after the restart
			s.stopped = err
		}
		return phase.Continue(), err
	}
	s.seen = &seen
	if !started {
		ctrl.LoggerFrom(ctx).Info("Starting machine", "version", s.machine.Spec.Version)
	}
	done := seen.Stage == host.Done
	switch {
	case seen.Stage == host.Failed && conditions.Reason(s.local, infrav1.BootstrapExecSucceededCondition) != infrav1.BootstrapExecFailedReason:
		r.Recorder.Eventf(s.local, s.machine, corev1.EventTypeWarning, "BootstrapFailed", "Bootstrap", "%s", seen.Message)
	case done && !s.provisioned():
		// No event: the conditions tell, and the Machine tells of its Node next.
		ctrl.LoggerFrom(ctx).Info("Machine is provisioned", "providerID", seen.ProviderID, "result", seen.Message)
	}
	if done && !s.provisioned() {
		s.local.Spec.ProviderID = seen.ProviderID
		s.local.Status.Initialization.Provisioned = new(true)
	}
	if seen.Up() {
		s.local.Status.Addresses = seen.Addresses
		s.local.Status.FailureDomain = s.machine.Spec.FailureDomain
	}
	return phase.Continue(), nil
}

// wanted is the machine as it is asked for.
func wanted(s *state) host.Machine {
	return host.Machine{
		NamespacedName: client.ObjectKeyFromObject(s.local), ID: host.MachineID(s.local), Cluster: s.clusterKey().Name,
		FailureDomain:   s.machine.Spec.FailureDomain,
		Version:         s.machine.Spec.Version,
		Provisioned:     s.provisioned(),
		BootstrapData:   s.data.value,
		BootstrapFormat: s.data.format,
		Spec:            s.local.Spec,
	}
}

// remove takes the machine away, whatever state it is in.
func (r *Reconciler) remove(ctx context.Context, s *state) (phase.Next, error) {
	backend, err := r.Backends.OfMachine(s.local.Spec)
	if err != nil && !errors.Is(err, host.ErrNotChosen) {
		s.waiting = bootstrapWait{infrav1.VMDeletingReason, err.Error()} // what runs for it is where it was made
		return phase.Wait(0), nil
	}
	if key := s.clusterKey(); err == nil && key.Name != "" { // without a cluster it was never started
		ctrl.LoggerFrom(ctx).Info("Deleting machine", "providerID", s.local.Spec.ProviderID)
		if err := backend.DeleteMachine(ctx, key, host.MachineID(s.local)); err != nil {
			return phase.Continue(), err
		}
	}
	finalizer.Remove(s.local, infrav1.LocalMachineFinalizer, formerFinalizer)
	return phase.Continue(), nil
}

// removed takes the machine of a LocalMachine away that went without its
// finalizer.
func (r *Reconciler) removed(ctx context.Context, lm *infrav1.LocalMachine) {
	cluster := types.NamespacedName{Namespace: lm.Namespace, Name: lm.Labels[clusterv1.ClusterNameLabel]}
	backend, err := r.Backends.OfMachine(lm.Spec)
	if err == nil {
		err = backend.DeleteMachine(ctx, cluster, host.MachineID(lm))
	}
	if err != nil && !errors.Is(err, host.ErrNotChosen) {
		ctrl.LoggerFrom(ctx).Error(err, "Deleting the machine of a LocalMachine that has gone", "LocalMachine", klog.KObj(lm))
	}
}
