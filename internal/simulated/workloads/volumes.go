// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
	"github.com/capstan-dev/capstan/internal/simulated/workloads/plan"
)

var (
	volumes        = schema.GroupResource{Resource: "persistentvolumes"}
	volumeClaims   = schema.GroupResource{Resource: "persistentvolumeclaims"}
	storageClasses = schema.GroupResource{Group: storagev1.GroupName, Resource: "storageclasses"}
)

// volumeClaim binds a claim to an existing volume, or to one that is created for
// it; and reclaims the volume of a deleted claim.
func (c *Controllers) volumeClaim(key store.Key) (time.Time, error) {
	claim := read[corev1.PersistentVolumeClaim](c, key)
	all := list[corev1.PersistentVolume](c, volumes, "", nil)
	if claim == nil {
		for _, v := range all {
			if r := v.Spec.ClaimRef; r != nil && r.Namespace == key.Namespace && r.Name == key.Name {
				if err := c.reclaim(v); err != nil {
					return time.Time{}, err
				}
			}
		}
		return time.Time{}, nil
	}
	if claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimBound {
		return time.Time{}, nil
	}
	class := plan.ClassOf(claim, list[storagev1.StorageClass](c, storageClasses, "", nil))
	volume := plan.VolumeFor(claim, class, all)
	if volume == nil {
		if volume = plan.NewVolume(claim, class); volume == nil {
			return time.Time{}, nil // a volume or a class triggers another reconcile
		}
		if err := c.store.Add(volume); err != nil && !apierrors.IsAlreadyExists(err) {
			return time.Time{}, err
		}
	}
	err := modify(c, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume.Name}}, func(v *corev1.PersistentVolume) error {
		plan.Bind(claim, v, class)
		volume = v
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	return time.Time{}, modify(c, claim, func(latest *corev1.PersistentVolumeClaim) error {
		if latest.Status.Phase == corev1.ClaimBound {
			return errUnchanged
		}
		plan.Bind(latest, volume, class)
		return nil
	})
}

// reclaim applies the reclaim policy of a volume once its claim is deleted.
func (c *Controllers) reclaim(v *corev1.PersistentVolume) error {
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		return c.store.Remove(corev1.SchemeGroupVersion.WithResource(volumes.Resource), "", v.Name)
	}
	return c.setPhase(v.Name, corev1.VolumeReleased)
}

// volume reports a new volume as available, and offers it to claims.
func (c *Controllers) volume(key store.Key) (time.Time, error) {
	v := read[corev1.PersistentVolume](c, key)
	if v == nil || v.DeletionTimestamp != nil {
		return time.Time{}, nil
	}
	if r := v.Spec.ClaimRef; r != nil {
		claim := c.store.Entries().Get(store.Key{Resource: volumeClaims, Namespace: r.Namespace, Name: r.Name})
		if v.Status.Phase == corev1.VolumeBound && (claim == nil || claim.UID != r.UID) {
			return time.Time{}, c.reclaim(v)
		}
	} else if v.Status.Phase == corev1.VolumePending {
		return time.Time{}, c.setPhase(v.Name, corev1.VolumeAvailable) // which triggers another reconcile
	}
	return c.storageClass(key)
}

func (c *Controllers) setPhase(volume string, phase corev1.PersistentVolumePhase) error {
	return modify(c, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: volume}}, func(v *corev1.PersistentVolume) error {
		if v.Status.Phase == phase {
			return errUnchanged
		}
		v.Status.Phase = phase
		return nil
	})
}

// storageClass queues the claims that wait for a class.
func (c *Controllers) storageClass(store.Key) (time.Time, error) {
	entries, _ := c.store.Entries().List(volumeClaims, "")
	for _, e := range slices.Clone(entries) {
		if claim := read[corev1.PersistentVolumeClaim](c, e.Key); claim != nil && claim.Status.Phase == corev1.ClaimPending {
			c.todo[e.Key] = true
		}
	}
	return time.Time{}, nil
}
