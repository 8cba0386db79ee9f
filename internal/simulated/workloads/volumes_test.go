// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func claim(name, size string, class *string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: meta(name), Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
	}}
}

// claims are those of namespace default, as in "data: Bound to pv, 1Gi of class".
func (l *lab) claims() (out []string) {
	l.t.Helper()
	for _, c := range load[corev1.PersistentVolumeClaim](l, "v1/persistentvolumeclaims", "default") {
		line := c.Name + ": " + string(c.Status.Phase)
		if c.Spec.VolumeName != "" {
			v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName}}
			l.must(l.store.Load(v))
			if v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID || v.Status.Phase != corev1.VolumeBound {
				l.t.Errorf("volume %s is %s for %+v, want it bound to %s", v.Name, v.Status.Phase, v.Spec.ClaimRef, c.Name)
			}
			name := v.Name
			if name == "pvc-"+string(c.UID) {
				name = "its own"
			}
			line += fmt.Sprintf(" to %s, %s of %s", name, c.Status.Capacity.Storage(), *c.Spec.StorageClassName)
		}
		out = append(out, line)
	}
	return out
}

func TestClaimsOfAStatefulSetAreBound(t *testing.T) {
	t.Parallel()
	l := newLab(t, "a")
	l.must(l.store.Add(&appsv1.StatefulSet{ObjectMeta: meta("db"), Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(2)), Selector: selector("db"), Template: template("db", "v1"),
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: claim("", "1Gi", nil).Spec}},
	}}))
	l.want("Pods", l.pods(), "db-0 on a: Running, ready", "db-1 on a: Running, ready")
	l.want("claims", l.claims(), "data-db-0: Bound to its own, 1Gi of simulated", "data-db-1: Bound to its own, 1Gi of simulated")
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default", "data-db-1"))
	if got := len(load[corev1.PersistentVolume](l, "v1/persistentvolumes", "")); got != 1 {
		t.Errorf("%d volumes, want the one that is left", got)
	}
}

func TestAClaimWaitsForAVolumeOfItsClass(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(l.store.Add(claim("by-hand", "1Gi", new(""))))
	l.must(l.store.Add(claim("elsewhere", "1Gi", new("fast"))))
	l.want("before", l.claims(), "by-hand: Pending", "elsewhere: Pending")
	for name, size := range map[string]string{"large": "5Gi", "medium": "2Gi", "small": "500Mi"} {
		l.must(l.store.Add(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: "kept", PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		}}))
	}
	l.must(l.store.Add(claim("kept", "1Gi", new("kept"))))
	l.want("of another class", l.claims(), "by-hand: Pending", "elsewhere: Pending", "kept: Bound to medium, 2Gi of kept")
	l.must(l.store.Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "ebs.csi.aws.com"}))
	l.want("whose driver is not here", l.claims(), "by-hand: Pending", "elsewhere: Pending", "kept: Bound to medium, 2Gi of kept")
	l.must(l.store.Remove(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default", "kept"))
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "medium"}}
	l.must(l.store.Load(v))
	if v.Status.Phase != corev1.VolumeReleased {
		t.Errorf("the volume of a claim that is gone is %s, want it kept and released", v.Status.Phase)
	}
}
