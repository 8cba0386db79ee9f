// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// underWay is an update of which all is written.
func underWay() Facts {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "set", Controller: new(true)}}}}
	m.Status.NodeRef.Name = "n"
	m.Status.Initialization.BootstrapDataSecretCreated, m.Status.Initialization.InfrastructureProvisioned = new(true), new(true)
	Mark(m)
	Begin(m)
	side := func(kind string) reference.Object {
		o := reference.Object{Ref: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: "m"}, Field: "spec.ref", Obj: object(kind, nil)}
		Mark(o.Obj)
		return o
	}
	return Facts{Machine: m, Infrastructure: side("Host"), Bootstrap: side("Boot")}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	const updating, failed = clusterv1.MachineInPlaceUpdatingReason, clusterv1.MachineInPlaceUpdateFailedReason
	tests := map[string]struct {
		change func(*Facts)
		reply  Reply
		asked  []Question
		want   Progress
	}{
		"no update": {change: func(f *Facts) { f.Machine.Annotations = nil }},
		"a hook that an update has left": {
			change: func(f *Facts) { delete(f.Machine.Annotations, clusterv1.UpdateInProgressAnnotation) },
			want:   Progress{Finish: true},
		},
		"the owner has still to write": {
			change: func(f *Facts) { delete(f.Machine.Annotations, runtimev1.PendingHooksAnnotation) },
			want:   Progress{Reason: updating, Message: "Waiting for MachineSet set to write the desired Machine"},
		},
		"the owner is kept from it": {
			change: func(f *Facts) {
				delete(f.Machine.Annotations, runtimev1.PendingHooksAnnotation)
				f.Blocked = "Updating Machines in place is blocked because:\n* x"
			},
			want: Progress{Reason: updating, Message: "MachineSet set: Updating Machines in place is blocked because:\n* x"},
		},
		"there is no owner": {
			change: func(f *Facts) { f.Machine.OwnerReferences = nil },
			want: Progress{Reason: updating, Message: "No controller that could update the Machine in place manages it: remove annotation " +
				clusterv1.UpdateInProgressAnnotation},
		},
		"there is no Node": {
			change: func(f *Facts) { f.Machine.Status.NodeRef.Name = "" },
			want:   Progress{Reason: updating, Message: "Waiting for the Machine to have a Node"},
		},
		"the infrastructure has gone": {
			change: func(f *Facts) { f.Infrastructure.Obj, f.Infrastructure.Missing = nil, true },
			want:   Progress{Reason: updating, Message: "Host m, named by spec.ref, does not exist: create it, or correct the reference"},
		},
		"it continues": {
			reply: Reply{Again: time.Minute, Message: "copying"}, asked: []Question{{}},
			want: Progress{Reason: updating, Message: "copying", Again: time.Minute},
		},
		"it continues, without a message": {
			reply: Reply{Again: time.Minute}, asked: []Question{{}},
			want: Progress{Reason: updating, Message: "Update in place is in progress", Again: time.Minute},
		},
		"it is done": {asked: []Question{{}}, want: Progress{Finish: true, Updated: true}},
		"it was interrupted at its end": {
			change: func(f *Facts) { Finish(f.Infrastructure.Obj) }, asked: []Question{{Live: true}},
			want: Progress{Finish: true, Updated: true},
		},
		"there is no bootstrap config": {
			change: func(f *Facts) { f.Bootstrap = reference.Object{} }, asked: []Question{{}},
			want: Progress{Finish: true, Updated: true},
		},
		"the extension does not answer": {
			reply: Reply{Failure: questions.Failed(errors.New("connection refused"))}, asked: []Question{{}},
			want: Progress{Reason: updating, Message: "connection refused"},
		},
		"the extension says that it failed": {
			reply: Reply{Failure: questions.Failed(errors.New("disk full")), Final: true}, asked: []Question{{}},
			want: Progress{Reason: failed, Message: "Update in place has failed: disk full. It is tried again; delete the Machine to have it replaced"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := underWay()
			if tc.change != nil {
				tc.change(&f)
			}
			var asked []Question
			made, err := Planner.Make(f, func(q Question) (Reply, error) {
				asked = append(asked, q)
				return tc.reply, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, made.Plan); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.asked, asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			again(t, made)
		})
	}
}

// again encodes a record and replays it.
func again(t *testing.T, made questions.Record[Facts, Question, Reply, Progress]) {
	t.Helper()
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	var read questions.Record[Facts, Question, Reply, Progress]
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	if got, err := Planner.Again(read); err != nil || got != made.Plan {
		t.Errorf("made again: %+v, %v", got, err)
	}
}

func TestMarksComeAndGo(t *testing.T) {
	t.Parallel()
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Labels:          map[string]string{"a": "1"},
		Annotations:     map[string]string{runtimev1.PendingHooksAnnotation: "Other", "note": "x"},
		OwnerReferences: []metav1.OwnerReference{{Name: "old", UID: "old", Controller: new(true)}, {Name: "other"}},
	}}
	Target{Owner: metav1.OwnerReference{Name: "new", UID: "new", Controller: new(true)}, Labels: map[string]string{"a": "2"}}.Take(m)
	if !Moved(m) || !InProgress(m) || Pending(m) || metav1.GetControllerOf(m).Name != "new" || len(m.OwnerReferences) != 2 || m.Labels["a"] != "2" {
		t.Errorf("handed over: %+v", m.ObjectMeta)
	}
	Begin(m)
	Begin(m)
	if Moved(m) || !InProgress(m) || !Pending(m) || m.Annotations[runtimev1.PendingHooksAnnotation] != "Other,UpdateMachine" {
		t.Errorf("started: %v", m.Annotations)
	}
	if !Finish(m) || Finish(m) {
		t.Error("what is finished is finished again")
	}
	if diff := cmp.Diff(map[string]string{runtimev1.PendingHooksAnnotation: "Other", "note": "x"}, m.Annotations); diff != "" {
		t.Errorf("finished (-want +got):\n%s", diff)
	}
}
