// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// TestTheClusterIsWrittenBeforeItsObjects checks that one request writes references
// and the mark of a hook.
func TestTheClusterIsWrittenBeforeItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(cluster)
	w.must()
	c := w.cluster()
	plane, net := c.Spec.ControlPlaneRef.Name, c.Spec.InfrastructureRef.Name
	all := w.all()
	if len(all) != 7 {
		t.Fatalf("made %q", all)
	}
	named := func(kind string, n int) string {
		found := slices.DeleteFunc(slices.Clone(all), func(o string) bool { return !strings.HasPrefix(o, kind+" ") })
		return "patch " + found[n]
	}
	hosts := []string{named("LocalMachineTemplate", 0), named("LocalMachineTemplate", 1)}
	if !strings.Contains(hosts[1], "c-a-") {
		slices.Reverse(hosts)
	}
	want := []string{
		"patch Cluster c", "patch LocalCluster " + net, hosts[0], "patch KubeadmControlPlane " + plane,
		named("KubeadmConfigTemplate", 0), hosts[1], named("MachineDeployment", 0), named("MachineHealthCheck", 0), "patch status of Cluster c",
	}
	if diff := cmp.Diff(want, w.wrote); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if len(w.told) != 1 || !strings.Contains(w.told[0], fmt.Sprintf("Created KubeadmControlPlane %q", "default/"+plane)) {
		t.Errorf("events %q", w.told)
	}
	if got := c.Annotations[runtimev1.PendingHooksAnnotation]; got != "AfterControlPlaneInitialized" {
		t.Errorf("marked %q", got)
	}
	w.reconciled("True ReconcileSucceeded")
	for _, restarted := range []bool{false, true} {
		if restarted {
			w.restart()
		}
		if w.must(); len(w.wrote) > 0 || len(w.told) > 0 {
			t.Errorf("in steady state, restarted %v, it wrote %q", restarted, w.wrote)
		}
	}
}

// TestAnyWriteMayBeTheLast checks that the next process finds the created objects.
func TestAnyWriteMayBeTheLast(t *testing.T) {
	t.Parallel()
	whole := newWorld(t)
	whole.add(cluster)
	whole.must()
	for n := range len(whole.wrote) {
		w := newWorld(t)
		w.add(cluster)
		edit(w, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.UID = whole.cluster().UID })
		w.spare = n
		if _, err := w.once(); !errors.Is(err, errCrash) {
			t.Fatalf("after %d writes: error %v", n, err)
		}
		w.spare = -1
		w.restart()
		w.must()
		w.must()
		if got := w.all(); len(got) != len(whole.all()) {
			t.Errorf("after %d writes, there is %q", n, got)
		}
		if got := w.cluster().Annotations[runtimev1.PendingHooksAnnotation]; got != "AfterControlPlaneInitialized" {
			t.Errorf("after %d writes, marked %q", n, got)
		}
		w.reconciled("True ReconcileSucceeded")
	}
}

// TestAPartThatFailsStopsNoOther checks that the condition names the part and the
// patch.
func TestAPartThatFailsStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "    machinePools:", `    machinePools: []
  patches:
  - name: broken
    definitions:
    - selector: {apiVersion: infrastructure.capstan.dev/v1beta2, kind: LocalMachineTemplate, matchResources: {machineDeploymentClass: {names: [plain]}}}
      jsonPatches: [{op: remove, path: /spec/template/spec/simulated/nothing}]
  x:`)
	w.add(cluster)
	w.topology(func(t *clusterv1.Topology) {
		t.Workers.MachineDeployments = append(t.Workers.MachineDeployments, clusterv1.MachineDeploymentTopology{Class: "other", Name: "b"}, clusterv1.MachineDeploymentTopology{Class: "lost", Name: "d"})
	})
	if _, err := w.once(); err == nil {
		t.Error("no error")
	}
	w.reconciled(`MachineDeployment a of the topology: LocalMachineTemplate default/t: patch "broken", definitions[0]: remove /spec/template/spec/simulated/nothing`)
	w.reconciled(`MachineDeployment d of the topology: ClusterClass default/class has no class "lost" in spec.workers.machineDeployments: correct its class, or add it there`)
	if got := w.names(core, "MachineDeployment"); len(got) != 1 || !strings.HasPrefix(got[0], "c-b-") {
		t.Errorf("MachineDeployments %q, want that of b", got)
	}
	if got := w.names("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane"); len(got) != 1 {
		t.Errorf("control planes %q", got)
	}
}

// TestADeletionNeedsNoClass checks that a deletion needs no valid variables either,
// and waits for its hook.
func TestADeletionNeedsNoClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(strings.ReplaceAll(cluster, "{name: class}", "{name: gone}"))
	if err := w.Mgmt.Delete(t.Context(), w.cluster()); err != nil {
		t.Fatal(err)
	}
	let := func() bool { _, ok := w.cluster().Annotations[runtimev1.OkToDeleteAnnotation]; return ok }
	w.hooks["BeforeClusterDelete"] = blocks
	if res := w.must(); res.RequeueAfter != 10*time.Second || let() {
		t.Errorf("requeues after %s, released: %v", res.RequeueAfter, let())
	}
	w.reconciled("False Deleting Cluster is deleting. Following hooks are blocking delete: BeforeClusterDelete: not yet")
	w.hooks["BeforeClusterDelete"] = func(hooksv1.RequestObject, hooksv1.ResponseObject) error { return errors.New("refused") }
	if _, err := w.once(); err == nil || let() {
		t.Errorf("error %v, released: %v", err, let())
	}
	delete(w.hooks, "BeforeClusterDelete")
	if w.must(); !let() {
		t.Error("not released")
	}
	if w.must(); len(w.wrote) > 0 {
		t.Errorf("wrote %q", w.wrote)
	}
}

// TestUnmatchedPatchIsReported.
func TestUnmatchedPatchIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "    machinePools:", `    machinePools: []
  patches:
  - name: stale
    definitions:
    - selector: {apiVersion: infrastructure.capstan.dev/v1beta1, kind: LocalMachineTemplate, matchResources: {controlPlane: true}}
      jsonPatches: [{op: remove, path: /spec/template/spec/x}]
  x:`)
	w.add(cluster)
	w.must()
	w.reconciled(`True ReconcileSucceeded patch "stale", definitions[0]: no template that it selects by role is a LocalMachineTemplate of infrastructure.capstan.dev/v1beta1: correct kind or apiVersion`)
}

// TestATemplateIsReplacedAndGoesWhenNothingUsesIt checks that this controller sets
// no finalizer, and removes those of Cluster API.
func TestATemplateIsReplacedAndGoesWhenNothingUsesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(cluster)
	w.must()
	md := w.names(core, "MachineDeployment")[0]
	of := func() string {
		got := &clusterv1.MachineDeployment{}
		edit(w, md, got, func(*clusterv1.MachineDeployment) {})
		return got.Spec.Template.Spec.Bootstrap.ConfigRef.Name
	}
	old := of()
	set := &clusterv1.MachineSet{}
	set.Namespace, set.Name, set.Finalizers = "default", "set", []string{clusterv1.MachineSetTopologyFinalizer, "keep.me/on"}
	set.Labels = map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.ClusterTopologyOwnedLabel: ""}
	set.Spec.ClusterName = "c"
	set.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfigTemplate", Name: old}
	if err := w.Mgmt.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	edit(w, md, &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) {
		md.Finalizers = append(md.Finalizers, clusterv1.MachineDeploymentTopologyFinalizer)
	})
	edit(w, "t", &bootstrapv1.KubeadmConfigTemplate{}, func(c *bootstrapv1.KubeadmConfigTemplate) {
		c.Spec.Template.Spec.PreKubeadmCommands = []string{"true"}
	})
	w.must()
	next := of()
	if want := fmt.Sprintf("TopologyCreate: Created KubeadmConfigTemplate %q as a replacement for %q (template rotation)", "default/"+next, "default/"+old); next == old || !slices.Contains(w.told, want) {
		t.Errorf("refers to %s after %s, events %q", next, old, w.told)
	}
	w.must()
	if got := w.names(bootstrap, "KubeadmConfigTemplate"); len(got) != 2 {
		t.Errorf("templates %q while a MachineSet uses the old one", got)
	}
	edit(w, "set", set, func(*clusterv1.MachineSet) {})
	if err := w.Mgmt.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	edit(w, "set", set, func(*clusterv1.MachineSet) {})
	if !slices.Equal(set.Finalizers, []string{"keep.me/on"}) {
		t.Errorf("finalizers %q", set.Finalizers)
	}
	w.must()
	if got := w.names(bootstrap, "KubeadmConfigTemplate"); !slices.Equal(got, []string{next}) {
		t.Errorf("templates %q, want %s alone", got, next)
	}
	edit(w, "t", &bootstrapv1.KubeadmConfigTemplate{}, func(c *bootstrapv1.KubeadmConfigTemplate) {
		c.Labels = map[string]string{"a": "b"}
	})
	if w.must(); of() != next {
		t.Error("replaced for a label")
	}
}

// TestAnExtensionMayOnlyValidate covers extensions that only validate, or only
// define variables.
func TestAnExtensionMayOnlyValidate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "    machinePools:", `    machinePools: []
  patches:
  - name: check
    external: {validateTopologyExtension: check.ext, settings: {strict: "yes"}}
  x:`)
	w.add(cluster)
	w.hooks["check.ext"] = func(hooksv1.RequestObject, hooksv1.ResponseObject) error { return errors.New("too large") }
	if _, err := w.once(); err == nil || len(w.all()) > 0 {
		t.Errorf("error %v, made %q", err, w.all())
	}
	w.reconciled(`False ReconcileFailed desired objects: patch "check": extension check.ext: too large`)
	asked := 0
	w.hooks["check.ext"] = func(request hooksv1.RequestObject, _ hooksv1.ResponseObject) error {
		if asked++; request.GetSettings()["strict"] != "yes" || len(request.(*hooksv1.ValidateTopologyRequest).Items) != 5 {
			t.Errorf("asked %+v", request)
		}
		return nil
	}
	if w.must(); asked != 1 || len(w.all()) != 7 {
		t.Errorf("asked %d times, made %q", asked, w.all())
	}
}

// TestAStartTakesNothingBack covers the time in which extensions cannot be called
// because they are not registered yet.
func TestAStartTakesNothingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "    machinePools:", `    machinePools: []
  patches:
  - name: sizes
    external: {generatePatchesExtension: sizes.ext}
  x:`)
	starting := func(hooksv1.RequestObject, hooksv1.ResponseObject) error {
		return fmt.Errorf("call: %w", extensions.ErrNotReady)
	}
	w.hooks["sizes.ext"] = starting
	w.add(cluster)
	if _, err := w.once(); err == nil || len(w.all()) > 0 {
		t.Errorf("error %v, made %q", err, w.all())
	}
	w.reconciled(`False ReconcileFailed patch "sizes": extension sizes.ext: call: runtime extensions have not been read yet`)
	w.hooks["sizes.ext"] = func(hooksv1.RequestObject, hooksv1.ResponseObject) error { return nil }
	w.must()
	w.hooks["sizes.ext"] = starting
	w.restart()
	if _, err := w.once(); err == nil || len(w.wrote) > 0 {
		t.Errorf("error %v, wrote %q", err, w.wrote)
	}
	w.reconciled("True ReconcileSucceeded")
}

// TestAVersionThatNeverBeganCanBeTakenBack restores the earlier version before an
// upgrade has started.
func TestAVersionThatNeverBeganCanBeTakenBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(cluster)
	w.must()
	plane, before := w.running(), &controlplanev1.KubeadmControlPlane{}
	w.hooks["BeforeClusterUpgrade"] = blocks
	w.topology(func(t *clusterv1.Topology) { t.Version, t.ControlPlane.Replicas = "v1.35.0", new(int32(3)) })
	w.must()
	w.reconciled("False ClusterUpgrading Cluster is upgrading to v1.35.0\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade: not yet\n  * KubeadmControlPlane pending upgrade to version v1.34.0, v1.35.0")
	w.reconciled("\n  * Changes held until its upgrade starts: KubeadmControlPlane " + plane + ": spec.replicas")
	if edit(w, plane, before, func(*controlplanev1.KubeadmControlPlane) {}); before.Spec.Version != "v1.33.0" || *before.Spec.Replicas != 1 {
		t.Errorf("version %s, %d replicas, want the previous ones", before.Spec.Version, *before.Spec.Replicas)
	}
	if got := w.cluster().Status.ControlPlane; got == nil || len(got.UpgradePlan) != 2 {
		t.Errorf("plan %+v", got)
	}
	w.topology(func(t *clusterv1.Topology) { t.Version = "v1.33.0" })
	w.must()
	w.reconciled("True ReconcileSucceeded")
	if edit(w, plane, before, func(*controlplanev1.KubeadmControlPlane) {}); *before.Spec.Replicas != 3 {
		t.Errorf("%d replicas, want 3", *before.Spec.Replicas)
	}
	if a := w.cluster().Annotations; a[clusterv1.ClusterTopologyUpgradeStepAnnotation] != "" || strings.Contains(a[runtimev1.PendingHooksAnnotation], "Upgrade") {
		t.Errorf("annotations %v", a)
	}
}

// TestReconcileReportsWhatClusterWaitsFor also checks that nothing is created meanwhile.
func TestReconcileReportsWhatClusterWaitsFor(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster func(string) string
		prepare func(*world)
		want    string
		again   time.Duration
		fails   bool
	}{
		"no class": {
			cluster: func(c string) string { return strings.Replace(c, "{name: class}", "{name: gone}", 1) },
			want:    "False ClusterClassNotReconciled ClusterClass default/gone does not exist: create it, or have spec.topology.classRef of Cluster default/c name another",
		},
		"a class that changed": {
			prepare: func(w *world) {
				edit(w, "class", &clusterv1.ClusterClass{}, func(c *clusterv1.ClusterClass) { c.Spec.KubernetesVersions = nil })
			},
			want: "False ClusterClassNotReconciled ClusterClass is not successfully reconciled: ClusterClass.status.observedGeneration must be 2, but is 1",
		},
		"undefined variables": {
			cluster: func(c string) string {
				return strings.Replace(c, "    version:", "    variables: [{name: color, value: red}]\n    version:", 1)
			},
			want: "False ReconcileFailed variables: spec.topology.variables[color]: Invalid value: \"color\": variable is not defined", fails: true,
		},
		"a pause": {
			cluster: func(c string) string { return strings.Replace(c, "spec:", "spec:\n  paused: true", 1) },
			want:    "False Paused Cluster spec.paused is set to true",
		},
		"a hook": {
			prepare: func(w *world) { w.hooks["BeforeClusterCreate"] = blocks },
			want:    "False ClusterCreating Following hooks are blocking Cluster topology creation: BeforeClusterCreate: not yet", again: 10 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, text := newWorld(t), cluster
			if tc.cluster != nil {
				text = tc.cluster(text)
			}
			if tc.prepare != nil {
				tc.prepare(w)
			}
			w.add(text)
			res, err := w.once()
			if (err != nil) != tc.fails || res.RequeueAfter != tc.again {
				t.Errorf("error %v, requeues after %s", err, res.RequeueAfter)
			}
			w.reconciled(tc.want)
			if !slices.Equal(w.wrote, []string{"patch status of Cluster c"}) {
				t.Errorf("wrote %q", w.wrote)
			}
		})
	}
}

// TestTheReportIsAboutTheStoredGeneration: a refused change of spec gives no other.
func TestTheReportIsAboutTheStoredGeneration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(cluster)
	invalid := apierrors.NewInvalid(clusterv1.GroupVersion().WithKind("Cluster").GroupKind(), "c", nil)
	w.r.Mgmt = interceptor.NewClient(w.mgmt.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := obj.(*clusterv1.Cluster); ok {
				return invalid
			}
			return c.Patch(ctx, obj, p, opts...)
		},
	})
	if _, err := w.once(); !errors.Is(err, invalid) {
		t.Errorf("error %v", err)
	}
	c := w.cluster()
	if got := conditions.Get(c, clusterv1.ClusterTopologyReconciledCondition); got == nil || got.Reason != clusterv1.ClusterTopologyReconciledFailedReason || got.ObservedGeneration != c.Generation {
		t.Errorf("generation %d, reported %+v", c.Generation, got)
	}
}

// TestAPauseEndsTheDelayOfAReport: no other writer includes what it replaces.
func TestAPauseEndsTheDelayOfAReport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(cluster)
	w.must()
	w.r.Debounce = patch.NewStatusDebounce(time.Minute, w.Clock)
	w.topology(func(t *clusterv1.Topology) { t.Version = "v1.34.0" })
	_, err := w.once()
	if _, postponed := errors.AsType[*patch.PostponedError](err); !postponed {
		t.Fatalf("error %v, want a delay", err)
	}
	edit(w, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	w.must()
	w.reconciled("False Paused")
	c := w.cluster()
	patch.Snapshot(w.Mgmt, c, patch.Debounced(w.r.Debounce.Sibling()))
	if got := conditions.Reason(c, clusterv1.ClusterTopologyReconciledCondition); got != clusterv1.PausedReason {
		t.Errorf("reason %s, want Paused", got)
	}
}

// TestAClusterWithoutItsFinalizerWaits: a deletion would leave created objects
// behind.
func TestAClusterWithoutItsFinalizerWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(strings.Replace(cluster, ", finalizers: [cluster.cluster.x-k8s.io]", "", 1))
	if w.must(); len(w.wrote) > 0 {
		t.Errorf("wrote %q", w.wrote)
	}
}

// TestReconcileIgnoresUnrelatedObject has a Cluster that refers to an unrelated object.
func TestReconcileIgnoresUnrelatedObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(strings.Replace(cluster, "spec:", "spec:\n  infrastructureRef: {apiGroup: infrastructure.capstan.dev, kind: LocalCluster, name: mine}", 1))
	theirs := &infrav1.LocalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine"}}
	if err := w.Mgmt.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	if _, err := w.once(); err == nil {
		t.Error("no error")
	}
	w.reconciled("LocalCluster default/mine referenced from spec.infrastructureRef of Cluster is not topology owned: give it label topology.cluster.x-k8s.io/owned, and cluster.x-k8s.io/cluster-name c, or refer to one that has them")
	if got := w.names(infra, "LocalCluster"); len(got) > 0 {
		t.Errorf("made %q", got)
	}
	if got := w.names(core, "MachineDeployment"); len(got) != 1 {
		t.Errorf("other parts do not continue: %q", got)
	}
}

// TestReconcileDeletesUndesiredObjects checks that health checks are deleted first, and that
// changes of other clients are reverted.
func TestReconcileDeletesUndesiredObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(cluster)
	w.topology(func(t *clusterv1.Topology) {
		t.Workers.MachinePools = []clusterv1.MachinePoolTopology{{Class: "pool", Name: "p", Replicas: new(int32(1))}}
	})
	w.must()
	md, mp := w.names(core, "MachineDeployment")[0], w.names(core, "MachinePool")[0]
	edit(w, md, &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Spec.Replicas = new(int32(5)) })
	if w.must(); !slices.Equal(w.wrote, []string{"patch MachineDeployment " + md}) || !slices.Equal(w.told, []string{fmt.Sprintf("TopologyUpdate: Updated MachineDeployment %q", "default/"+md)}) {
		t.Errorf("wrote %q, told %q", w.wrote, w.told)
	}
	edit(w, md, &clusterv1.MachineDeployment{}, func(md *clusterv1.MachineDeployment) { md.Labels[clusterv1.ClusterTopologyOwnedLabel] = "x" })
	if w.must(); !slices.Equal(w.told, []string{fmt.Sprintf("TopologyUpdate: Updated MachineDeployment %q (metadata changes)", "default/"+md)}) {
		t.Errorf("told %q", w.told)
	}
	w.topology(func(t *clusterv1.Topology) { t.Workers = clusterv1.WorkersTopology{} })
	w.must()
	if diff := cmp.Diff([]string{"delete MachineHealthCheck " + md, "delete MachineDeployment " + md, "delete MachinePool " + mp, "patch status of Cluster c"}, w.wrote); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	w.must()
	if got := w.all(); len(got) != 3 {
		t.Errorf("left %q, want infrastructure, control plane and its template", got)
	}
}
