// SPDX-License-Identifier: Apache-2.0

// Package replay makes recorded decisions again with the planners of this program.
//
// A decision is an input that may be forged: it is decoded and planned without side
// effects, and a planner that panics on it has failed.
package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/capstan-dev/capstan/internal/controller/cluster/clusterdeletion"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig/bootstrapdata"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/controller/localmachinepool/localpool"
	"github.com/capstan-dev/capstan/internal/controller/machine/machinedeletion"
	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
	"github.com/capstan-dev/capstan/internal/controller/topology/upgrade"
	"github.com/capstan-dev/capstan/internal/kit/decisions"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/inplace"
	"github.com/capstan-dev/capstan/internal/pure/rollout"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// planner makes the plan of a decision.
type planner struct {
	name string
	// types are those of what is recorded.
	types []reflect.Type
	again func(decisions.Decision) (plan any, err error)
}

// planners are those whose decisions are recorded.
func planners() []planner {
	return []planner{
		asking(bootstrapdata.Planner),
		asking(clusterdeletion.Planner),
		asking(inplace.Planner),
		asking(controlplane.Planner),
		asking(machinedeletion.Planner),
		asking(rollout.Planner),
		asking(upgrade.Planner),
		plain(healthcheck.Decide),
		plain(controlplane.Remediate),
		plain(localpool.Plan),
		desiredState(),
		plain(scaling.Plan),
		plain(scaling.Remediation),
	}
}

// asking is a planner that asks questions.
func asking[F any, Q comparable, A, P any](p questions.Planner[F, Q, A, P]) planner {
	return planner{decisions.Planner(reflect.TypeFor[F](), reflect.TypeFor[P]()), []reflect.Type{reflect.TypeFor[F](), reflect.TypeFor[Q](), reflect.TypeFor[A](), reflect.TypeFor[P]()}, func(d decisions.Decision) (any, error) {
		var r questions.Record[F, Q, A, P]
		err := errors.Join(decode("facts", d.Facts, &r.Facts), decode("answers", d.Answers, &r.Answers), decode("the unanswered question", d.Unanswered, &r.Unanswered))
		if err != nil {
			return nil, &unreadableError{err}
		}
		if d.Error != "" {
			r.Failure = questions.Failed(errors.New(d.Error))
		}
		return p.Again(r)
	}}
}

// plain is a planner that asks none.
func plain[F, P any](plan func(F) P) planner {
	return planner{decisions.Planner(reflect.TypeFor[F](), reflect.TypeFor[P]()), []reflect.Type{reflect.TypeFor[F](), reflect.TypeFor[P]()}, func(d decisions.Decision) (any, error) {
		var facts F
		if err := decode("facts", d.Facts, &facts); err != nil {
			return nil, &unreadableError{err}
		}
		return plan(facts), nil
	}}
}

// desiredState is that of a topology. The contents of its objects are as they were recorded:
// they consist of values that are not.
func desiredState() planner {
	p := plain(desired.Repeat)
	again := p.again
	p.again = func(d decisions.Decision) (any, error) {
		plan, err := again(d)
		if err != nil {
			return nil, err
		}
		var was desired.Outline
		if err := decode("the plan", d.Plan, &was); err != nil {
			return nil, &unreadableError{err}
		}
		now := plan.(desired.Outline)
		for i := range now.Objects {
			now.Objects[i].Content = ""
			if i < len(was.Objects) {
				now.Objects[i].Content = was.Objects[i].Content
			}
		}
		return now, nil
	}
	return p
}

func decode(what string, text json.RawMessage, into any) error {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("decode %s: %w", what, err)
	}
	return nil
}

// unreadableError means that a decision cannot be made again.
type unreadableError struct{ err error }

// Error implements error.
func (e *unreadableError) Error() string { return e.err.Error() }

// Result is the comparison of a decision with that of this program.
type Result struct {
	// Skipped is why the decision cannot be made again; empty if it was.
	Skipped string
	// Same reports whether plan and error are those that were recorded.
	Same bool
	// Plan and Error are the present decision.
	Plan  json.RawMessage
	Error string
}

// Again makes a decision again.
func Again(ctx context.Context, d decisions.Decision) (r Result) {
	if d.Omitted != "" {
		return Result{Skipped: d.Omitted}
	}
	for _, p := range planners() {
		if p.name == d.Planner {
			return p.compare(ctx, d)
		}
	}
	return Result{Skipped: "planner " + d.Planner + " is unknown to this version"}
}

func (p planner) compare(ctx context.Context, d decisions.Decision) (r Result) {
	var plan any
	err := recovery.Call(ctx, func() (err error) {
		plan, err = p.again(d)
		return err
	})
	if unreadable, is := errors.AsType[*unreadableError](err); is {
		return Result{Skipped: unreadable.Error()}
	}
	if err != nil {
		r.Error = err.Error()
	}
	if r.Plan, err = decisions.Encode(decisions.Plain(plan)); err != nil {
		return Result{Skipped: fmt.Sprintf("encode the plan: %v", err)}
	}
	r.Same = r.Error == d.Error && bytes.Equal(decisions.Lasting(r.Plan), decisions.Lasting(d.Plan))
	return r
}
