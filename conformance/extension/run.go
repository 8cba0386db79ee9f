// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
)

// scope returns the handlers that a check is run for, one at a time.
type scope func(s *session) []*handler

// check is one sentence of the contract.
type check struct {
	Check
	remedy string

	// about lists what is checked; nil is the server as a whole.
	about scope

	// vital means that after a failure no other check of the handler, or the server, can
	// be run.
	vital bool

	// test returns nil, the problem, or Skip. Its handler is nil for the server as a
	// whole.
	test func(ctx context.Context, s *session, h *handler) error
}

// Checks lists the checks in the order in which they are run.
func Checks() []Check {
	all := checks()
	out := make([]Check, len(all))
	for i, c := range all {
		out[i] = c.Check
	}
	return out
}

// Run checks a server. It ends early when ctx does; checks that were not run are reported
// as skipped then.
func Run(ctx context.Context, c Config) Report {
	report := Report{URL: c.URL, Results: []Result{}}
	c, err := c.complete()
	if err == nil {
		var s *session
		if s, err = open(c); err == nil {
			defer s.close()
			s.run(ctx, func(r Result) {
				report.Add(r)
				c.Progress(r)
			})
			err = s.fault
			if ctx.Err() != nil {
				err = fmt.Errorf("the run was ended: %w", context.Cause(ctx))
			}
		}
	}
	if err != nil {
		report.Problem = conformance.OneLine(err)
	}
	return report
}

func (s *session) run(ctx context.Context, report func(Result)) {
	for _, c := range checks() {
		if s.fault != nil {
			return
		}
		if c.about == nil {
			report(s.result(ctx, c, nil))
			continue
		}
		subjects := c.about(s)
		for _, h := range subjects {
			report(s.result(ctx, c, h))
		}
		if len(subjects) == 0 {
			report(Result{Check: c.Name, Outcome: Skipped, Problem: s.noHandler()})
		}
	}
}

// noHandler is the reason why no handler matches a check.
func (s *session) noHandler() string {
	if s.problem != "" {
		return s.problem
	}
	if !s.discovered {
		return "its handlers are not known"
	}
	return "it has no such handler"
}

// result runs one check.
func (s *session) result(ctx context.Context, c check, h *handler) Result {
	start := time.Now()
	err := s.try(ctx, c, h)
	if ctx.Err() != nil {
		err = conformance.Skip("the run was ended: %w", context.Cause(ctx))
	}
	res := c.Evaluate(err, c.remedy)
	res.Duration = metav1.Duration{Duration: time.Since(start)}
	if h != nil {
		res.Handler = h.name
	}
	if res.Outcome == Passed || res.Outcome == Skipped {
		return res
	}
	if h != nil && (c.vital || late(err)) {
		h.problem = "it failed before: " + c.Name
	} else if c.vital {
		s.problem = "the extension failed before: " + c.Name
	}
	return res
}

// late reports whether there was no answer in time. The suite does not wait repeatedly
// for a handler that has not answered once.
func late(err error) bool {
	e, ok := errors.AsType[*transport.Error](err)
	return ok && e.Reason == transport.Timeout || errors.Is(err, context.DeadlineExceeded)
}

func (s *session) try(ctx context.Context, c check, h *handler) error {
	switch {
	case ctx.Err() != nil:
		return nil // result reports it
	case s.problem != "":
		return conformance.Skip("%s", s.problem)
	case h != nil && h.problem != "":
		return conformance.Skip("%s", h.problem)
	}
	return c.test(ctx, s, h)
}

// Check is one thing that an extension must do, or should.
type Check = conformance.Check

// Result is the outcome of one check, for the server as a whole or for one
// handler.
type Result = conformance.Result

// Report is what a run found out.
type Report = conformance.Report

// The outcomes of a check.
const (
	Passed  = conformance.Passed
	Failed  = conformance.Failed
	Advised = conformance.Advised
	Skipped = conformance.Skipped
)

// Test runs the suite as a test, with one subtest for each result:
//
//	extension.Test(t, extension.Config{URL: s.URL(), CABundle: s.CABundle()})
func Test[T conformance.TB[T]](t T, c Config) {
	t.Helper()
	conformance.Subtests(t, Run(t.Context(), c))
}
