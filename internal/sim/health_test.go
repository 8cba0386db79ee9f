// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// workersHealth is a MachineHealthCheck of the workers of demo: a Node may be
// unready for five minutes, and a Machine without a Node for ten.
func workersHealth() *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "workers"}}
	check.Spec.ClusterName = "demo"
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: "demo-workers"}
	check.Spec.Checks = clusterv1.MachineHealthCheckChecks{
		NodeStartupTimeoutSeconds: new(int32(600)),
		UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: new(int32(300))},
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: new(int32(300))},
		},
	}
	return check
}

// watchOver adds a MachineHealthCheck to the world.
func watchOver(t *testing.T, w *story, check *clusterv1.MachineHealthCheck) {
	t.Helper()
	w.Tell("# add MachineHealthCheck %s", check.Name)
	w.must(w.Mgmt.Create(t.Context(), check))
	w.Run()
}

// health writes what health checks say, of themselves and of Machines, and what
// owners say of remediation.
func health(t *testing.T, w *story) {
	t.Helper()
	for _, obj := range w.objects("MachineHealthCheck") {
		check := obj.(*clusterv1.MachineHealthCheck)
		st := check.Status
		w.Tell("MachineHealthCheck %s: %d of %d healthy, %d more may fail", check.Name, *st.CurrentHealthy, *st.ExpectedMachines, *st.RemediationsAllowed)
		for _, c := range st.Conditions {
			if c.Type != clusterv1.PausedCondition {
				w.Tell("  %s %s %s %s", c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	for _, obj := range w.objects("Machine") {
		for _, of := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition} {
			if c := conditions.Get(obj.(*clusterv1.Machine), of); c != nil {
				w.Tell("Machine %s: %s %s %s %s", obj.GetName(), c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	for _, kind := range []string{"MachineSet", "KubeadmControlPlane"} {
		for _, obj := range w.objects(kind) {
			if c := conditions.Get(obj.(conditions.Getter), clusterv1.RemediatingCondition); c != nil && c.Status == metav1.ConditionTrue {
				w.Tell("%s %s: %s", kind, obj.GetName(), c.Message)
			}
		}
	}
}

func TestAWorkerWhoseNodeIsNotReadyIsReplaced(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 3)
	check := workersHealth()
	check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromString("40%"))
	watchOver(t, w, check)
	health(t, w)
	fault(t, w, "demo-workers-1-1", infrav1.MachineFaultNodeNotReady)
	w.RunFor(299 * time.Second)
	health(t, w)
	w.RunFor(time.Second)
	w.RunFor(time.Minute)
	health(t, w)
	end(t, w)
	w.Golden("an-unready-worker-is-replaced.txt")
}
