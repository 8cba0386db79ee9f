// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// TestAWorkerGoesStepByStep has each step of a deletion wait for what a user, or
// the workload cluster, does.
func TestAWorkerGoesStepByStep(t *testing.T) {
	t.Parallel()
	const (
		name         = "demo-workers-1-1"
		preDrain     = clusterv1.PreDrainDeleteHookAnnotationPrefix + "/backup"
		preTerminate = clusterv1.PreTerminateDeleteHookAnnotationPrefix + "/inventory"
	)
	w := New(t)
	create(t, w, "demo", 1, 1)
	c, err := w.clusters.Client(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"})
	w.must(err)
	node := get(t, w, name, &clusterv1.Machine{}).Status.NodeRef.Name
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job-0", Labels: map[string]string{clusterv1.PodDrainLabel: "wait-completed"}}}
	pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "job", Image: "job"}}}
	volume := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec = storagev1.VolumeAttachmentSpec{Attacher: "disk.io", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-0")}}
	w.must(errors.Join(c.Create(t.Context(), pod), c.Create(t.Context(), volume)))
	volume.Status.Attached = true
	w.must(c.Status().Update(t.Context(), volume))
	step := func() {
		t.Helper()
		deleting := conditions.Get(get(t, w, name, &clusterv1.Machine{}), clusterv1.DeletingCondition)
		w.Record("Machine %s: %s: %s", name, deleting.Reason, strings.ReplaceAll(deleting.Message, "\n", " "))
	}

	change(t, w, name, &clusterv1.Machine{}, "hold the Machine by two hooks", func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{preDrain: "", preTerminate: ""}
	})
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "scale to 0", func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	step()
	change(t, w, name, &clusterv1.Machine{}, "release the first", func(m *clusterv1.Machine) { delete(m.Annotations, preDrain) })
	step()
	w.Record("# the Pod completes")
	w.must(c.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	w.RunFor(time.Minute)
	step()
	w.Record("# the volume is detached")
	w.must(c.Delete(t.Context(), volume))
	w.RunFor(time.Minute)
	step()
	change(t, w, name, &clusterv1.Machine{}, "release the second", func(m *clusterv1.Machine) { delete(m.Annotations, preTerminate) })
	end(t, w)
	w.Golden("a-worker-goes-step-by-step.txt")
}
