// SPDX-License-Identifier: Apache-2.0

package clusterdeletion

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/clusterstatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

func named(name string, change ...func(*metav1.ObjectMeta)) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Namespace: "ns", Name: name}
	for _, c := range change {
		c(&m)
	}
	return m
}

func owned(m *metav1.ObjectMeta) {
	m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineDeployment", Name: "md", Controller: new(true)}}
}

func going(m *metav1.ObjectMeta) {
	m.DeletionTimestamp = &metav1.Time{Time: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)}
}

func machines(all ...metav1.ObjectMeta) (out []*clusterv1.Machine) {
	for _, m := range all {
		out = append(out, &clusterv1.Machine{ObjectMeta: m})
	}
	return out
}

func refers(kind, field string) reference.Object {
	return reference.Object{Ref: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: "demo"}, Field: field}
}

func TestTheOrder(t *testing.T) {
	t.Parallel()
	brain, network := refers("Brain", "spec.controlPlaneRef"), refers("Net", "spec.infrastructureRef")
	failed := questions.Failed(errors.New("boom"))
	many := clusterstatus.Members{
		Deployments: []*clusterv1.MachineDeployment{{ObjectMeta: named("md")}},
		Sets:        []*clusterv1.MachineSet{{ObjectMeta: named("md-1", owned)}, {ObjectMeta: named("lone")}},
		Pools:       []*clusterv1.MachinePool{{ObjectMeta: named("pool")}},
		Workers:     machines(named("w0", owned), named("w1"), named("w2", going)),
	}
	const workersLeft = "WaitingForWorkersDeletion: Waiting for 1 MachineDeployment, 2 MachineSets, 1 MachinePool, 3 worker Machines to be deleted"
	const asksWorkers = "MachineDeployment md, MachineSet lone, MachinePool pool, Machine w1"
	for name, tc := range map[string]struct {
		facts           Facts
		answers         map[Kind]Answer
		want, wantAsked string
	}{
		"nothing before the hook lets it":                {Facts{network, brain, many, true}, nil, "WaitingForBeforeDeleteHook: Waiting for BeforeClusterDelete hook", ""},
		"workers first, except those with another owner": {Facts{network, brain, many, false}, nil, workersLeft, asksWorkers},
		"one that cannot be deleted keeps no other":      {Facts{network, brain, many, false}, map[Kind]Answer{MachineSet: {Failed: failed}, Machine: {Failed: failed}}, workersLeft + ", error delete MachineSet ns/lone: boom\ndelete Machine ns/w1: boom", asksWorkers},
		"sets of a deployment are waited for":            {Facts{network, brain, clusterstatus.Members{Sets: many.Sets[:1]}, false}, nil, "WaitingForWorkersDeletion: Waiting for 1 MachineSet to be deleted", ""},
		"then the control plane":                         {Facts{network, brain, clusterstatus.Members{ControlPlaneMachines: machines(named("cp0", owned))}, false}, nil, "WaitingForControlPlaneDeletion: Waiting for Brain demo to be deleted", "ControlPlane"},
		"or its Machines if it has no object":            {Facts{network, reference.Object{}, clusterstatus.Members{ControlPlaneMachines: machines(named("cp0"), named("cp1", going))}, false}, nil, "WaitingForControlPlaneDeletion: Waiting for 2 control plane Machines to be deleted", "Machine cp0"},
		"and when its object is another's":               {Facts{network, brain, clusterstatus.Members{ControlPlaneMachines: machines(named("cp0"))}, false}, map[Kind]Answer{ControlPlane: {Held: true}}, "WaitingForControlPlaneDeletion: Waiting for 1 control plane Machine to be deleted", "ControlPlane, Machine cp0"},
		"then the infrastructure":                        {Facts{network, brain, clusterstatus.Members{}, false}, map[Kind]Answer{ControlPlane: {Gone: true}}, "WaitingForInfrastructureDeletion: Waiting for Net demo to be deleted", "ControlPlane, Infrastructure"},
		"what cannot be looked for is an error":          {Facts{network, brain, clusterstatus.Members{}, false}, map[Kind]Answer{ControlPlane: {Unknown: failed}}, "WaitingForControlPlaneDeletion: Waiting for Brain demo to be deleted: boom, error boom", "ControlPlane"},
		"then the Cluster":                               {Facts{network, brain, clusterstatus.Members{}, false}, map[Kind]Answer{ControlPlane: {Gone: true}, Infrastructure: {Gone: true}}, "DeletionCompleted: Deletion completed, done", "ControlPlane, Infrastructure"},
		"which waits for nothing that is another's":      {Facts{network, brain, clusterstatus.Members{}, false}, map[Kind]Answer{ControlPlane: {Held: true}, Infrastructure: {Held: true}}, "DeletionCompleted: Deletion completed, done", "ControlPlane, Infrastructure"},
		"nor for anything if it refers to nothing":       {Facts{}, nil, "DeletionCompleted: Deletion completed, done", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked []string
			made, err := Planner.Make(tc.facts, func(q Question) (Answer, error) {
				asked = append(asked, strings.TrimSpace(string(q.Kind)+" "+q.Name))
				return tc.answers[q.Kind], nil
			})
			got := made.Plan.Reason + ": " + made.Plan.Message
			if made.Plan.Done {
				got += ", done"
			}
			if err != nil {
				got += ", error " + err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantAsked, strings.Join(asked, ", ")); diff != "" {
				t.Errorf("asked to delete (-want +got):\n%s", diff)
			}
			stored, encodeErr := json.Marshal(made)
			var read questions.Record[Facts, Question, Answer, Plan]
			if encodeErr = errors.Join(encodeErr, json.Unmarshal(stored, &read)); encodeErr != nil {
				t.Fatal(encodeErr)
			}
			if again, _ := Planner.Again(read); again != made.Plan {
				t.Errorf("replayed, the plan is %v, and was %v", again, made.Plan)
			}
		})
	}
}

// TestDeletionIsRequestedOnce: what is being deleted already is only waited for.
func TestDeletionIsRequestedOnce(t *testing.T) {
	t.Parallel()
	made, err := Planner.Make(Facts{Members: clusterstatus.Members{
		Deployments: []*clusterv1.MachineDeployment{{ObjectMeta: named("md", going)}}, Pools: []*clusterv1.MachinePool{{ObjectMeta: named("pool", going)}}, Workers: machines(named("w", going)),
	}}, func(q Question) (Answer, error) { return Answer{}, errors.New("asked for " + string(q.Kind)) })
	if want := "Waiting for 1 MachineDeployment, 1 MachinePool, 1 worker Machine to be deleted"; err != nil || made.Plan.Message != want || made.Plan.Done {
		t.Errorf("plan %+v, %v, want %s", made.Plan, err, want)
	}
}
