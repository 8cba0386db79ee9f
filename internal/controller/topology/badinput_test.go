// SPDX-License-Identifier: Apache-2.0

package topology_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
)

// running makes the control plane report its desired version.
func (w *world) running() string {
	w.Helper()
	name := w.cluster().Spec.ControlPlaneRef.Name
	before := &controlplanev1.KubeadmControlPlane{}
	edit(w, name, before, func(*controlplanev1.KubeadmControlPlane) {})
	up := before.DeepCopy()
	up.Status.Version = up.Spec.Version
	up.Status.Versions = []clusterv1.StatusVersion{{Version: up.Spec.Version, Replicas: 1}}
	if err := w.Mgmt.Status().Patch(w.Context(), up, client.MergeFrom(before)); err != nil {
		w.Fatal(err)
	}
	return name
}

// replicas returns the desired replicas of the control plane and the group a.
func (w *world) replicas() (controlPlane, workers int32) {
	w.Helper()
	plane, md := &controlplanev1.KubeadmControlPlane{}, &clusterv1.MachineDeployment{}
	edit(w, w.cluster().Spec.ControlPlaneRef.Name, plane, func(*controlplanev1.KubeadmControlPlane) {})
	edit(w, w.names(core, "MachineDeployment")[0], md, func(*clusterv1.MachineDeployment) {})
	return *plane.Spec.Replicas, *md.Spec.Replicas
}

// TestBadInputIsReportedAndRestContinues: the replicas follow the
// topology, unless they wait for an upgrade with the version.
func TestBadInputIsReportedAndRestContinues(t *testing.T) {
	t.Parallel()
	const external = `    machinePools: []
  patches:
  - name: sizes
    external: {generatePatchesExtension: sizes.ext}
  x:`
	quiet := func(hooksv1.RequestObject, hooksv1.ResponseObject) error { return nil }
	for name, tc := range map[string]struct {
		class   []string
		prepare func(*world)
		want    string
		held    bool // changes wait for the upgrade
		rejects bool // an answer
	}{
		"a version that skips": {
			class:   []string{"  kubernetesVersions: [v1.33.0, v1.34.0, v1.35.0]\n", ""},
			prepare: func(w *world) { w.topology(func(t *clusterv1.Topology) { t.Version = "v1.35.0" }) },
			want:    "cannot compute an upgrade plan from v1.33.0 to v1.35.0",
			held:    true,
		},
		"a hook that fails": {
			prepare: func(w *world) {
				w.topology(func(t *clusterv1.Topology) { t.Version = "v1.34.0" })
				w.hooks["BeforeClusterUpgrade"] = func(hooksv1.RequestObject, hooksv1.ResponseObject) error {
					return errors.New(`call extension handler "gate.ext" of hook BeforeClusterUpgrade for Cluster default/c: refused`)
				}
			},
			want: `call extension handler "gate.ext" of hook BeforeClusterUpgrade for Cluster default/c: refused`,
			held: true,
		},
		"a number of groups that is none": {
			prepare: func(w *world) {
				edit(w, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) {
					c.Annotations = map[string]string{clusterv1.ClusterTopologyUpgradeConcurrencyAnnotation: "many"}
				})
			},
			want: `annotation topology.cluster.x-k8s.io/upgrade-concurrency of Cluster default/c is "many": set a whole number of at least 1`,
		},
		"an extension that is down": {
			class: []string{"    machinePools:", external},
			prepare: func(w *world) {
				w.hooks["sizes.ext"] = func(hooksv1.RequestObject, hooksv1.ResponseObject) error { return errors.New("connection refused") }
			},
			want: `patch "sizes": extension sizes.ext: connection refused`,
		},
		"an answer about something else": {
			class: []string{"    machinePools:", external},
			prepare: func(w *world) {
				w.hooks["sizes.ext"] = func(_ hooksv1.RequestObject, response hooksv1.ResponseObject) error {
					response.(*hooksv1.GeneratePatchesResponse).Items = []hooksv1.GeneratePatchesResponseItem{{UID: "x"}}
					return nil
				}
			},
			want:    `patch "sizes": extension sizes.ext answered for item "x", which it was not asked about`,
			rejects: true,
		},
		"infrastructure that another client deleted": {
			prepare: func(w *world) {
				before := w.cluster()
				done := before.DeepCopy()
				done.Status.Initialization.InfrastructureProvisioned = new(true)
				if err := w.Mgmt.Status().Patch(w.Context(), done, client.MergeFrom(before)); err != nil {
					w.Fatal(err)
				}
				net := &infrav1.LocalCluster{}
				edit(w, done.Spec.InfrastructureRef.Name, net, func(*infrav1.LocalCluster) {})
				if err := w.Mgmt.Delete(w.Context(), net); err != nil {
					w.Fatal(err)
				}
			},
			want: "has been deleted while the Cluster still exists: delete the Cluster, or restore the object from a backup",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.class...)
			w.hooks["sizes.ext"] = quiet
			w.add(cluster)
			w.must()
			w.running()
			tc.prepare(w)
			rejected := false
			w.hooks["reject sizes.ext"] = func(hooksv1.RequestObject, hooksv1.ResponseObject) error {
				rejected = true
				return nil
			}
			w.topology(func(t *clusterv1.Topology) {
				t.ControlPlane.Replicas, t.Workers.MachineDeployments[0].Replicas = new(int32(3)), new(int32(4))
			})
			if _, err := w.once(); err == nil {
				t.Error("no error")
			}
			w.reconciled("False ReconcileFailed")
			w.reconciled(tc.want)
			if rejected != tc.rejects {
				t.Errorf("the answer is rejected: %t, want %t", rejected, tc.rejects)
			}
			want := [2]int32{3, 4}
			if tc.held {
				want = [2]int32{1, 1}
				w.reconciled("Changes held until its upgrade starts")
			}
			if plane, workers := w.replicas(); plane != want[0] || workers != want[1] {
				t.Errorf("%d and %d replicas, want %v", plane, workers, want)
			}
		})
	}
}

// TestFieldConflictIsReported has a topology that releases the field.
func TestFieldConflictIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(strings.Replace(cluster, "name: a, replicas: 1", "name: a, replicas: 1, metadata: {labels: {team: x}}", 1))
	w.must()
	md := &clusterv1.MachineDeployment{}
	md.Namespace, md.Name = "default", w.names(core, "MachineDeployment")[0]
	body, err := json.Marshal(map[string]any{"apiVersion": core, "kind": "MachineDeployment", "metadata": map[string]any{"name": md.Name, "namespace": "default", "labels": map[string]string{"team": "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Mgmt.Patch(t.Context(), md, client.RawPatch(types.ApplyPatchType, body), client.FieldOwner("gitops")); err != nil {
		t.Fatal(err)
	}
	w.must()
	w.reconciled("True ReconcileSucceeded")
	w.topology(func(t *clusterv1.Topology) { t.Workers.MachineDeployments[0].Metadata = clusterv1.ObjectMeta{} })
	w.must()
	w.reconciled("True ReconcileSucceeded MachineDeployment " + md.Name + ": .metadata.labels.team is no longer desired, and stays because gitops/Apply has it too")
}
