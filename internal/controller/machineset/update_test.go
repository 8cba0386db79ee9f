// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
)

// handedOver are a set of one Machine, which it was given by another, and what they
// refer to.
func handedOver(counted string) []client.Object {
	set, m := machineSet(1), machine("m")
	set.Annotations = map[string]string{clusterv1.AcknowledgedMoveAnnotation: counted}
	m.Status.NodeRef.Name = "m"
	inplace.Target{Owner: m.OwnerReferences[0]}.Take(m)
	return []client.Object{
		cluster(), set, m, template("BootTemplate", "bt"), template("HostTemplate", "ht"),
		thing("Boot", "m", map[string]any{"spec": map[string]any{"size": "small"}}), thing("Host", "m", map[string]any{"spec": map[string]any{"size": "small"}}),
	}
}

func TestAMachineThatWasHandedOverIsUpdated(t *testing.T) {
	t.Parallel()
	begun := []string{"patch Host m", "patch Boot m", "patch Machine m", "patch status of MachineSet ms"}
	tests := map[string]struct {
		counted string
		change  func(*world)
		want    []string
	}{
		"once it is counted": {counted: "m", want: begun},
		"not before":         {want: []string{"create Boot ms-n1", "create Host ms-n1", "create Machine ms-n1", "patch status of MachineSet ms"}},
		"not while no Machine could be created": {
			counted: "m", want: []string{"patch status of MachineSet ms"},
			change: func(w *world) {
				if err := w.c.Delete(w.t.Context(), template("HostTemplate", "ht")); err != nil {
					w.t.Fatal(err)
				}
			},
		},
		"and replaced if its provider refuses": {
			counted: "m", want: []string{"patch Host m", "delete Machine m", "patch status of MachineSet ms"},
			change: func(w *world) {
				w.fail["patch Host m"] = apierrors.NewInvalid(schema.GroupKind{Group: "x.io", Kind: "Host"}, "m", nil)
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, handedOver(tc.counted)...)
			if tc.change != nil {
				tc.change(w)
			}
			got, err := w.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAMachineThatIsTooManyIsHandedOver(t *testing.T) {
	t.Parallel()
	from, to, m := machineSet(0), machineSet(1), machine("m")
	from.Annotations = map[string]string{clusterv1.MachineSetMoveMachinesToMachineSetAnnotation: "new"}
	m.Status.NodeRef.Name = "m"
	to.Name, to.UID = "new", "uid-new"
	to.Labels[clusterv1.MachineDeploymentUniqueLabel] = "hash"
	to.Annotations = map[string]string{clusterv1.MachineSetReceiveMachinesFromMachineSetsAnnotation: "ms", clusterv1.DesiredReplicasAnnotation: "2"}
	w := newWorld(t, cluster(), from, to, m)
	got, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Machine m", "patch status of MachineSet ms"}, got); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	moved := get(w, &clusterv1.Machine{}, "m")
	if !metav1.IsControlledBy(moved, to) || !inplace.Moved(moved) || !inplace.InProgress(moved) || moved.UID != "uid-m" ||
		moved.Labels[clusterv1.MachineSetNameLabel] != "new" || moved.Labels[clusterv1.MachineDeploymentUniqueLabel] != "hash" {
		t.Errorf("Machine %+v", moved.ObjectMeta)
	}
}
