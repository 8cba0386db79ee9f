// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/patch"
	"github.com/capstan-dev/capstan/internal/kit/reconciler"
)

var clusterKind = schema.GroupKind{Group: clusterv1.GroupVersion().Group, Kind: clusterv1.ClusterKind}

// inspectOrphans checks whether the machines without a controller can be adopted,
// such as those that outlived an earlier KubeadmControlPlane, or one that lost its
// owner: all, or none. Then it takes over the Secrets that would be deleted with a
// machine: the certificates must outlive it. Next to machines of another controller
// nothing is done: their etcd members would be removed as members without a machine.
func (r *Reconciler) inspectOrphans(ctx context.Context, s *state) (reconciler.Next, error) {
	if len(s.orphans) == 0 {
		return reconciler.Continue(), nil
	}
	s.orphans = slices.DeleteFunc(s.orphans, func(m *clusterv1.Machine) bool { return !m.DeletionTimestamp.IsZero() })
	if len(s.orphans) == 0 && len(s.Machines) == 0 {
		return reconciler.Wait(repairInterval), nil // the answering machine is being deleted, and its etcd with it
	}
	var configs []string
	var errs []error
	for _, m := range s.orphans {
		config := &bootstrapv1.KubeadmConfig{}
		key := client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Bootstrap.ConfigRef.Name}
		switch err := r.Mgmt.Get(ctx, key, config); {
		case apierrors.IsNotFound(err):
			config = nil
		case err != nil:
			return reconciler.Continue(), fmt.Errorf("get KubeadmConfig %s: %w", key, err)
		}
		errs = append(errs, controlplane.Adoptable(s.ControlPlane, m, config))
		configs = append(configs, key.Name)
	}
	if err := errors.Join(errs...); err != nil {
		r.event(s, nil, corev1.EventTypeWarning, "FailedAdoption", "Adopt", err.Error())
		return reconciler.Continue(), fmt.Errorf("adopt machines: %w", err)
	}
	return reconciler.Continue(), r.takeSecrets(ctx, s, configs)
}

// takeSecrets makes the control plane the controller of the Secrets of the cluster,
// instead of KubeadmConfigs.
func (r *Reconciler) takeSecrets(ctx context.Context, s *state, configs []string) error {
	mine, err := owner.Controller(s.ControlPlane, r.Mgmt)
	if err != nil {
		return err
	}
	for _, purpose := range append(purposes(s), certs.Kubeconfig) {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: s.Cluster.Namespace, Name: certs.SecretName(s.Cluster.Name, purpose)}
		if err := r.Live.Get(ctx, key, secret); apierrors.IsNotFound(err) {
			continue // the phase that needs it reports it
		} else if err != nil {
			return fmt.Errorf("get Secret %s: %w", key, err)
		}
		before := secret.DeepCopy()
		if !owner.RemoveFunc(secret, func(o metav1.OwnerReference) bool {
			return o.Kind == "KubeadmConfig" && strings.HasPrefix(o.APIVersion, bootstrapv1.GroupVersion().Group+"/") && slices.Contains(configs, o.Name)
		}) {
			continue
		}
		if metav1.GetControllerOfNoCopy(secret) == nil {
			owner.Set(secret, mine)
		}
		if err := r.Mgmt.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("take over Secret %s from a KubeadmConfig: %w", key, err)
		}
		ctrl.LoggerFrom(ctx).Info("Took over a Secret", "Secret", key.Name)
	}
	return nil
}

// adopt adopts the machines without a controller, when the certificates that they
// were created with exist. A control plane that was just deleted, which the cache
// may not show yet, adopts none.
func (r *Reconciler) adopt(ctx context.Context, s *state) (reconciler.Next, error) {
	ref, err := owner.Controller(s.ControlPlane, r.Mgmt)
	if err != nil {
		return reconciler.Continue(), err
	}
	mine := make([]*clusterv1.Machine, 0, len(s.Machines))
	for _, m := range s.Machines {
		mine = append(mine, m.Machine)
	}
	if err := owner.HealAll(ctx, r.Mgmt, mine, ref); err != nil || len(s.orphans) == 0 {
		return reconciler.Continue(), err
	}
	live := &controlplanev1.KubeadmControlPlane{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.ControlPlane), live); err != nil {
		return reconciler.Continue(), fmt.Errorf("look whether the control plane still exists: %w", err)
	}
	if live.UID != s.ControlPlane.UID || !live.DeletionTimestamp.IsZero() {
		return reconciler.Wait(cacheLag), nil
	}
	for _, m := range s.orphans {
		commit := patch.Snapshot(r.Mgmt, m, patch.As(fieldOwner))
		owner.Set(m, ref)
		if err := commit(ctx); err != nil {
			return reconciler.Continue(), fmt.Errorf("adopt Machine %s: %w", m.Name, err)
		}
		ctrl.LoggerFrom(ctx).Info("Adopted Machine", "Machine", m.Name)
	}
	r.event(s, nil, corev1.EventTypeNormal, "SuccessfulAdoption", "Adopt", fmt.Sprintf("adopt %v: they have no controller", names(s.orphans)))
	return reconciler.Wait(cacheLag), nil // they count from the next reconcile on
}

func names(machines []*clusterv1.Machine) (all []string) {
	for _, m := range machines {
		all = append(all, m.Name)
	}
	return all
}
