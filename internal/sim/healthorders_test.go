// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// oneIsReplaced creates a World in which a check has found two workers unhealthy:
// one is being deleted, held by a hook, and the other has to wait for that.
func oneIsReplaced(t *testing.T) *story {
	t.Helper()
	w := New(t)
	create(t, w, "demo", 1, 3)
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "allow one replacement at a time", func(d *clusterv1.MachineDeployment) {
		d.Spec.Remediation.MaxInFlight = new(intstr.FromInt32(1))
	})
	watchOver(t, w, workersHealth())
	for _, name := range []string{"demo-workers-1-1", "demo-workers-1-2"} {
		change(t, w, name, &clusterv1.Machine{}, "keep "+name+" from going by a hook", func(m *clusterv1.Machine) {
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.PreTerminateDeleteHookAnnotationPrefix+"/held", "")
		})
		fault(t, w, name, infrav1.MachineFaultNodeNotReady)
	}
	w.RunFor(10 * time.Minute)
	health(t, w)
	return w
}

// release releases the worker that is being replaced, so that the other one could
// follow.
func release(t *testing.T, w *story) {
	t.Helper()
	for _, obj := range w.objects("Machine") {
		if m := obj.(*clusterv1.Machine); !m.DeletionTimestamp.IsZero() {
			change(t, w, m.Name, &clusterv1.Machine{}, "let "+m.Name+" go", func(m *clusterv1.Machine) {
				delete(m.Annotations, clusterv1.PreTerminateDeleteHookAnnotationPrefix+"/held")
			})
		}
	}
	w.RunFor(time.Minute)
}

func TestNothingIsReplacedForACheckThatHasGone(t *testing.T) {
	t.Parallel()
	w := oneIsReplaced(t)
	w.Record("# delete the check")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "workers", &clusterv1.MachineHealthCheck{})))
	w.Run()
	release(t, w)
	w.RunFor(time.Hour)
	health(t, w)
	w.Golden("a-check-that-has-gone-replaces-nothing.txt")
}

func TestANewProcessReplacesNothingBeforeItKnows(t *testing.T) {
	t.Parallel()
	w := oneIsReplaced(t)
	w.Record("# a new process, which has yet to hear of demo")
	clear(w.clusters.open)
	w.Run()
	release(t, w)
	health(t, w)
	w.RunFor(4 * time.Minute)
	health(t, w)
	w.Golden("a-new-process-replaces-nothing-before-it-knows.txt")
}

func TestACheckThatReportsLeavesTheWordOfOthersAlone(t *testing.T) {
	t.Parallel()
	w := oneIsReplaced(t)
	reports := workersHealth()
	reports.Name, reports.Annotations = "trial", map[string]string{clusterv1.RemediationModeAnnotation: clusterv1.RemediationModeReport}
	reports.Spec.Checks.UnhealthyNodeConditions[1].TimeoutSeconds = new(int32(3600))
	watchOver(t, w, reports)
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("a-report-leaves-the-word-of-others-alone.txt")
}

// TestAPausedCheckReplacesNothing pauses a check after it has found an unhealthy
// Machine: when it continues, it has to check again.
func TestAPausedCheckReplacesNothing(t *testing.T) {
	t.Parallel()
	w := oneIsReplaced(t)
	change(t, w, "workers", &clusterv1.MachineHealthCheck{}, "pause the check", func(c *clusterv1.MachineHealthCheck) {
		c.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	})
	release(t, w)
	w.RunFor(time.Hour)
	health(t, w)
	change(t, w, "workers", &clusterv1.MachineHealthCheck{}, "let the check continue", func(c *clusterv1.MachineHealthCheck) { c.Annotations = nil })
	w.RunFor(time.Second)
	for _, obj := range w.objects("Machine") {
		if obj.GetDeletionTimestamp() != nil {
			w.Record("Machine %s is being deleted", obj.GetName())
		}
	}
	w.Golden("a-paused-check-replaces-nothing.txt")
}
