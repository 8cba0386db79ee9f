// SPDX-License-Identifier: Apache-2.0

package questions_test

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/questions"
)

// facts, hook, answer and plan are those of a Cluster that must not be deleted
// before a hook has been called, and allows it.
type (
	facts  struct{ Hooks, Workers int }
	hook   string
	answer struct{ RetryAfter time.Duration }
	plan   struct {
		Message string
		After   time.Duration
	}
)

func deletion(f facts, hooks *questions.Asker[hook, answer]) (plan, error) {
	if f.Hooks > 0 {
		a, known := hooks.Ask("BeforeClusterDelete")
		if !known || a.RetryAfter > 0 {
			return plan{"Waiting for the hook BeforeClusterDelete", a.RetryAfter}, nil
		}
	}
	return plan{Message: fmt.Sprintf("Waiting for %d workers to be deleted", f.Workers)}, nil
}

func ExamplePlanner_Make() {
	planner := questions.Planner[facts, hook, answer, plan](deletion)
	call := func(h hook) (answer, error) {
		fmt.Println("calling", h)
		return answer{RetryAfter: 10 * time.Second}, nil
	}
	for _, f := range []facts{{Workers: 2}, {Hooks: 1, Workers: 2}} {
		made, err := planner.Make(f, call)
		if err != nil {
			fmt.Println(err)
		}
		stored, _ := json.Marshal(made)
		fmt.Println(string(stored))
	}
	// Output:
	// {"facts":{"Hooks":0,"Workers":2},"plan":{"Message":"Waiting for 2 workers to be deleted","After":0}}
	// calling BeforeClusterDelete
	// {"facts":{"Hooks":1,"Workers":2},"answers":[{"question":"BeforeClusterDelete","answer":{"RetryAfter":10000000000}}],"plan":{"Message":"Waiting for the hook BeforeClusterDelete","After":10000000000}}
}
