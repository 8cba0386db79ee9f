// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// resting returns a world in which a Cluster is in steady state. It counts the
// reconciles that compare objects with their desired state: each reads a
// MachineDeployment by its name.
func resting(t *testing.T) (w *world, compared *int) {
	t.Helper()
	w, compared = newWorld(t), new(int)
	w.r.Mgmt = interceptor.NewClient(w.mgmt.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, ok := obj.(*clusterv1.MachineDeployment); ok {
				*compared++
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	w.add(cluster)
	set := &clusterv1.MachineSet{}
	set.Namespace, set.Name, set.Spec.ClusterName = "default", "set", "c"
	set.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.ClusterTopologyOwnedLabel: ""}
	if err := w.Mgmt.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	w.must() // creates all
	w.must() // finds all created
	*compared = 0
	return w, compared
}

// TestWhatWasSeenBeforeIsNotComparedAgain checks this until the result expires.
func TestWhatWasSeenBeforeIsNotComparedAgain(t *testing.T) {
	t.Parallel()
	w, compared := resting(t)
	for what, change := range map[string]func(){
		"nothing": func() {},
		"a condition of the Cluster": func() {
			c := w.cluster()
			w.status(c, func() {
				conditions.Set(c, w.Clock.Now(), metav1.Condition{Type: clusterv1.InfrastructureReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
			})
		},
		"the status of a MachineSet": func() {
			set := &clusterv1.MachineSet{}
			edit(w, "set", set, func(*clusterv1.MachineSet) {})
			w.status(set, func() { set.Status.Replicas = new(int32(1)) })
		},
	} {
		change()
		if w.must(); *compared > 0 || len(w.wrote) > 0 {
			t.Errorf("%s: compared %d times, wrote %q", what, *compared, w.wrote)
		}
		w.reconciled("True ReconcileSucceeded")
	}
	w.Clock.SetTime(w.Clock.Now().Add(time.Minute))
	if w.must(); *compared != 1 {
		t.Errorf("compared %d times after a minute, want once", *compared)
	}
}

// TestWhatIsNewIsCompared covers all parts of a topology.
func TestWhatIsNewIsCompared(t *testing.T) {
	t.Parallel()
	first := func(w *world, apiVersion, kind string) string { return w.names(apiVersion, kind)[0] }
	label := func(obj client.Object) {
		obj.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.ClusterTopologyOwnedLabel: "", "a": "b"})
	}
	for name, change := range map[string]func(*world){
		"what the user wants": func(w *world) {
			w.topology(func(t *clusterv1.Topology) { t.ControlPlane.Replicas = new(int32(3)) })
		},
		"a label of the Cluster": func(w *world) { edit(w, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { label(c) }) },
		"an annotation of the Cluster": func(w *world) {
			edit(w, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Annotations["a"] = "b" })
		},
		"that the control plane is initialized": func(w *world) {
			c := w.cluster()
			w.status(c, func() {
				conditions.Set(c, w.Clock.Now(), metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized"})
			})
		},
		"the class": func(w *world) {
			edit(w, "class", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) { label(c) })
		},
		"a template of the class": func(w *world) {
			edit(w, "t", &infrav1.LocalMachineTemplate{}, func(t *infrav1.LocalMachineTemplate) { t.Annotations = map[string]string{"a": "b"} })
		},
		"the infrastructure": func(w *world) {
			edit(w, first(w, infra, "LocalCluster"), &infrav1.LocalCluster{}, func(c *infrav1.LocalCluster) { label(c) })
		},
		"the control plane": func(w *world) {
			edit(w, first(w, "controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"), &controlplanev1.KubeadmControlPlane{}, func(p *controlplanev1.KubeadmControlPlane) { p.Spec.Replicas = new(int32(5)) })
		},
		"a copy of a template": func(w *world) {
			edit(w, first(w, infra, "LocalMachineTemplate"), &infrav1.LocalMachineTemplate{}, func(t *infrav1.LocalMachineTemplate) { label(t) })
		},
		"a copy that nothing refers to": func(w *world) {
			extra := &infrav1.LocalMachineTemplate{}
			extra.Namespace, extra.Name = "default", "extra"
			extra.Spec.Template.Spec.Simulated = &infrav1.LocalMachineSimulated{}
			label(extra)
			w.create(extra)
		},
		"a MachineDeployment": func(w *world) {
			edit(w, first(w, core, "MachineDeployment"), &clusterv1.MachineDeployment{}, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(7)) })
		},
		"another that is of no group": func(w *world) {
			extra := &clusterv1.MachineDeployment{}
			edit(w, first(w, core, "MachineDeployment"), extra, func(*clusterv1.MachineDeployment) {})
			extra.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "extra"}
			label(extra)
			w.create(extra)
		},
		"a health check that has gone": func(w *world) {
			check := &clusterv1.MachineHealthCheck{}
			check.Namespace, check.Name = "default", first(w, core, "MachineHealthCheck")
			w.delete(check)
		},
		"a MachineSet that goes": func(w *world) {
			set := &clusterv1.MachineSet{}
			set.Namespace, set.Name = "default", "set"
			w.delete(set)
		},
		"what a Machine runs": func(w *world) {
			m := &clusterv1.Machine{}
			m.Namespace, m.Name = "default", "m"
			m.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: first(w, core, "MachineDeployment")}
			m.Spec.ClusterName, m.Spec.Version = "c", "v1.32.0"
			w.create(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, compared := resting(t)
			change(w)
			if _, _ = w.once(); *compared == 0 {
				t.Error("not compared")
			}
		})
	}
}

// TestExtensionsAreCalledAgain has an extension whose answer may change.
func TestExtensionsAreCalledAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "    machinePools:", `    machinePools: []
  patches:
  - name: check
    external: {validateTopologyExtension: check.ext}
  x:`)
	asked := 0
	w.hooks["check.ext"] = func(hooksv1.RequestObject, hooksv1.ResponseObject) error {
		asked++
		return nil
	}
	w.add(cluster)
	for n := 1; n <= 4; n++ {
		if w.must(); asked != n {
			t.Fatalf("asked %d times in %d looks", asked, n)
		}
	}
}

func (w *world) create(obj client.Object) {
	w.Helper()
	if err := w.Mgmt.Create(w.Context(), obj); err != nil {
		w.Fatal(err)
	}
}

func (w *world) delete(obj client.Object) {
	w.Helper()
	if err := w.Mgmt.Delete(w.Context(), obj); err != nil {
		w.Fatal(err)
	}
}

// status changes the status of an object, as its controller does.
func (w *world) status(obj client.Object, change func()) {
	w.Helper()
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := w.Mgmt.Status().Patch(w.Context(), obj, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
}
