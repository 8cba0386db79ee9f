// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// topology is the controller that creates the objects of a class.
const topology = "topology"

// made lists what a topology has created, by kind and name.
func made(w *story) (all []string) {
	w.t.Helper()
	for _, kind := range []string{"LocalCluster", "KubeadmControlPlane", "LocalMachineTemplate", "KubeadmConfigTemplate", "MachineDeployment", "MachineHealthCheck"} {
		for _, obj := range w.objects(kind) {
			if _, owned := obj.GetLabels()[clusterv1.ClusterTopologyOwnedLabel]; owned {
				all = append(all, kind+" "+obj.GetName())
			}
		}
	}
	return all
}

// finished reports whether the topology is in its desired state, and so are the
// machines: so many, all of a version.
func finished(t *testing.T, w *story, machines int, version string) bool {
	t.Helper()
	c := get(t, w, "demo", &clusterv1.Cluster{})
	all := w.objects("Machine")
	return conditions.IsTrue(c, clusterv1.ClusterTopologyReconciledCondition) && c.Status.ObservedGeneration == c.Generation && len(all) == machines &&
		!slices.ContainsFunc(all, func(obj client.Object) bool {
			m := obj.(*clusterv1.Machine)
			return m.Spec.Version != version || !conditions.IsTrue(m, clusterv1.ReadyCondition)
		})
}

// distinct are the calls of an extension without repetitions.
func distinct(calls []string) (all []string) {
	for _, call := range calls {
		if !slices.Contains(all, call) {
			all = append(all, call)
		}
	}
	return all
}

// TestCreationSurvivesCrash compares what is created, and
// which hooks are called, with a creation without a crash.
func TestCreationSurvivesCrash(t *testing.T) {
	t.Parallel()
	calm, heard := withObserver(t)
	calm.create(fleetCluster)
	calm.RunFor(time.Minute)
	for name, l := range map[string]lives{"after each write of the topology": {topology, onceEach}, "after any write": {"", longer}} {
		t.Run(name, func(t *testing.T) {
			w, x := withObserver(t)
			x.hold = once(2)
			w.create(fleetCluster)
			w = crashes(w, l, x.as, func(w *story) bool {
				if len(x.calls) == 1 && len(made(w)) > 0 {
					t.Errorf("made while BeforeClusterCreate blocks: %v", made(w))
				}
				return finished(t, w, 2, "v1.33.1")
			})
			if d := cmp.Diff(made(calm), made(w)); d != "" {
				t.Errorf("made (-undisturbed +after crashes):\n%s", d)
			}
			if d := cmp.Diff(heard.calls, distinct(x.calls)); d != "" {
				t.Errorf("hooks (-undisturbed +after crashes):\n%s", d)
			}
		})
	}
}

// TestUpgradeSurvivesCrash goes over three minors, or over
// one where processes crash more often, with every hook blocking once.
func TestUpgradeSurvivesCrash(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		lives
		to string
	}{"after each write of the topology": {lives{topology, onceEach}, "v1.36.3"}, "after any write": {lives{"", longer}, "v1.34.2"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upgrade := func(c *clusterv1.Cluster) { c.Spec.Topology.Version = tc.to }
			calm, heard := withObserver(t)
			calm.create(fleetCluster)
			calm.RunFor(time.Minute)
			heard.calls = nil
			change(t, calm, "demo", &clusterv1.Cluster{}, "upgrade", upgrade)
			calm.RunFor(10 * time.Minute)

			w, x := withObserver(t)
			w.create(fleetCluster)
			w.RunFor(time.Minute)
			x.calls, x.hold = nil, once(2)
			edit(t, w, "demo", &clusterv1.Cluster{}, upgrade)
			last := version.MustParseSemantic("v1.33.1")
			w = crashes(w, tc.lives, x.as, func(w *story) bool {
				plane := version.MustParseSemantic(w.objects("KubeadmControlPlane")[0].(*controlplanev1.KubeadmControlPlane).Spec.Version)
				workers := version.MustParseSemantic(w.objects("MachineDeployment")[0].(*clusterv1.MachineDeployment).Spec.Template.Spec.Version)
				if plane.LessThan(last) || plane.LessThan(workers) || plane.Minor() > last.Minor()+1 {
					t.Errorf("the control plane goes from %s to %s, with workers of %s", last, plane, workers)
				}
				last = plane
				return finished(t, w, 2, tc.to) && !strings.Contains(strings.Join(pending(t, w), ""), "After")
			})
			if d := cmp.Diff(made(calm), made(w)); d != "" {
				t.Errorf("made (-undisturbed +after crashes):\n%s", d)
			}
			if d := cmp.Diff(distinct(heard.calls), distinct(x.calls)); d != "" {
				t.Errorf("hooks (-undisturbed +after crashes):\n%s", d)
			}
			for _, call := range distinct(x.calls) {
				if n := len(slices.DeleteFunc(slices.Clone(x.calls), func(c string) bool { return c != call })); n < 2 {
					t.Errorf("%s was called %d times, and has blocked once", call, n)
				}
			}
		})
	}
}

// pending are the hooks that a Cluster is marked with.
func pending(t *testing.T, w *story) []string {
	t.Helper()
	marks := get(t, w, "demo", &clusterv1.Cluster{}).Annotations["runtime.cluster.x-k8s.io/pending-hooks"]
	return strings.FieldsFunc(marks, func(r rune) bool { return r == ',' })
}
