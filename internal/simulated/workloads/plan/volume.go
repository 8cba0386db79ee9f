// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Provisioner is that of the classes whose volumes are created here. Claims of
// other classes stay pending, as without their driver.
const Provisioner = "simulated.capstan.dev/volumes"

const (
	defaultClass   = "storageclass.kubernetes.io/is-default-class"
	bindCompleted  = "pv.kubernetes.io/bind-completed"
	boundBy        = "pv.kubernetes.io/bound-by-controller"
	provisionedBy  = "pv.kubernetes.io/provisioned-by"
	claimProvision = "volume.kubernetes.io/storage-provisioner"
)

// ClassOf is the class of a claim: the one that it names, or the default one, the
// newest if there are several. It is nil if there is none.
func ClassOf(claim *corev1.PersistentVolumeClaim, classes []*storagev1.StorageClass) *storagev1.StorageClass {
	var found *storagev1.StorageClass
	for _, c := range classes {
		switch name := claim.Spec.StorageClassName; {
		case name != nil && c.Name == *name:
			return c
		case name == nil && c.Annotations[defaultClass] == "true" && (found == nil || found.CreationTimestamp.Before(&c.CreationTimestamp)):
			found = c
		}
	}
	return found
}

// classNamed is the name of the class that a claim is of; empty for none.
func classNamed(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) string {
	switch {
	case claim.Spec.StorageClassName != nil:
		return *claim.Spec.StorageClassName
	case class != nil:
		return class.Name
	}
	return ""
}

// VolumeFor is the volume that a claim gets of those that are there: the one that
// is kept for it, or the smallest that will do; nil if there is none.
func VolumeFor(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, volumes []*corev1.PersistentVolume) *corev1.PersistentVolume {
	var best *corev1.PersistentVolume
	for _, v := range volumes {
		if r := v.Spec.ClaimRef; r != nil {
			if r.Namespace == claim.Namespace && r.Name == claim.Name && (r.UID == "" || r.UID == claim.UID) {
				return v
			}
			continue
		}
		if fits(claim, class, v) && (best == nil || v.Spec.Capacity.Storage().Cmp(*best.Spec.Capacity.Storage()) < 0) {
			best = v
		}
	}
	return best
}

func fits(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, v *corev1.PersistentVolume) bool {
	asked, offered := map[corev1.PersistentVolumeAccessMode]bool{}, map[corev1.PersistentVolumeAccessMode]bool{}
	for _, m := range claim.Spec.AccessModes {
		asked[m] = true
	}
	for _, m := range v.Spec.AccessModes {
		offered[m] = true
	}
	maps.DeleteFunc(asked, func(m corev1.PersistentVolumeAccessMode, _ bool) bool { return offered[m] })
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	return err == nil && (claim.Spec.Selector == nil || selector.Matches(labels.Set(v.Labels))) && len(asked) == 0 &&
		v.DeletionTimestamp == nil && v.Status.Phase == corev1.VolumeAvailable && v.Spec.StorageClassName == classNamed(claim, class) &&
		(claim.Spec.VolumeName == "" || claim.Spec.VolumeName == v.Name) && v.Spec.Capacity.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) >= 0
}

// NewVolume creates a volume for a claim; nil if its class is not provisioned here.
func NewVolume(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) *corev1.PersistentVolume {
	if class == nil || class.Provisioner != Provisioner || claim.Spec.VolumeName != "" || claim.Spec.Selector != nil {
		return nil
	}
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID), Annotations: map[string]string{provisionedBy: Provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: *claim.Spec.Resources.Requests.Storage()},
			AccessModes: claim.Spec.AccessModes, VolumeMode: claim.Spec.VolumeMode, StorageClassName: class.Name, MountOptions: class.MountOptions,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: Provisioner, VolumeHandle: string(claim.UID)}},
		},
	}
	if class.ReclaimPolicy != nil {
		v.Spec.PersistentVolumeReclaimPolicy = *class.ReclaimPolicy
	}
	return v
}

// Bind notes in a claim and in a volume that they belong together.
func Bind(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, class *storagev1.StorageClass) {
	v.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	v.Status.Phase = corev1.VolumeBound
	name := classNamed(claim, class)
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &name, v.Name
	claim.Annotations = With(With(claim.Annotations, bindCompleted, "yes"), boundBy, "yes")
	if by := v.Annotations[provisionedBy]; by != "" {
		claim.Annotations = With(claim.Annotations, claimProvision, by)
	}
	claim.Status.Phase, claim.Status.AccessModes, claim.Status.Capacity = corev1.ClaimBound, v.Spec.AccessModes, v.Spec.Capacity
}
