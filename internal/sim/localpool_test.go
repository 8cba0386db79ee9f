// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"strings"
	"testing"
	"time"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/conditions"
)

// recordPool writes the state of a cluster's pool to the story.
func recordPool(t *testing.T, w *story, name string) {
	t.Helper()
	mp, pool := get(t, w, name, &clusterv1.MachinePool{}), get(t, w, name, &infrav1.LocalMachinePool{})
	ready := conditions.Get(pool, clusterv1.ReadyCondition)
	w.Record("MachinePool %s: %s, %d replicas, %d provider IDs; LocalMachinePool: Ready %s %s", name, mp.Status.Phase, *mp.Status.Replicas, len(mp.Spec.ProviderIDList), ready.Status, ready.Message)
}

func scalePool(t *testing.T, w *story, to int32, what string) {
	t.Helper()
	change(t, w, "demo-pool", &clusterv1.MachinePool{}, what, func(mp *clusterv1.MachinePool) { mp.Spec.Replicas = &to })
	recordPool(t, w, "demo-pool")
}

func TestAPoolIsScaledByPreference(t *testing.T) {
	t.Parallel()
	w := New(t)
	createFrom(t, w, template.LocalMachinePool(), "demo", 1, 1)
	recordPool(t, w, "demo-pool")
	scalePool(t, w, 5, "scale to 5")
	marked := w.objects("LocalMachine")[3].GetName()
	change(t, w, marked, &clusterv1.Machine{}, "mark "+marked, func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
	})
	sick := w.objects("LocalMachine")[4].GetName()
	change(t, w, sick, &infrav1.LocalMachine{}, "make the Node of "+sick+" NotReady", func(m *infrav1.LocalMachine) {
		m.Spec.Simulated.Faults = []infrav1.MachineFault{infrav1.MachineFaultNodeNotReady}
	})
	w.RunFor(time.Minute)
	scalePool(t, w, 4, "scale to 4")
	scalePool(t, w, 3, "scale to 3")
	scalePool(t, w, 0, "scale to 0")
	end(t, w)
	w.Golden("a-pool-is-scaled-by-preference.txt")
}

func TestANewTemplateOfAPoolIsRolledOut(t *testing.T) {
	t.Parallel()
	w := New(t)
	createFrom(t, w, template.LocalMachinePool(), "demo", 1, 3)
	change(t, w, "demo-pool", &infrav1.LocalMachinePool{}, "let the machines take a second to start", func(p *infrav1.LocalMachinePool) {
		p.Spec.Template.Simulated.VM.StartupMilliseconds = new(int32(1000))
	})
	recordPool(t, w, "demo-pool")
	w.RunFor(time.Minute)
	recordPool(t, w, "demo-pool")
	change(t, w, "demo-pool", &infrav1.LocalMachinePool{}, "use a template that never boots", func(p *infrav1.LocalMachinePool) {
		p.Spec.Template.Simulated.Faults = []infrav1.MachineFault{infrav1.MachineFaultNeverBoots}
	})
	w.RunFor(time.Hour)
	recordPool(t, w, "demo-pool")
	change(t, w, "demo-pool", &infrav1.LocalMachinePool{}, "take that back", func(p *infrav1.LocalMachinePool) {
		p.Spec.Template.Simulated.Faults = nil
	})
	w.RunFor(time.Minute)
	recordPool(t, w, "demo-pool")
	end(t, w)
	w.Golden("a-pool-template-is-rolled-out.txt")
}

func TestAMachineOfAPoolIsDeletedByHand(t *testing.T) {
	t.Parallel()
	w := New(t)
	createFrom(t, w, template.LocalMachinePool(), "demo", 1, 2)
	for _, kind := range []string{"LocalMachine", "Machine"} {
		for _, obj := range w.objects(kind) {
			if !strings.Contains(obj.GetName(), "pool") {
				continue
			}
			w.Record("# delete %s %s by hand", kind, obj.GetName())
			if err := w.Mgmt.Delete(t.Context(), obj); err != nil {
				t.Fatal(err)
			}
			w.Run()
			recordPool(t, w, "demo-pool")
			break
		}
	}
	end(t, w)
	w.Golden("a-machine-of-a-pool-is-deleted.txt")
}

// The second one is refused by name, and that changes nothing of the first.
func TestTwoPoolsCannotHaveOneLocalMachinePool(t *testing.T) {
	t.Parallel()
	w := New(t)
	createFrom(t, w, template.LocalMachinePool(), "demo", 1, 2)
	first := get(t, w, "demo-pool", &clusterv1.MachinePool{})
	second := &clusterv1.MachinePool{Spec: *first.Spec.DeepCopy()}
	second.Namespace, second.Name, second.Spec.ProviderIDList, second.Spec.Replicas = "default", "demo-second", nil, new(int32(5))
	w.Record("# create a second MachinePool that names the same LocalMachinePool")
	if err := w.Mgmt.Create(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	w.Run()
	recordPool(t, w, "demo-pool")
	get(t, w, "demo-second", second)
	w.Record("MachinePool demo-second: %s", conditions.Message(second, clusterv1.InfrastructureReadyCondition))
	before := w.store.writes
	w.Run()
	if w.store.writes != before {
		t.Errorf("%d writes in steady state", w.store.writes-before)
	}
	w.Golden("two-pools-of-one-local-machine-pool.txt")
}
