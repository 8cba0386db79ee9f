// SPDX-License-Identifier: Apache-2.0

// Package questions makes plans that depend on answers from elsewhere.
//
// A planner is a pure function of facts. What it lacks it asks for: its questions
// are answered, and the plan is made again with the answers, until nothing is
// asked any more. So nothing is fetched that no plan needs,
// what to ask is part of the decision and tested with it, and a plan with all
// it was made from is a value: it can be kept as JSON and made again.
//
// Answering may change the world: a hook is called, a Pod is evicted. The answer
// is then what came of it. That is why no question is put twice.
package questions

import (
	"errors"
	"fmt"
	"slices"
)

// maxRounds is how often a plan is made at most. The longest chain of questions
// that depend on each other, that of the deletion of a Machine, has thirteen.
const maxRounds = 20

// Answer is a question with its answer.
type Answer[Q comparable, A any] struct {
	Question Q `json:"question"`
	Answer   A `json:"answer"`
}

// Answers are in the order in which they were asked for.
type Answers[Q comparable, A any] []Answer[Q, A]

// to returns the answer to a question, if it has been put.
func (all Answers[Q, A]) to(q Q) (A, bool) {
	for _, a := range all {
		if a.Question == q {
			return a.Answer, true
		}
	}
	var none A
	return none, false
}

// Asker is whom a planner asks.
type Asker[Q comparable, A any] struct {
	told  Answers[Q, A]
	asked []Q
}

// Ask returns the answer to a question. If it is not known yet, the planner
// decides as far as it can without, and will be called again with the answer.
func (a *Asker[Q, A]) Ask(q Q) (answer A, known bool) {
	if answer, known = a.told.to(q); !known {
		a.asked = append(a.asked, q)
	}
	return answer, known
}

// Planner decides from facts and answers. While it asks, its plan is what is
// certain so far; an error is final, and comes with such a plan too.
type Planner[F any, Q comparable, A, P any] func(F, *Asker[Q, A]) (P, error)

// Record is a plan and all that it was made from. The facts are those that were
// given, not a copy: encode them before they change.
type Record[F any, Q comparable, A, P any] struct {
	Facts   F             `json:"facts"`
	Answers Answers[Q, A] `json:"answers,omitempty"`
	Plan    P             `json:"plan"`
	// Failure is why the plan is not complete; Unanswered the question whose
	// answer failed, nil if the planner did.
	Failure    *Failure `json:"failure,omitempty"`
	Unanswered *Q       `json:"unanswered,omitempty"`
}

// Make makes a plan, with the answers that it asks for. Whatever fails, an
// answer or the planner, the record holds the plan as far as it had come.
func (plan Planner[F, Q, A, P]) Make(facts F, answer func(Q) (A, error)) (Record[F, Q, A, P], error) {
	r := Record[F, Q, A, P]{Facts: facts}
	err := plan.complete(&r, answer)
	if err != nil {
		r.Failure = &Failure{err}
	}
	return r, err
}

func (plan Planner[F, Q, A, P]) complete(r *Record[F, Q, A, P], answer func(Q) (A, error)) error {
	for range maxRounds {
		asker := &Asker[Q, A]{told: r.Answers}
		var err error
		if r.Plan, err = plan(r.Facts, asker); err != nil || len(asker.asked) == 0 {
			return err
		}
		for _, q := range asker.asked {
			if _, again := r.Answers.to(q); again {
				return fmt.Errorf("the plan asks twice: %v", q)
			}
			a, err := answer(q)
			if err != nil {
				r.Unanswered = &q
				return err
			}
			r.Answers = append(r.Answers, Answer[Q, A]{q, a})
		}
	}
	return fmt.Errorf("the plan still asks after %d rounds", maxRounds)
}

// Again makes the plan of a record once more, from its facts and answers alone.
// It fails if the planner asks anything else than it did then, or in another
// order; an answer that failed then fails again.
func (plan Planner[F, Q, A, P]) Again(r Record[F, Q, A, P]) (P, error) {
	left := slices.Clone(r.Answers)
	made, err := plan.Make(r.Facts, func(q Q) (a A, err error) {
		switch {
		case len(left) == 0 && r.Unanswered != nil && q == *r.Unanswered:
			return a, r.Failure
		case len(left) == 0:
			return a, fmt.Errorf("the plan asks what it did not ask then: %v", q)
		case left[0].Question != q:
			return a, fmt.Errorf("the plan asks %v, and asked %v then", q, left[0].Question)
		}
		a, left = left[0].Answer, left[1:]
		return a, nil
	})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the plan does not ask what it asked then: %v", left[0].Question)
	}
	return made.Plan, err
}

// Failure is an error among facts and answers. A record keeps its text; errors.Is
// and errors.As see what it stands for only where it happened.
type Failure struct{ err error }

// Failed makes a Failure of an error, nil of nil.
func Failed(err error) *Failure {
	if err == nil {
		return nil
	}
	return &Failure{err}
}

// Error implements error.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns what the failure stands for.
func (f *Failure) Unwrap() error { return f.err }

// MarshalText implements encoding.TextMarshaler.
func (f *Failure) MarshalText() ([]byte, error) { return []byte(f.Error()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Failure) UnmarshalText(text []byte) error {
	f.err = errors.New(string(text))
	return nil
}
