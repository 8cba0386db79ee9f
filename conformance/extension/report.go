// SPDX-License-Identifier: Apache-2.0

package extension

import "github.com/capstan-dev/capstan/conformance"

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
