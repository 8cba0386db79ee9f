// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Outcome is the outcome of a check.
type Outcome string

const (
	// Passed means that the requirement is met.
	Passed Outcome = "passed"

	// Failed means that it is not.
	Failed Outcome = "failed"

	// Advised means that it is not, and that no caller depends on it.
	Advised Outcome = "advised"

	// Skipped means that the check could not be run.
	Skipped Outcome = "skipped"
)

// Result is the outcome of one check, for the counterpart as a whole or for one
// part of it.
type Result struct {
	// Check is the check's name, a sentence.
	Check string `json:"check"`

	// Handler is the full name of the handler of an extension, Discovery, or
	// empty for the server as a whole.
	Handler string `json:"handler,omitempty"`

	// Kind is the kind of a provider.
	Kind string `json:"kind,omitempty"`

	Outcome Outcome `json:"outcome"`

	// Problem is what was observed instead, or why the check was skipped.
	Problem string `json:"problem,omitempty"`

	// Remedy is what an author can do about a failure, or advice.
	Remedy string `json:"remedy,omitempty"`

	// Duration is how long the check took.
	Duration metav1.Duration `json:"duration"`
}

// Report is the result of a run.
type Report struct {
	// URL is what was checked: an extension, an API server, or a file.
	URL string `json:"url"`

	// Problem is the reason why nothing could be checked at all.
	Problem string `json:"problem,omitempty"`

	// Passed, Failed, Advised and Skipped count the results.
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Advised int `json:"advised"`
	Skipped int `json:"skipped"`

	// Results are in the order of the checks, then of handlers or kinds.
	Results []Result `json:"results"`
}

// Err is nil if nothing failed and something passed. Otherwise it names what
// failed.
func (r Report) Err() error {
	if r.Problem != "" {
		return errors.New(r.Problem)
	}
	var failed []string
	for _, res := range r.Results {
		if res.Outcome == Failed {
			failed = append(failed, res.String())
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d checks of %s failed: %s", r.Failed, len(r.Results), r.URL, strings.Join(failed, "; "))
	}
	if r.Passed == 0 {
		return fmt.Errorf("no check of %s was run to its end", r.URL)
	}
	return nil
}

// Subject is the handler or the kind that the result is about; empty for the
// counterpart as a whole.
func (r Result) Subject() string { return cmp.Or(r.Handler, r.Kind) }

// String is the result in one line.
func (r Result) String() string {
	s := r.Check
	if subject := r.Subject(); subject != "" {
		s = subject + ": " + s
	}
	if r.Problem != "" {
		s += " (" + r.Problem + ")"
	}
	return s
}

// TB is a test like testing.T; T is the type itself.
type TB[T any] interface {
	Helper()
	Context() context.Context
	Run(name string, f func(T)) bool
	Fatal(args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
	Skip(args ...any)
}

// Subtests reports a report as a test, with one subtest for each result.
func Subtests[T TB[T]](t T, r Report) {
	t.Helper()
	if r.Problem != "" {
		t.Fatal(r.Problem)
	}
	for _, res := range r.Results {
		name := strings.TrimSuffix(res.Check, ".")
		if subject := res.Subject(); subject != "" {
			name += "/" + subject
		}
		t.Run(name, func(t T) {
			t.Helper()
			switch res.Outcome {
			case Failed:
				t.Errorf("%s\n%s", res.Problem, res.Remedy)
			case Advised:
				t.Logf("advice: %s\n%s", res.Problem, res.Remedy)
			case Skipped:
				t.Skip(res.Problem)
			}
		})
	}
}

// Add counts a result.
func (r *Report) Add(res Result) {
	switch res.Outcome {
	case Passed:
		r.Passed++
	case Failed:
		r.Failed++
	case Advised:
		r.Advised++
	case Skipped:
		r.Skipped++
	}
	r.Results = append(r.Results, res)
}

// Check is one requirement or recommendation for a counterpart.
type Check struct {
	// Name is the sentence of docs/contract.
	Name string `json:"name"`

	// Description gives the reason, and what exactly is checked.
	Description string `json:"description"`

	// Advice means that callers do not depend on it: a counterpart that fails it gets the
	// advice, and passes.
	Advice bool `json:"advice,omitempty"`
}

// Evaluate returns the result for the outcome of a check: nil, the problem, or Skip. remedy
// is what an author can do about it.
func (c Check) Evaluate(err error, remedy string) Result {
	r := Result{Check: c.Name, Outcome: Passed}
	if skipped, ok := errors.AsType[skipError](err); ok {
		r.Outcome, r.Problem = Skipped, OneLine(skipped.error)
		return r
	}
	if err == nil {
		return r
	}
	r.Outcome, r.Problem, r.Remedy = Failed, OneLine(err), remedy
	if c.Advice {
		r.Outcome = Advised
	}
	return r
}

// skipError is the reason why a check could not be executed.
type skipError struct{ error }

// Skip returns the reason why a check could not be executed.
func Skip(format string, args ...any) error { return skipError{fmt.Errorf(format, args...)} }

// OneLine is the text of an error in one line of limited length, for a table.
func OneLine(err error) string {
	const limit = 1000
	s := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit-1]) + "…"
	}
	return s
}
