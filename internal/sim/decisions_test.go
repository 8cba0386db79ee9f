// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/internal/access/replay"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// checkDecisions checks the decisions of every story: they hold no value of a Secret,
// and the planners make them again from what is recorded.
func (s *story) checkDecisions() {
	s.t.Helper()
	secrets := map[string]string{}
	for _, obj := range s.objects("Secret") {
		for name, value := range obj.(*corev1.Secret).Data {
			if len(value) > 8 { // a shorter one can be part of another word
				secrets[string(value)] = obj.GetName() + " " + name
			}
		}
	}
	for _, entry := range s.decisions.All() {
		for value, of := range secrets {
			if bytes.Contains(entry, []byte(value)) {
				s.t.Errorf("a decision has the value of Secret %s: %s", of, entry)
			}
		}
		d, err := decisions.Read(entry)
		if err != nil {
			s.t.Error(err)
			continue
		}
		again := replay.Again(s.t.Context(), d)
		if again.Skipped != "" && d.Omitted == "" || again.Skipped == "" && !again.Same {
			s.t.Errorf("%s of %s %s is not the same again: skipped %q, plan %s, error %q, recorded %s %q\nfacts %.3000s", d.Planner, d.Object.Kind, d.Object.Name, again.Skipped, again.Plan, again.Error, d.Plan, d.Error, d.Facts)
		}
	}
}

func TestDecisionsOfClusterAreRecorded(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 1, 1)
	var got []string
	for _, entry := range w.decisions.List("machinedeployment", "default", "demo-workers") {
		d, err := decisions.Read(entry)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(d.Plan))
	}
	want := []string{
		`{"actions":["create demo-workers-1 with 1 replicas: no MachineSet matches the template"],"current":"demo-workers-1","revision":"1"}`,
		`{"current":"demo-workers-1","revision":"1"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
	if len(w.objects("Secret")) == 0 {
		t.Error("the test of every story has no Secret to search decisions for")
	}
}

func TestSteadyStateRecordsNothing(t *testing.T) {
	t.Parallel()
	w := New(t)
	create(t, w, "demo", 3, 1)
	watchOver(t, w, workersHealth())
	w.RunFor(time.Hour) // the timers of the start expire
	before, _ := w.decisions.Size()
	w.Run()
	w.RunFor(time.Hour)
	if after, _ := w.decisions.Size(); after != before || before == 0 {
		all := w.decisions.All()
		t.Errorf("%d decisions in steady state, after %d: the last is %s", after-before, before, all[len(all)-1])
	}
}
