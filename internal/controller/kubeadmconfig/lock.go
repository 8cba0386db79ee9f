// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig/bootstrapdata"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

// takeLock creates the lock for the machine, unless it exists: then it returns the
// holder.
func (r *Reconciler) takeLock(ctx context.Context, s *state) (bootstrapdata.Answer, error) {
	held := &corev1.ConfigMap{}
	err := r.Mgmt.Get(ctx, s.lockName(), held)
	if apierrors.IsNotFound(err) {
		if err = r.createLock(ctx, s); err == nil {
			return bootstrapdata.Answer{}, nil
		}
		if apierrors.IsAlreadyExists(err) { // the cache did not have it yet
			err = r.Live.Get(ctx, s.lockName(), held)
		}
	}
	if err != nil {
		return bootstrapdata.Answer{}, fmt.Errorf("take the init lock, ConfigMap %s: %w", s.lockName(), err)
	}
	s.held = held
	return bootstrapdata.Answer{Held: true, Lock: held.Data[bootstrapdata.LockKey]}, nil
}

// machineExists reads the holder of the lock from the API server: one that the
// cache does not have yet must not lose it.
func (r *Reconciler) machineExists(ctx context.Context, s *state, name string) (bool, error) {
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: s.config.Namespace, Name: name}, &clusterv1.Machine{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get Machine %s/%s, which holds the init lock: %w", s.config.Namespace, name, err)
	}
	return err == nil, nil
}

// replaceLock takes the lock from a Machine that was deleted.
func (r *Reconciler) replaceLock(ctx context.Context, s *state, holder string) error {
	ctrl.LoggerFrom(ctx).Info("Taking the init lock from a Machine that has gone", "holder", holder)
	if err := r.deleteLock(ctx, s.held); err != nil {
		return err
	}
	if err := r.createLock(ctx, s); err != nil {
		return fmt.Errorf("take the init lock, ConfigMap %s: %w", s.lockName(), err)
	}
	return nil
}

func (s *state) lockName() client.ObjectKey {
	return client.ObjectKey{Namespace: s.cluster.Namespace, Name: bootstrapdata.LockName(s.cluster.Name)}
}

func (r *Reconciler) createLock(ctx context.Context, s *state) error {
	info, err := bootstrapdata.LockOf(s.machine.Name)
	if err != nil {
		return err
	}
	ref, err := owner.Reference(s.cluster, r.Mgmt)
	if err != nil {
		return err
	}
	return r.Mgmt.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.lockName().Namespace, Name: s.lockName().Name,
			Labels:          map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name},
			OwnerReferences: []metav1.OwnerReference{ref},
		},
		Data: map[string]string{bootstrapdata.LockKey: info},
	})
}

// unlock removes the lock, regardless of its holder.
func (r *Reconciler) unlock(ctx context.Context, s *state) error {
	held := &corev1.ConfigMap{}
	if err := r.Mgmt.Get(ctx, s.lockName(), held); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get the init lock, ConfigMap %s: %w", s.lockName(), err)
	}
	return r.deleteLock(ctx, held)
}

func (r *Reconciler) deleteLock(ctx context.Context, held *corev1.ConfigMap) error {
	err := r.Mgmt.Delete(ctx, held, client.Preconditions{UID: new(held.UID)})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("release the init lock, ConfigMap %s: %w", client.ObjectKeyFromObject(held), err)
	}
	return nil
}
