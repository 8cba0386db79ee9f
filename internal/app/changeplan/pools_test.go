// SPDX-License-Identifier: Apache-2.0

package changeplan_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	"github.com/capstan-dev/capstan/clusterctl"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/app/changeplan"
	"github.com/capstan-dev/capstan/internal/app/changeplan/standin"
	"github.com/capstan-dev/capstan/internal/sim"
)

// pooled are the objects of Cluster fleet with one control plane machine and a
// MachinePool of two.
var pooled = sync.OnceValues(func() ([]client.Object, error) {
	doc, err := clusterctl.Generate(clusterctl.GenerateOptions{
		Name: "fleet", KubernetesVersion: "v1.35.0", ControlPlaneMachines: new(int32(1)), WorkerMachines: new(int32(2)), Template: template.LocalMachinePool(),
	})
	if err != nil {
		return nil, err
	}
	return steady(doc)
})

// servePool serves them. Without machines, the provider has no object for each replica.
func servePool(t *testing.T, machines bool) mgmt {
	t.Helper()
	of, err := pooled()
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for _, obj := range of {
		obj = obj.DeepCopyObject().(client.Object)
		if !machines && obj.GetLabels()[clusterv1.MachinePoolNameLabel] != "" {
			continue
		}
		if p, is := obj.(*infrav1.LocalMachinePool); is && !machines {
			p.Status.InfrastructureMachineKind = ""
		}
		all = append(all, obj)
	}
	if !machines {
		all = rested(t, all)
	}
	return served(t, all)
}

// rested are objects in the state that the controllers reach with them.
func rested(t *testing.T, all []client.Object) []client.Object {
	t.Helper()
	clock := sim.NewClock(now.Add(-30 * time.Minute))
	out, err := standin.New(t.Context(), standin.Options{Clock: clock, Objects: all, Boot: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	o := sim.Options{Clock: clock, Objects: all}
	out.Fill(&o)
	w, err := sim.NewWorld(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.RunFor(t.Context(), now.Sub(clock.Now())); err != nil {
		t.Fatal(err)
	}
	if all, err = w.Objects(t.Context()); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPlanOfAPool changes a MachinePool whose provider has an infrastructure machine
// for each replica, and one whose provider has none.
func TestPlanOfAPool(t *testing.T) {
	t.Parallel()
	local := set("LocalMachinePool", "fleet-pool", int64(1000), "spec", "template", "simulated", "vm", "startupMilliseconds")
	local.Object.SetAPIVersion("infrastructure.capstan.dev/v1beta2")
	pool := func(value any, fields ...string) changeplan.Write {
		return set("MachinePool", "fleet-pool", value, fields...)
	}
	for name, tc := range map[string]struct {
		change   changeplan.Write
		machines bool
		want     planv1.Summary
		then     int32
		why      string // in NotPredicted of the pool
	}{
		"more replicas":                       {pool(int64(4), "spec", "replicas"), true, planv1.Summary{Kept: 3, Created: 2}, 4, ""},
		"fewer replicas":                      {pool(int64(1), "spec", "replicas"), true, planv1.Summary{Kept: 1, NotPredicted: 2}, 1, "which 1 of its 2 machines it deletes"},
		"no replicas":                         {pool(int64(0), "spec", "replicas"), true, planv1.Summary{Kept: 1, NotPredicted: 2}, 0, "which 2 of its 2 machines it deletes"},
		"a field that is copied":              {pool(int64(60), "spec", "template", "spec", "deletion", "nodeDrainTimeoutSeconds"), true, planv1.Summary{Kept: 1, Changed: 2}, 2, ""},
		"another version":                     {pool("v1.35.1", "spec", "template", "spec", "version"), true, planv1.Summary{Kept: 1, NotPredicted: 2}, 2, "when spec.template.spec.version changes"},
		"another template of the provider":    {local, true, planv1.Summary{Kept: 1, NotPredicted: 2}, 2, "when spec.template.simulated"},
		"a deletion":                          {deletion("MachinePool", "fleet-pool"), true, planv1.Summary{Kept: 1, Deleted: 2}, 0, ""},
		"more replicas, no machines":          {pool(int64(4), "spec", "replicas"), false, planv1.Summary{Kept: 1}, 4, ""},
		"fewer replicas, no machines":         {pool(int64(1), "spec", "replicas"), false, planv1.Summary{Kept: 1}, 1, ""},
		"another version, no machines":        {pool("v1.35.1", "spec", "template", "spec", "version"), false, planv1.Summary{Kept: 1, NotPredicted: 1}, 2, "when spec.template.spec.version changes"},
		"a deletion of a pool of no machines": {deletion("MachinePool", "fleet-pool"), false, planv1.Summary{Kept: 1}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan(t, servePool(t, tc.machines), changeplan.Options{}, tc.change)
			if len(p.Clusters) != 1 || p.Clusters[0].NotPredicted != nil || len(p.Clusters[0].Pools) != 1 || p.Summary != tc.want {
				t.Fatalf("the plan:\n%s", text(t, p))
			}
			of := p.Clusters[0].Pools[0]
			if of.Name != "fleet-pool" || of.Before != 2 || of.Then != tc.then || (of.NotPredicted == "") != (tc.why == "") || !strings.Contains(of.NotPredicted, tc.why) {
				t.Errorf("the pool: %+v", of)
			}
			for _, machine := range p.Clusters[0].Machines {
				if ours := machine.Owner == "MachinePool fleet-pool"; (machine.Action == "") != (ours && tc.why != "") {
					t.Errorf("Machine %s of %s: %q", machine.Name, machine.Owner, machine.Action)
				}
			}
		})
	}
}

// TestPlanOfAPoolOfATopology raises the version of a pool that a topology manages. What
// the topology does next depends on when the provider has upgraded the machines.
func TestPlanOfAPoolOfATopology(t *testing.T) {
	t.Parallel()
	m := servePool(t, true)
	p := &clusterv1.MachinePool{}
	if err := m.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "fleet-pool"}, p); err != nil {
		t.Fatal(err)
	}
	p.Labels[clusterv1.ClusterTopologyOwnedLabel] = ""
	if err := m.world.Put(p); err != nil {
		t.Fatal(err)
	}
	got := plan(t, m, changeplan.Options{}, set("MachinePool", "fleet-pool", "v1.35.1", "spec", "template", "spec", "version"))
	if why := got.Clusters[0].NotPredicted; why == nil || why.Reason != planv1.MachinePools || !strings.Contains(why.Message, "MachinePool fleet-pool") || got.Summary.NotPredicted != 3 {
		t.Errorf("the plan:\n%s", text(t, got))
	}
}
