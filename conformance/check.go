// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"strings"
)

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
