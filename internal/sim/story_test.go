// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
)

// create adds the objects of a cluster to the simulation, as users do.
func create(t *testing.T, w *story, name string, controlPlane, workers int32) {
	t.Helper()
	createFrom(t, w, template.Local(), name, controlPlane, workers)
}

// createFrom does it from a certain template.
func createFrom(t *testing.T, w *story, from []byte, name string, controlPlane, workers int32) {
	t.Helper()
	w.Record("# create %s with %d control plane and %d worker machines", name, controlPlane, workers)
	doc, err := clusterctl.Generate(clusterctl.GenerateOptions{
		Name: name, KubernetesVersion: "v1.36.3", ControlPlaneMachines: &controlPlane, WorkerMachines: &workers, Template: from,
	})
	if err != nil {
		t.Fatal(err)
	}
	objects, err := template.Objects(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects {
		if err := w.Mgmt.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	w.Run()
}

func get[T client.Object](t *testing.T, w *story, name string, obj T) T {
	t.Helper()
	if err := w.Mgmt.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// change edits an object as a user does, and lets the simulation reach steady
// state.
func change[T client.Object](t *testing.T, w *story, name string, obj T, what string, how func(T)) {
	t.Helper()
	w.Record("# %s", what)
	edit(t, w, name, obj, how)
	w.Run()
}

// edit changes an object as a user does.
func edit[T client.Object](t *testing.T, w *story, name string, obj T, how func(T)) {
	t.Helper()
	get(t, w, name, obj)
	before := obj.DeepCopyObject().(client.Object)
	how(obj)
	if err := w.Mgmt.Patch(t.Context(), obj, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// end writes the final state of the simulation: the cluster and its machines.
func end(t *testing.T, w *story) {
	t.Helper()
	w.Record("# in steady state")
	for _, obj := range w.objects("Cluster") {
		c := obj.(*clusterv1.Cluster)
		available := conditions.Get(c, clusterv1.AvailableCondition)
		w.Record("Cluster %s: %s, Available %s %s", c.Name, c.Status.Phase, available.Status, available.Message)
	}
	for _, obj := range w.objects("Machine") {
		m := obj.(*clusterv1.Machine)
		ready := conditions.Get(m, clusterv1.ReadyCondition)
		w.Record("Machine %s: %s %s, Ready %s %s", m.Name, m.Spec.Version, m.Status.Phase, ready.Status, ready.Message)
	}
}

func TestAClusterComesUp(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 2)
	end(t, w)
	w.Golden("a-cluster-comes-up.txt")
}

func TestSteadyStateWritesNothing(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 1)
	before := w.store.writes
	w.Run()
	if w.store.writes != before {
		t.Errorf("%d writes in steady state", w.store.writes-before)
	}
}

func TestAControlPlaneIsScaledOneMachineAtATime(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 0)
	for _, n := range []int32{3, 5, 3} {
		change(t, w, "demo-control-plane", &controlplanev1.KubeadmControlPlane{}, fmt.Sprintf("scale to %d", n), func(k *controlplanev1.KubeadmControlPlane) {
			k.Spec.Replicas = &n
		})
	}
	end(t, w)
	w.Golden("a-control-plane-is-scaled.txt")
}

func TestWorkersAreScaled(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 1)
	for _, n := range []int32{3, 1} {
		change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, fmt.Sprintf("scale to %d", n), func(d *clusterv1.MachineDeployment) {
			d.Spec.Replicas = &n
		})
	}
	end(t, w)
	w.Golden("workers-are-scaled.txt")
}

func TestANewWorkerTemplateIsRolledOut(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 3)
	old := get(t, w, "demo-workers", &infrav1.LocalMachineTemplate{})
	next := &infrav1.LocalMachineTemplate{Spec: old.Spec}
	next.Namespace, next.Name, next.Labels = "default", "demo-workers-2", old.Labels
	if err := w.Mgmt.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "use another template", func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.InfrastructureRef.Name = next.Name
	})
	end(t, w)
	w.Golden("a-worker-template-is-rolled-out.txt")
}

func TestARolloutWaitsForItsTemplate(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 2)
	change(t, w, "demo-workers", &clusterv1.MachineDeployment{}, "use a template that does not exist, and allow a Machine to be unavailable", func(d *clusterv1.MachineDeployment) {
		d.Spec.Template.Spec.InfrastructureRef.Name = "typo"
		d.Spec.Rollout.Strategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	})
	rollingOut := conditions.Get(get(t, w, "demo-workers", &clusterv1.MachineDeployment{}), clusterv1.RollingOutCondition)
	w.Record("MachineDeployment demo-workers: RollingOut %s %s", rollingOut.Status, rollingOut.Message)
	end(t, w)
	w.Record("# create the template")
	old := get(t, w, "demo-workers", &infrav1.LocalMachineTemplate{})
	next := &infrav1.LocalMachineTemplate{Spec: old.Spec}
	next.Namespace, next.Name, next.Labels = "default", "typo", old.Labels
	if err := w.Mgmt.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	w.Run()
	end(t, w)
	w.Golden("a-rollout-waits-for-its-template.txt")
}

func TestAControlPlaneIsUpgraded(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 0)
	change(t, w, "demo-control-plane", &controlplanev1.KubeadmControlPlane{}, "upgrade to v1.36.4", func(k *controlplanev1.KubeadmControlPlane) {
		k.Spec.Version = "v1.36.4"
	})
	end(t, w)
	w.Golden("a-control-plane-is-upgraded.txt")
}

func TestAClusterIsDeleted(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 2)
	w.Record("# delete")
	if err := w.Mgmt.Delete(t.Context(), get(t, w, "demo", &clusterv1.Cluster{})); err != nil {
		t.Fatal(err)
	}
	w.Run()
	left(w)
	w.Golden("a-cluster-is-deleted.txt")
}

// left writes the objects that still exist.
func left(w *story) {
	w.Record("# left")
	all, err := w.Objects(w.t.Context())
	w.must(err)
	for _, obj := range all {
		w.Record("%T %s", obj, obj.GetName())
	}
}

func TestAClusterLosesItsFinalizersAndAllEnds(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 2)
	w.Record("# delete, and take the finalizers of the Cluster and its infrastructure off")
	for _, obj := range []client.Object{&clusterv1.Cluster{}, &infrav1.LocalCluster{}} {
		get(t, w, "demo", obj)
		before := obj.DeepCopyObject().(client.Object)
		obj.SetFinalizers(nil)
		if err := errors.Join(w.Mgmt.Patch(t.Context(), obj, client.MergeFrom(before)), w.Mgmt.Delete(t.Context(), obj)); err != nil {
			t.Fatal(err)
		}
	}
	w.Run()
	left(w)
	w.Golden("a-cluster-loses-its-finalizers.txt")
}
