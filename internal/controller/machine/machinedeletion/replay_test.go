// SPDX-License-Identifier: Apache-2.0

package machinedeletion

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// deletion is what became of one Machine, reconcile by reconcile.
func deletion(t *testing.T) (all []Record) {
	t.Helper()
	onePod := map[Kind]Answer{Pods: {Pods: []corev1.Pod{pod("p0")}}}
	refused := map[Kind]Answer{Pods: onePod[Pods], DoEvict: {Refused: "cannot evict pod as it would violate the pod's disruption budget."}}
	stuck := map[Kind]Answer{DoDeleteNode: {NodeNotGone: questions.Failed(errors.New("etcdserver: request timed out"))}}
	var before *clusterv1.MachineDeletionStatus
	for i, step := range []struct {
		facts   Facts
		answers map[Kind]Answer
		fails   Kind
	}{
		{facts: facts(annotated(preDrain))},
		{facts: facts(uncordoned), answers: refused},
		{facts: facts(), fails: Pods},
		{facts: facts(), answers: onePod},
		{facts: facts()},
		{facts: facts(func(f *Facts) { f.Infrastructure.Going = true })},
		{facts: facts(noHost, noNode)},
		{facts: facts(noHost, noNode, noBootstrap), answers: stuck},
		{facts: facts(noHost, noNode, noBootstrap)},
	} {
		step.facts.Now = now.Add(time.Duration(i) * time.Second)
		step.facts.Machine.Status.Deletion = before
		made, err := Planner.Make(step.facts, (&world{answers: step.answers, fails: step.fails}).answer)
		if fails := step.fails != "" || step.answers[DoDeleteNode].NodeNotGone != nil; (err != nil) != fails {
			t.Fatalf("reconcile %d: error %v, want one: %v", i, err, fails)
		}
		all, before = append(all, made), made.Plan.Began
	}
	return all
}

// TestARecordedDeletionGivesTheSamePlansAgain replays stored records, so it detects a
// plan that changes for known facts and answers.
func TestARecordedDeletionGivesTheSamePlansAgain(t *testing.T) {
	t.Parallel()
	made, err := json.MarshalIndent(deletion(t), "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	made = append(made, '\n')
	builder.Golden(t, "deletion.json", made)
	var records []Record
	if err := json.Unmarshal(made, &records); err != nil {
		t.Fatal(err)
	}
	for i, r := range records {
		plan, err := Planner.Again(r)
		if text(err) != text(failure(r)) {
			t.Errorf("reconcile %d: error %v, then it was %v", i, err, r.Failure)
		}
		if diff := cmp.Diff(r.Plan, plan); diff != "" {
			t.Errorf("reconcile %d: plan (-then +now):\n%s", i, diff)
		}
	}
}

func failure(r Record) error {
	if r.Failure == nil {
		return nil
	}
	return r.Failure
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
