// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"strings"
)

// Check is one thing that a counterpart must do, or should.
type Check struct {
	// Name is the sentence of docs/contract.
	Name string `json:"name"`

	// Description says why, and what exactly is looked at.
	Description string `json:"description"`

	// Advice says that callers do not depend on it: who does otherwise is
	// told so, and passes.
	Advice bool `json:"advice,omitempty"`
}

// Judge makes a result of what running a check came to: nil, what is wrong, or
// Skip. remedy is what an author can do about it.
func (c Check) Judge(err error, remedy string) Result {
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

// skipError says why something could not be found out.
type skipError struct{ error }

// Skip says why something could not be found out.
func Skip(format string, args ...any) error { return skipError{fmt.Errorf(format, args...)} }

// OneLine is what an error says, fit for a table, and not endless.
func OneLine(err error) string {
	const limit = 1000
	s := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit-1]) + "…"
	}
	return s
}
