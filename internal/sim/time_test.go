// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

func TestAWorkerThatBootsForAnHourStillJoins(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 0)
	change(t, w, "demo-workers", &infrav1.LocalMachineTemplate{}, "let machines boot for an hour, four times as long as a token lasts", func(tmpl *infrav1.LocalMachineTemplate) {
		tmpl.Spec.Template.Spec.Simulated.VM.StartupMilliseconds = new(int32(time.Hour / time.Millisecond))
	})
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "scale to 1", func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(1)) })
	w.RunFor(59 * time.Minute)
	end(t, w)
	w.RunFor(2 * time.Minute)
	end(t, w)
	w.Golden("a-worker-boots-for-an-hour.txt")
}

func TestADrainEndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 1)
	c, err := w.clusters.Client(t.Context(), client.ObjectKey{Namespace: "default", Name: "demo"})
	w.must(err)
	node := get(t, w, "demo-workers-1-1", &clusterv1.Machine{}).Status.NodeRef.Name
	labels := map[string]string{"app": "db"}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-0", Labels: labels}}
	pod.Spec = corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "db", Image: "db"}}}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}}
	w.must(errors.Join(c.Create(t.Context(), pod), c.Create(t.Context(), budget)))
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "let drains take ten minutes", func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(600))
	})
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "scale to 0, of a machine whose Pod no budget allows to evict", func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(0)) })
	w.RunFor(9 * time.Minute)
	deleting := conditions.Get(get(t, w, "demo-workers-1-1", &clusterv1.Machine{}), clusterv1.DeletingCondition)
	w.Record("Machine demo-workers-1-1: Deleting %s: %s", deleting.Reason, strings.ReplaceAll(deleting.Message, "\n", " "))
	w.RunFor(2 * time.Minute)
	end(t, w)
	w.Golden("a-drain-ends-with-its-timeout.txt")
}

func TestTimeAdvancesUntilCondition(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 1)
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "ask for a minute of readiness", func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.MinReadySeconds = new(int32(60))
		d.Spec.Replicas = new(int32(2))
	})
	available := func() bool {
		return conditions.IsTrue(get(t, w, "demo-workers-1-2", &clusterv1.Machine{}), clusterv1.MachineAvailableCondition)
	}
	began := w.Clock.Now()
	if err := w.Until(t.Context(), 59*time.Second, available); err == nil || !strings.Contains(err.Error(), "59s") {
		t.Errorf("before the minute is over: %v", err)
	}
	if err := w.Until(t.Context(), time.Hour, available); err != nil || w.Clock.Since(began) != time.Minute {
		t.Errorf("available after %s, %v; want a minute", w.Clock.Since(began), err)
	}
}

func TestCopiedWorldIsSteadyAndIndependent(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 1)
	objects, err := w.Objects(t.Context())
	w.must(err)
	other := fork(t, w.machines, w.Clock, objects)
	other.Run()
	if other.store.writes != 0 || other.Story() != "" {
		t.Errorf("%d writes in a steady state, and the story:\n%s", other.store.writes, other.Story())
	}
	before := w.store.writes
	change(t, other, "demo-workers", &clusterv1.MachineDeployment{}, "scale to 2", func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(2)) })
	if n := len(other.objects("Machine")); n != 3 {
		t.Errorf("%d Machines in the other world, want 3", n)
	}
	w.Run()
	if n := len(w.objects("Machine")); n != 2 || w.store.writes != before {
		t.Errorf("%d Machines and %d writes in the first world, want 2 and none", n, w.store.writes-before)
	}
}

func TestFailureIsRetriedUntilCorrected(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 0)
	data := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lone", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	host := &infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lone"}}
	host.Spec.Simulated = &infrav1.LocalMachineSimulated{}
	lone := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lone"}}
	lone.Spec = clusterv1.MachineSpec{ClusterName: "demo", Version: "v1.36.3", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("lone")}}
	lone.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion().Group, Kind: "LocalMachine", Name: "lone"}
	w.must(errors.Join(w.Mgmt.Create(t.Context(), data), w.Mgmt.Create(t.Context(), host), w.Mgmt.Create(t.Context(), lone)))
	began := w.Clock.Now()
	if err := w.World.RunFor(t.Context(), 10*time.Minute); err == nil || !strings.Contains(err.Error(), "no bootstrap data") {
		t.Errorf("with an empty Secret: %v", err)
	}
	if passed := w.Clock.Since(began); passed != 10*time.Minute {
		t.Errorf("%s have passed, want ten minutes", passed)
	}
	w.must(w.Mgmt.Delete(t.Context(), lone))
	w.Run()
}
