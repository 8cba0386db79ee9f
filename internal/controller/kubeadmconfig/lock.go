// SPDX-License-Identifier: Apache-2.0

package kubeadmconfig

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/owner"
)

// The init lock is a ConfigMap that exactly one control plane machine of a
// Cluster can create: the one that runs kubeadm init. It goes when the first
// other machine joins.
const (
	lockSuffix = "-lock"
	lockKey    = "lock-information"
)

type lockInformation struct {
	MachineName string `json:"machineName"`
}

// lock takes the lock for the machine. It returns the name of the Machine that
// has it instead, or "" when it is ours.
func (r *Reconciler) lock(ctx context.Context, s *state) (holder string, err error) {
	held := &corev1.ConfigMap{}
	err = r.Mgmt.Get(ctx, s.lockName(), held)
	if apierrors.IsNotFound(err) {
		if err = r.createLock(ctx, s); err == nil {
			return "", nil
		}
		if apierrors.IsAlreadyExists(err) { // the cache did not show it yet
			err = r.Live.Get(ctx, s.lockName(), held)
		}
	}
	if err != nil {
		return "", fmt.Errorf("take the init lock, ConfigMap %s: %w", s.lockName(), err)
	}
	var info lockInformation
	if err := json.Unmarshal([]byte(held.Data[lockKey]), &info); err != nil || info.MachineName == "" {
		return "", s.refuse("the init lock, ConfigMap %s, does not say in its key %s who holds it: delete it", s.lockName(), lockKey)
	}
	if info.MachineName == s.machine.name {
		return "", nil
	}
	// Read live: a Machine that the cache does not show yet must not lose its lock.
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: s.config.Namespace, Name: info.MachineName}, &clusterv1.Machine{})
	switch {
	case err == nil:
		return info.MachineName, nil
	case !apierrors.IsNotFound(err):
		return "", fmt.Errorf("get Machine %s/%s, which holds the init lock: %w", s.config.Namespace, info.MachineName, err)
	}
	ctrl.LoggerFrom(ctx).Info("Taking the init lock from a Machine that has gone", "holder", info.MachineName)
	if err := r.deleteLock(ctx, held); err != nil {
		return "", err
	}
	if err := r.createLock(ctx, s); err != nil {
		return "", fmt.Errorf("take the init lock, ConfigMap %s: %w", s.lockName(), err)
	}
	return "", nil
}

func (s *state) lockName() client.ObjectKey {
	return client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Name + lockSuffix}
}

func (r *Reconciler) createLock(ctx context.Context, s *state) error {
	info, err := json.Marshal(lockInformation{MachineName: s.machine.name})
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
		Data: map[string]string{lockKey: string(info)},
	})
}

// unlock removes the lock, whoever has it.
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
