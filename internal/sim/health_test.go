// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// watchOver adds a MachineHealthCheck to the simulation.
func watchOver(t *testing.T, w *story, check *clusterv1.MachineHealthCheck) {
	t.Helper()
	w.Record("# add MachineHealthCheck %s", check.Name)
	w.must(w.Mgmt.Create(t.Context(), check))
	w.Run()
}

// health writes the statuses of health checks, the health of Machines, and what
// owners report about remediation.
func health(t *testing.T, w *story) {
	t.Helper()
	for _, obj := range w.objects("MachineHealthCheck") {
		check := obj.(*clusterv1.MachineHealthCheck)
		st := check.Status
		w.Record("MachineHealthCheck %s: %d of %d healthy, %d more may fail", check.Name, *st.CurrentHealthy, *st.ExpectedMachines, *st.RemediationsAllowed)
		for _, c := range st.Conditions {
			if c.Type != clusterv1.PausedCondition {
				w.Record("  %s %s %s %s", c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	for _, obj := range w.objects("Machine") {
		for _, of := range []string{clusterv1.MachineHealthCheckSucceededCondition, clusterv1.MachineOwnerRemediatedCondition, clusterv1.MachineExternallyRemediatedCondition} {
			if c := conditions.Get(obj.(*clusterv1.Machine), of); c != nil {
				w.Record("Machine %s: %s %s %s %s", obj.GetName(), c.Type, c.Status, c.Reason, c.Message)
			}
		}
	}
	for _, kind := range []string{"MachineSet", "KubeadmControlPlane"} {
		for _, obj := range w.objects(kind) {
			if c := conditions.Get(obj.(conditions.Getter), clusterv1.RemediatingCondition); c != nil && c.Status == metav1.ConditionTrue {
				w.Record("%s %s: %s", kind, obj.GetName(), c.Message)
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

func TestWhenTooManyWorkersAreUnhealthyNoneIsReplaced(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 3)
	check := workersHealth()
	check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo = new(intstr.FromString("40%"))
	watchOver(t, w, check)
	for _, name := range []string{"demo-workers-1-1", "demo-workers-1-2", "demo-workers-1-3"} {
		fault(t, w, name, infrav1.MachineFaultNodeNotReady)
		w.RunFor(time.Minute) // the limit counts Machines that are about to fail, not only those past their timeout
	}
	w.RunFor(10 * time.Minute)
	health(t, w)
	for _, name := range []string{"demo-workers-1-2", "demo-workers-1-3"} {
		fault(t, w, name)
	}
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("too-many-unhealthy-workers-stay.txt")
}

func TestWhileAClusterDoesNotAnswerNothingIsReplaced(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 2)
	watchOver(t, w, workersHealth())
	fault(t, w, "demo-workers-1-1", infrav1.MachineFaultNodeNotReady)
	w.RunFor(4 * time.Minute)
	w.Record("# cut the way to demo")
	w.clusters.cut = true
	w.RunFor(30 * time.Minute)
	health(t, w)
	w.Record("# repair the route to demo")
	w.clusters.cut = false
	w.RunFor(299 * time.Second)
	health(t, w)
	w.RunFor(time.Second)
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("a-silent-cluster-loses-no-worker.txt")
}

func TestAClusterThatHangsLosesNoWorker(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 2)
	watchOver(t, w, workersHealth())
	hangs := func(what string, faults ...infrav1.ClusterFault) {
		change(t, w, "demo", &infrav1.LocalCluster{}, what, func(c *infrav1.LocalCluster) { c.Spec.Simulated.Faults = faults })
	}
	hangs("let demo hang", infrav1.ClusterFaultAPIServerHangs)
	w.RunFor(30 * time.Minute)
	health(t, w)
	hangs("let demo answer")
	w.RunFor(time.Minute)
	health(t, w)
	end(t, w)
	w.Golden("a-cluster-that-hangs-loses-no-worker.txt")
}

func TestAWorkerThatNeverGetsANodeIsReplaced(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 1)
	watchOver(t, w, workersHealth())
	change(t, w, "demo-workers", &infrav1.LocalMachineTemplate{}, "let new workers never boot", func(tmpl *infrav1.LocalMachineTemplate) { neverBoot(tmpl.Spec.Template.Spec.Simulated) })
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "scale to 2", func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(2)) })
	w.RunFor(599 * time.Second)
	health(t, w)
	change(t, w, "demo-workers", &infrav1.LocalMachineTemplate{}, "let new workers boot", func(tmpl *infrav1.LocalMachineTemplate) { boot(tmpl.Spec.Template.Spec.Simulated) })
	w.RunFor(time.Second)
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("a-worker-without-a-node-is-replaced.txt")
}

func TestAWorkerWhoseNodeIsDeletedIsReplaced(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 2)
	watchOver(t, w, workersHealth())
	w.Record("# delete Node demo-workers-1-1")
	c, err := w.clusters.Client(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"})
	w.must(err)
	w.must(c.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "demo-workers-1-1"}}))
	w.Run()
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("a-worker-whose-node-is-deleted-is-replaced.txt")
}

func TestUsersHaveAWorkerReplacedOrLeftAlone(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 3)
	watchOver(t, w, workersHealth())
	annotate := func(name, annotation string) {
		change(t, w, name, &clusterv1.Machine{}, "annotate "+name+" with "+annotation, func(m *clusterv1.Machine) { metav1.SetMetaDataAnnotation(&m.ObjectMeta, annotation, "") })
	}
	annotate("demo-workers-1-2", clusterv1.MachineSkipRemediationAnnotation)
	fault(t, w, "demo-workers-1-2", infrav1.MachineFaultNodeNotReady)
	annotate("demo-workers-1-1", clusterv1.RemediateMachineAnnotation)
	w.RunFor(10 * time.Minute)
	health(t, w)
	change(t, w, "demo-workers-1-2", &clusterv1.Machine{}, "leave demo-workers-1-2 alone no longer", func(m *clusterv1.Machine) {
		delete(m.Annotations, clusterv1.MachineSkipRemediationAnnotation)
	})
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("users-have-workers-replaced-or-left-alone.txt")
}

func TestAReportReplacesNothing(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 2)
	check := workersHealth()
	check.Annotations = map[string]string{clusterv1.RemediationModeAnnotation: clusterv1.RemediationModeReport}
	watchOver(t, w, check)
	fault(t, w, "demo-workers-1-1", infrav1.MachineFaultNodeNotReady)
	w.RunFor(time.Hour)
	health(t, w)
	change(t, w, "workers", &clusterv1.MachineHealthCheck{}, "remediate", func(c *clusterv1.MachineHealthCheck) { c.Annotations = nil })
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("a-report-replaces-nothing.txt")
}

func TestWorkersAreReplacedAFewAtATime(t *testing.T) {
	t.Parallel()
	w := oneIsReplaced(t)
	change(t, w, "demo-workers-1-1", &clusterv1.Machine{}, "let demo-workers-1-1 go", func(m *clusterv1.Machine) {
		delete(m.Annotations, clusterv1.PreTerminateDeleteHookAnnotationPrefix+"/held")
	})
	health(t, w)
	w.Golden("workers-are-replaced-one-at-a-time.txt")
}

// controlPlaneHealth is a MachineHealthCheck of the control plane of demo.
func controlPlaneHealth() *clusterv1.MachineHealthCheck {
	check := workersHealth()
	check.Name = "control-plane"
	check.Spec.Selector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: clusterv1.MachineControlPlaneLabel, Operator: metav1.LabelSelectorOpExists}}}
	return check
}

func TestAControlPlaneKeepsItsQuorumWhileItIsRepaired(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 0)
	watchOver(t, w, controlPlaneHealth())
	fault(t, w, "demo-control-plane-2", infrav1.MachineFaultNodeNotReady)
	fault(t, w, "demo-control-plane-3", infrav1.MachineFaultEtcdUnhealthy)
	w.RunFor(10 * time.Minute)
	health(t, w)
	members(t, w)
	fault(t, w, "demo-control-plane-3")
	w.RunFor(10 * time.Minute)
	health(t, w)
	members(t, w)
	end(t, w)
	w.Golden("a-control-plane-keeps-its-quorum.txt")
}

func TestTheFirstMachineThatNeverComesUpIsReplaced(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 0, 0)
	watchOver(t, w, controlPlaneHealth())
	newMachines(t, w, "let new machines never boot", neverBoot)
	scale(t, w, 1, "scale to 1")
	w.RunFor(599 * time.Second)
	health(t, w)
	newMachines(t, w, "let new machines boot", boot)
	w.RunFor(time.Second)
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("a-first-machine-that-never-comes-up-is-replaced.txt")
}

func TestOneMachineIsCheckedByOneHealthCheck(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 2)
	watchOver(t, w, workersHealth())
	w.RunFor(time.Minute)
	everything := workersHealth()
	everything.Name, everything.Spec.Selector.MatchLabels = "everything", map[string]string{clusterv1.ClusterNameLabel: "demo"}
	everything.Spec.Checks.UnhealthyNodeConditions[1].TimeoutSeconds = new(int32(0))
	watchOver(t, w, everything)
	fault(t, w, "demo-workers-1-1", infrav1.MachineFaultNodeNotReady)
	w.RunFor(time.Minute)
	health(t, w)
	w.Record("# delete the older one")
	w.must(w.Mgmt.Delete(t.Context(), get(t, w, "workers", &clusterv1.MachineHealthCheck{})))
	w.Run()
	w.RunFor(time.Minute)
	health(t, w)
	w.Golden("two-health-checks-select-one-worker.txt")
}

func TestAnExternalControllerRepairsAWorker(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 2)
	check := workersHealth()
	check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: "x.io/v1", Kind: "FixTemplate", Name: "fix"}
	watchOver(t, w, check)
	fault(t, w, "demo-workers-1-1", infrav1.MachineFaultNodeNotReady)
	w.RunFor(10 * time.Minute)
	health(t, w)
	w.Record("# create FixTemplate fix")
	fix := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"strategy": "reboot"}}}}}
	fix.SetAPIVersion("x.io/v1")
	fix.SetKind("FixTemplate")
	fix.SetNamespace("default")
	fix.SetName("fix")
	w.must(w.Mgmt.Create(t.Context(), fix))
	w.Run()
	health(t, w)
	requests := func() {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("x.io/v1")
		list.SetKind("FixList")
		w.must(w.Mgmt.List(t.Context(), list))
		w.Record("%d requests", len(list.Items))
		for _, r := range list.Items {
			w.Record("Fix %s of %s %s", r.GetName(), r.GetOwnerReferences()[0].Kind, r.GetOwnerReferences()[0].Name)
		}
	}
	requests()
	fault(t, w, "demo-workers-1-1")
	w.RunFor(time.Minute)
	health(t, w)
	requests()
	w.Golden("an-external-controller-repairs-a-worker.txt")
}
