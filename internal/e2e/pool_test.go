// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
)

func newPool(f fleet, name string, workers int32) {
	f.Helper()
	f.create(name, shape{workers: workers, template: template.LocalMachinePool()})
	f.becomes(name)
	f.poolReports(name)
}

func (f fleet) scalePool(name string, to int32) {
	f.Helper()
	modify(f, name+"-pool", &clusterv1.MachinePool{}, func(mp *clusterv1.MachinePool) { mp.Spec.Replicas = &to })
	f.becomes(name)
	f.poolReports(name)
}

// poolReports waits until the infrastructure of a pool has reported all machines, and
// no other.
func (f fleet) poolReports(name string) {
	f.Helper()
	f.eventually(func() error {
		mp, pool := &clusterv1.MachinePool{}, &infrav1.LocalMachinePool{}
		if err := errors.Join(f.Client.Get(f.Context(), f.key(name+"-pool"), mp), f.Client.Get(f.Context(), f.key(name+"-pool"), pool)); err != nil {
			return err
		}
		machines, err := f.machines(name)
		if err != nil {
			return err
		}
		var ids []string
		for i := range machines {
			if worker(&machines[i]) {
				ids = append(ids, machines[i].Spec.ProviderID)
			}
		}
		slices.Sort(ids)
		st := pool.Status
		if !slices.Equal(ids, pool.Spec.ProviderIDList) || len(mp.Spec.ProviderIDList) != len(ids) || len(st.Instances) != len(ids) {
			return fmt.Errorf("Machines have provider IDs %v; LocalMachinePool %v and %d instances, MachinePool %v", ids, pool.Spec.ProviderIDList, len(st.Instances), mp.Spec.ProviderIDList)
		}
		if st.InfrastructureMachineKind != "LocalMachine" || pool.Spec.ProviderID == "" || st.Ready == nil || !*st.Ready || st.Initialization.Provisioned == nil || !*st.Initialization.Provisioned {
			return fmt.Errorf("provider ID %q, status %+v", pool.Spec.ProviderID, st)
		}
		return errors.Join(isTrue("LocalMachinePool", pool, clusterv1.ReadyCondition),
			counters("LocalMachinePool", int32(len(ids)), st.Replicas), f.nodesAre(name, "v1.36.3", len(ids)+1))
	})
}

func TestAPoolIsScaledByPreference(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	newPool(f, "c", 1)
	first := f.uids("c", worker)[0]
	f.scalePool("c", 50)
	if !slices.Contains(f.uids("c", worker), first) {
		t.Errorf("the first Machine, %s, has gone", first)
	}
	// Two that must be deleted first: by an annotation, and because its Node is not
	// ready.
	others := slices.DeleteFunc(f.uids("c", worker), func(uid string) bool { return uid == first })
	_, marked, _ := strings.Cut(others[10], " ")
	_, sick, _ := strings.Cut(others[20], " ")
	modify(f, marked, &clusterv1.Machine{}, func(m *clusterv1.Machine) {
		m.Annotations = map[string]string{clusterv1.DeleteMachineAnnotation: ""}
	})
	modify(f, sick, &infrav1.LocalMachine{}, func(m *infrav1.LocalMachine) {
		m.Spec.Simulated.Faults = []infrav1.MachineFault{infrav1.MachineFaultNodeNotReady}
	})
	f.eventually(func() error {
		return f.says(f.machine(sick), clusterv1.MachineNodeHealthyCondition, "False", "Node.Ready: ")
	})
	f.scalePool("c", 48)
	for _, uid := range f.uids("c", worker) {
		if strings.HasSuffix(uid, " "+marked) || strings.HasSuffix(uid, " "+sick) {
			t.Errorf("Machine %s is there, and a healthy one has gone", uid)
		}
	}
	f.scalePool("c", 1)
	f.remove("c")
	if left := f.objectsOf("c"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAnotherTemplateOfAPoolIsRolledOutBySurge(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	newPool(f, "c", 3)
	old, kept := f.uids("c", worker), f.uids("c", controlPlane)
	modify(f, "c-pool", &infrav1.LocalMachinePool{}, func(p *infrav1.LocalMachinePool) {
		p.Spec.Template.Simulated.VM.StartupMilliseconds = new(int32(100))
	})
	f.eventually(func() error {
		// A Machine outlives the machine that it represents by a moment.
		machines := &infrav1.LocalMachineList{}
		f.must(f.Client.List(f.Context(), machines, client.InNamespace(f.Namespace), client.HasLabels{clusterv1.MachinePoolNameLabel}))
		if n := len(machines.Items); n > 4 {
			t.Fatalf("there are %d LocalMachines, want one more than 3 at most", n)
		}
		for _, uid := range f.uids("c", worker) {
			if slices.Contains(old, uid) {
				return fmt.Errorf("Machine %s is of the old template", uid)
			}
		}
		return f.settled("c")
	})
	f.poolReports("c")
	if now := f.uids("c", controlPlane); !slices.Equal(kept, now) {
		t.Errorf("control plane machines %v, want %v", now, kept)
	}
}

func TestDeletedLocalMachineIsReplaced(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	newPool(f, "c", 2)
	before := f.uids("c", worker)
	_, name, _ := strings.Cut(before[0], " ")
	lm := &infrav1.LocalMachine{}
	lm.Namespace, lm.Name = f.Namespace, name
	f.must(f.Client.Delete(f.Context(), lm))
	f.eventually(func() error {
		if slices.Contains(f.uids("c", worker), before[0]) {
			return fmt.Errorf("Machine %s is still there", name)
		}
		return f.settled("c")
	})
	f.poolReports("c")
	if !slices.Contains(f.uids("c", worker), before[1]) {
		t.Errorf("Machine %s has gone too", before[1])
	}
}

func TestAPoolOfAnImpossibleSizeKeepsItsMachines(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	newPool(f, "c", 2)
	before := f.uids("c", worker)
	modify(f, "c-pool", &clusterv1.MachinePool{}, func(mp *clusterv1.MachinePool) { mp.Spec.Replicas = new(int32(1_000_000)) })
	f.eventually(func() error {
		return f.says(&infrav1.LocalMachinePool{}, clusterv1.ReadyCondition, "False", "spec.replicas of MachinePool c-pool is 1000000: set a number from 0 to 10000", "c-pool")
	})
	if after := f.uids("c", worker); !slices.Equal(before, after) {
		t.Errorf("Machines %v, want %v", after, before)
	}
	f.scalePool("c", 2)
}
