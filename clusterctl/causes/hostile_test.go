// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestFindNamesCauseAmongConditionsThatDependOnEachOther, also next to another cause.
func TestFindNamesCauseAmongConditionsThatDependOnEachOther(t *testing.T) {
	t.Parallel()
	const down = `
Cluster/demo: RemoteConnectionProbe False ProbeFailed 1 Remote connection probe failed
KubeadmControlPlane/cp: Available False ConnectionDown 0
`
	run(t, map[string]scene{
		"alone":           {says: down, want: "Cluster/demo RemoteConnectionProbe"},
		"next to a pause": {says: down + "MachineDeployment/md paused spec.paused\nMachineDeployment/md: Paused True Paused 0", want: "Cluster/demo RemoteConnectionProbe", also: "MachineDeployment/md Paused"},
		"next to a fault": {says: down + workerDown + "Machine/w-0: NodeHealthy False NodeNotHealthy 3 * Node.Ready: kubelet stopped", want: "Cluster/demo RemoteConnectionProbe", also: "Machine/w-0 NodeHealthy"},
	})
}

// TestFindEndsWithAnyObjects: those of foreign controllers need not make sense.
func TestFindEndsWithAnyObjects(t *testing.T) {
	t.Parallel()
	core := func(kind, name string) Key { return Key{"cluster.x-k8s.io", kind, "fleet", name} }
	bad := func() []metav1.Condition {
		var all []metav1.Condition
		for _, conditionType := range []string{"Ready", "Available", "InfrastructureReady", "NodeHealthy", "Deleting", "ScalingUp", "MachinesReady", "ControlPlaneInitialized", "TopologyReconciled", ""} {
			for _, status := range []metav1.ConditionStatus{"True", "False", "Unknown", "Maybe", ""} {
				all = append(all, condition(conditionType, status, "ConnectionDown", "hooks are blocking \x1b[2J\n"+strings.Repeat("m", 1<<12), time.Hour))
			}
		}
		return append(all, metav1.Condition{Type: "NoTime", Status: "False"})
	}
	var objects []Object
	kinds := []string{"Cluster", "Machine", "MachineSet", "MachineDeployment", "MachinePool", "MachineHealthCheck", "ClusterClass", "KubeadmControlPlane", "Host"}
	for i, kind := range kinds {
		o := Object{Key: core(kind, "a"), UID: kind, Conditions: bad(), Deleted: new(noon), Paused: "spec.paused", Unset: []string{fieldEndpoint, fieldDone, FieldLabel, "x"}}
		for j, other := range kinds { // all own each other, and refer to each other in each field
			o.Owners = append(o.Owners, kinds[(i+j)%len(kinds)])
			for _, field := range []string{fieldInfrastructure, fieldControlPlane, fieldBootstrap, fieldTemplateInfrastructure, fieldClass, fieldSets} {
				o.Refs = append(o.Refs, Ref{field, core(other, "a")})
			}
		}
		objects = append(objects, o)
	}
	objects = append(objects, objects[1], Object{}, Object{Key: core("Cluster", ""), Owners: []string{""}, Refs: []Ref{{}}})
	for i := range objects {
		for _, c := range Find(objects, objects[i].Key).Causes {
			if len(c.Chain) == 0 || c.Remedy == nil || c.Sentence() == "" {
				t.Errorf("from %s: %+v", objects[i].Key, c)
			}
		}
	}
}

// TestFindExplainsFleet has 5,000 Machines: one cause for those with the same, and all that
// differ, each found by its Machine too.
func TestFindExplainsFleet(t *testing.T) {
	t.Parallel()
	const machines = 5000
	objects := fleet(machines, condition("InstanceReady", "False", "NoCapacity", "no capacity in eu-1a", 0))
	if r := Find(objects, objects[0].Key); len(r.Causes) != 1 || len(r.Causes[0].Others) != machines-1 {
		t.Errorf("%d causes", len(r.Causes))
	}
	for i := range objects {
		if o := &objects[i]; o.Kind == "FakeMachine" {
			o.Conditions[0].Message = "host failed: " + strings.Repeat("x", i)
		}
	}
	r := Find(objects, objects[0].Key)
	if len(r.Causes) != machines || len(r.Causes[0].Others) > 0 {
		t.Errorf("%d causes", len(r.Causes))
	}
	last := fmt.Sprintf("m-%d", machines-1)
	if r := Find(objects, Key{"cluster.x-k8s.io", "Machine", "fleet", last}); leaf(r, 0) != "FakeMachine/"+last+" InstanceReady" || len(r.Causes) != 1 {
		t.Errorf("of one Machine: %+v", r.Causes)
	}
}
