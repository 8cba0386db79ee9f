// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Outcome is how a check went.
type Outcome string

const (
	// Passed says that the server does what the check asks for.
	Passed Outcome = "passed"

	// Failed says that it does not.
	Failed Outcome = "failed"

	// Advised says that it does not, and that callers do not depend on it.
	Advised Outcome = "advised"

	// Skipped says that it could not be found out.
	Skipped Outcome = "skipped"
)

// Result is the outcome of one check, for the server as a whole or for one
// handler.
type Result struct {
	// Check is the check's name, a sentence.
	Check string `json:"check"`

	// Handler is the full name of the handler, Discovery, or empty for the
	// server as a whole.
	Handler string `json:"handler,omitempty"`

	Outcome Outcome `json:"outcome"`

	// Problem is what was seen instead, or why the check was skipped.
	Problem string `json:"problem,omitempty"`

	// Remedy is what an author can do about a failure, or advice.
	Remedy string `json:"remedy,omitempty"`

	// Duration is how long the check took.
	Duration metav1.Duration `json:"duration"`
}

// Report is what a run found out.
type Report struct {
	// URL is the server.
	URL string `json:"url"`

	// Problem is why nothing could be checked at all.
	Problem string `json:"problem,omitempty"`

	// Passed, Failed, Advised and Skipped count the results.
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Advised int `json:"advised"`
	Skipped int `json:"skipped"`

	// Results are in the order of Checks, then of handlers.
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

// String is the result in one line.
func (r Result) String() string {
	s := r.Check
	if r.Handler != "" {
		s = r.Handler + ": " + s
	}
	if r.Problem != "" {
		s += " (" + r.Problem + ")"
	}
	return s
}

// TB is a test as testing.T is one; T is the type itself.
type TB[T any] interface {
	Helper()
	Context() context.Context
	Run(name string, f func(T)) bool
	Fatal(args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
	Skip(args ...any)
}

// Test runs the suite as a test, with one subtest for each result:
//
//	extension.Test(t, extension.Config{URL: s.URL(), CABundle: s.CABundle()})
func Test[T TB[T]](t T, c Config) {
	t.Helper()
	r := Run(t.Context(), c)
	if r.Problem != "" {
		t.Fatal(r.Problem)
	}
	for _, res := range r.Results {
		name := strings.TrimSuffix(res.Check, ".")
		if res.Handler != "" {
			name += "/" + res.Handler
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

func (r *Report) add(res Result) {
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
