// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestApplyDeletesNothingElse upgrades the control plane by a plan while a health check
// has a worker remediated, which the plan does not delete.
func TestApplyDeletesNothingElse(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("demo", shape{controlPlane: 1, workers: 1, version: "v1.36.1"})
	f.becomes("demo")
	worker := workerMachine(f).(*clusterv1.Machine)
	check := f.healthOf("demo")
	f.must(f.Client.Create(t.Context(), check))
	f.eventually(func() error { return f.healthy(check, 1) })
	p := &planned{fleet: f, name: "demo"}
	p.connect()
	p.steady(true)

	file := filepath.Join(t.TempDir(), "upgrade.plan")
	capstan := func(args ...string) *exec.Cmd {
		return exec.CommandContext(t.Context(), testenv.Binary(t), append(args, "--kubeconfig", f.Kubeconfig)...)
	}
	f.saves(file, "1 machines are replaced", "--set", "kubeadmcontrolplane/demo-control-plane", "spec.version=v1.36.2")
	var out bytes.Buffer
	apply := capstan("apply", file)
	apply.Stdout, apply.Stderr = &out, &out
	f.must(apply.Start())
	ended := make(chan error, 1)
	go func() { ended <- apply.Wait() }()
	guard := &planv1.PlanGuard{}
	f.eventually(func() error { return f.Client.Get(t.Context(), f.key("demo"), guard) })

	remediate := fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, clusterv1.RemediateMachineAnnotation)
	f.must(f.Client.Patch(t.Context(), worker, client.RawPatch(types.MergePatchType, []byte(remediate))))
	cluster := &clusterv1.Cluster{}
	f.eventually(func() error {
		if err := f.Client.Get(t.Context(), f.key("demo"), cluster); err != nil {
			return err
		}
		if c := conditions.Get(cluster, planv1.PlanHeldCondition); c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "Machine "+worker.Name+" is not deleted") {
			return fmt.Errorf("PlanHeld is %+v", c)
		}
		return nil
	})
	for _, obj := range []client.Object{worker, &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "demo-control-plane"}}, cluster} {
		if err := f.Client.Delete(t.Context(), obj); !apierrors.IsForbidden(err) {
			t.Errorf("delete %T %s: %v, want it to be forbidden", obj, obj.GetName(), err)
		}
	}
	select {
	case err := <-ended:
		for _, want := range []string{"carried out; other objects were held back", "Held back: Machine " + worker.Name} {
			if err != nil || !strings.Contains(out.String(), want) {
				t.Errorf("apply: %v, no %q in:\n%s", err, want, out.String())
			}
		}
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	kept := &clusterv1.Machine{}
	f.must(f.Client.Get(t.Context(), client.ObjectKeyFromObject(worker), kept))
	if !kept.DeletionTimestamp.IsZero() {
		t.Error("the worker is being deleted although the plan does not have that")
	}
	if again, err := capstan("apply", file).CombinedOutput(); err == nil || !strings.Contains(string(again), "has changed since the plan was saved") {
		t.Errorf("a plan is carried out twice: %v\n%s", err, again)
	}

	if released, err := capstan("apply", "--release", "cluster/demo", "-n", f.Namespace).CombinedOutput(); err != nil {
		t.Fatalf("release: %v\n%s", err, released)
	}
	f.eventually(func() error {
		if err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(worker), kept); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the worker is not remediated: %v", err)
		}
		if err := f.Client.Get(t.Context(), f.key("demo"), cluster); err != nil || conditions.Get(cluster, planv1.PlanHeldCondition) != nil {
			return fmt.Errorf("PlanHeld stays: %v", err)
		}
		var events corev1.EventList
		if err := f.Client.List(t.Context(), &events, client.InNamespace(f.Namespace)); err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == "PlanReleased" && e.InvolvedObject.UID == cluster.UID {
				return nil
			}
		}
		return fmt.Errorf("no event names the user who has released the Cluster")
	})
}

// saves saves the plan of a change, whose output contains a text. It makes the plan again
// while the Cluster is not in a steady state: on a busy machine, controllers can pause for
// longer than planned.steady waits.
func (f *fleet) saves(file, want string, change ...string) {
	f.Helper()
	f.eventually(func() error {
		out, err := exec.CommandContext(f.Context(), testenv.Binary(f), append([]string{"plan", "-n", f.Namespace, "--save", file, "--kubeconfig", f.Kubeconfig}, change...)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) { // machines go: its exit status is 2
			return fmt.Errorf("plan: %v, want %q and an exit status, in:\n%s", err, want, out)
		}
		return nil
	})
}

// TestClusterRequiresPlans holds that a Cluster with the annotation loses no Machine
// without a plan.
func TestClusterRequiresPlans(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.create("demo", shape{controlPlane: 1, workers: 2, version: "v1.36.1"})
	f.becomes("demo")
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "demo"}}
	annotate := func(value string) {
		f.must(f.Client.Patch(t.Context(), cluster, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, planv1.RequirePlanAnnotation, value))))
	}
	annotate(`"true"`)
	guard := &planv1.PlanGuard{}
	f.eventually(func() error { return f.Client.Get(t.Context(), f.key("demo"), guard) })

	workers := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "demo-workers"}}
	change := func(fields string) error {
		return f.Client.Patch(t.Context(), workers, client.RawPatch(types.MergePatchType, []byte(fields)))
	}
	for fields, want := range map[string]bool{
		`{"spec":{"template":{"spec":{"version":"v1.36.2"}}}}`:              false,
		`{"spec":{"replicas":1}}`:                                           false,
		`{"spec":{"template":{"metadata":{"labels":{"say":"something"}}}}}`: true,
	} {
		if err := change(fields); (err == nil) != want || !want && !strings.Contains(err.Error(), "requires a plan") {
			t.Errorf("%s: %v", fields, err)
		}
	}
	if err := f.Client.Delete(t.Context(), workerMachine(f)); !apierrors.IsForbidden(err) {
		t.Errorf("delete a Machine: %v", err)
	}
	p := &planned{fleet: f, name: "demo"}
	p.connect()
	p.steady(true)
	before := f.uids("demo", func(*clusterv1.Machine) bool { return true })
	file := filepath.Join(t.TempDir(), "upgrade.plan")
	f.saves(file, "2 machines are replaced", "--set", "machinedeployment/demo-workers", "spec.template.spec.version=v1.36.2")
	if out, err := exec.CommandContext(t.Context(), testenv.Binary(t), "apply", file, "--kubeconfig", f.Kubeconfig).CombinedOutput(); err != nil {
		t.Fatalf("apply: %v\n%s", err, out)
	}
	after := f.uids("demo", func(*clusterv1.Machine) bool { return true })
	left := 0
	for _, uid := range before {
		if strings.Contains(strings.Join(after, " "), uid) {
			left++
		}
	}
	if left != 1 || len(after) != 3 {
		t.Errorf("%d of the 3 Machines are left, and there are %d: want the control plane alone, and 3", left, len(after))
	}
	f.must(f.Client.Get(t.Context(), f.key("demo"), guard))
	if !guard.Spec.Required || guard.Spec.Plan != "" {
		t.Errorf("after the plan the guard is %+v", guard.Spec)
	}
	annotate("null")
	f.eventually(func() error {
		if err := f.Client.Get(t.Context(), f.key("demo"), guard); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the guard stays: %v", err)
		}
		return nil
	})
}

// TestGuardSurvivesAKill kills a plane while a plan is carried out.
func TestGuardSurvivesAKill(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	p := &ownPlane{T: t, dir: t.TempDir(), metrics: testenv.FreeAddress(t)}
	f := p.start()
	f.create("demo", shape{controlPlane: 1, workers: 1})
	f.becomes("demo")
	worker := workerMachine(f)
	guard := &planv1.PlanGuard{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: "demo"},
		Spec: planv1.PlanGuardSpec{
			Plan: "p1", Deadline: metav1.NewTime(time.Now().Add(24 * time.Hour)), Cluster: &planv1.Cluster{Namespace: f.Namespace, Name: "demo"},
		},
	}
	f.must(f.Client.Create(t.Context(), guard))
	if err := f.Client.Delete(t.Context(), worker); !apierrors.IsForbidden(err) {
		t.Errorf("before: %v", err)
	}
	f.must(p.crash())
	f = p.start()
	if err := f.Client.Delete(t.Context(), worker); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "plan p1, which is being carried out, does not have that") {
		t.Errorf("after the kill: %v", err)
	}
	f.eventually(func() error {
		cluster := &clusterv1.Cluster{}
		if err := f.Client.Get(t.Context(), f.key("demo"), cluster); err != nil {
			return err
		}
		if c := conditions.Get(cluster, planv1.PlanHeldCondition); c == nil || c.Status != metav1.ConditionFalse {
			return fmt.Errorf("PlanHeld is %+v", c)
		}
		return nil
	})
}
