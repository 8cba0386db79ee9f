// SPDX-License-Identifier: Apache-2.0

// Package questions makes plans that depend on answers from outside.
//
// A planner is a pure function of facts. It asks questions about what it lacks:
// they are answered, and the plan is made again with the answers, until the planner
// asks nothing further. So nothing is fetched that no plan needs, the choice of
// questions is part of the decision and tested with it, and a plan with all its
// inputs is a value: it can be kept as JSON and made again.
//
// Answering may change the cluster state: a hook is called, a Pod is evicted. The
// answer is then the result. That is why no question is asked twice.
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

// Answers are in the order of their questions.
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

// Asker receives the questions of a planner.
type Asker[Q comparable, A any] struct {
	told  Answers[Q, A]
	asked []Q
}

// Ask returns the answer to a question. If it is not known yet, the planner decides
// as far as it can without, and will be called again with the answer.
func (a *Asker[Q, A]) Ask(q Q) (answer A, known bool) {
	if answer, known = a.told.to(q); !known {
		a.asked = append(a.asked, q)
	}
	return answer, known
}

// Planner decides from facts and answers. While it asks, its plan is what is
// certain so far; an error is final, and is returned with such a plan too.
type Planner[F any, Q comparable, A, P any] func(F, *Asker[Q, A]) (P, error)

// Record is a plan with all its inputs. The facts are those that were given, not a
// copy: encode them before they change.
type Record[F any, Q comparable, A, P any] struct {
	Facts   F             `json:"facts"`
	Answers Answers[Q, A] `json:"answers,omitempty"`
	Plan    P             `json:"plan"`
	// Failure is why the plan is not complete; Unanswered the question whose
	// answer failed, nil if the planner did.
	Failure    *Failure `json:"failure,omitempty"`
	Unanswered *Q       `json:"unanswered,omitempty"`
}

// Make builds a plan, with the answers that it requests. If an answer or the planner
// fails, the record holds the plan up to that point.
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

// Again makes the plan of a record another time, from its facts and answers alone.
// It fails if the planner asks other questions than it did then, or in another
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
// and errors.As find the original error only in the process where it happened.
type Failure struct{ err error }

// Failed converts an error to a Failure, nil to nil.
func Failed(err error) *Failure {
	if err == nil {
		return nil
	}
	return &Failure{err}
}

// Error implements error.
func (f *Failure) Error() string { return f.err.Error() }

// Unwrap returns the original error of the failure.
func (f *Failure) Unwrap() error { return f.err }

// MarshalText implements encoding.TextMarshaler.
func (f *Failure) MarshalText() ([]byte, error) { return []byte(f.Error()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Failure) UnmarshalText(text []byte) error {
	f.err = errors.New(string(text))
	return nil
}
