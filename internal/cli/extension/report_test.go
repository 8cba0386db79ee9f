// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	conformance "github.com/capstan-dev/capstan/conformance/extension"
)

func TestTheReportHasOneLineForACheck(t *testing.T) {
	t.Parallel()
	result := func(check, handler string, outcome conformance.Outcome, problem, remedy string) conformance.Result {
		return conformance.Result{Check: check, Handler: handler, Outcome: outcome, Problem: problem, Remedy: remedy}
	}
	tests := map[string]struct {
		results []conformance.Result
		want    string
	}{
		"nothing was run": {nil, ""},
		"of the server, of one handler, of several": {[]conformance.Result{
			result("It serves.", "", conformance.Passed, "", ""),
			result("It answers.", "a.x", conformance.Passed, "", ""),
			result("It repeats.", "a.x", conformance.Passed, "", ""),
			result("It repeats.", "b.x", conformance.Passed, "", ""),
		}, `
ok    It serves.
ok    It answers. (a.x)
ok    It repeats. (2 handlers)`},
		"what is wrong, with whom, and what to do": {[]conformance.Result{
			result("It serves.", "", conformance.Failed, "refused", "start it"),
			result("It repeats.", "a.x", conformance.Failed, "differs", "sort it"),
			result("It repeats.", "b.x", conformance.Passed, "", ""),
			result("It repeats.", "c.x", conformance.Failed, "differs more", "sort it"),
			result("It repeats.", "d.x", conformance.Skipped, "failed before", ""),
		}, `
FAIL  It serves.
      refused
      remedy: start it
FAIL  It repeats. (2 of 4 handlers)
      a.x: differs
      c.x: differs more
      remedy: sort it`},
		"what a server says is no check": {[]conformance.Result{
			result("It serves.", "", conformance.Failed, "got:\nok    It serves.", ""),
		}, `
FAIL  It serves.
      got:
      ok    It serves.`},
		"what could be better": {[]conformance.Result{
			result("It refuses.", "a.x", conformance.Advised, "got 200", "look first"),
			result("It refuses.", "b.x", conformance.Passed, "", ""),
		}, `
note  It refuses. (1 of 2 handlers)
      a.x: got 200
      remedy: look first`},
		"what could not be found out": {[]conformance.Result{
			result("It patches.", "", conformance.Skipped, "no such handler", ""),
			result("It repeats.", "a.x", conformance.Skipped, "failed before", ""),
			result("It repeats.", "b.x", conformance.Skipped, "failed before", ""),
			result("It plans.", "a.x", conformance.Skipped, "failed before", ""),
			result("It plans.", "b.x", conformance.Passed, "", ""),
		}, `
skip  It patches. (no such handler)
skip  It repeats. (failed before)
ok    It plans. (1 of 2 handlers)`},
		"many checks that one reason keeps from being made": {[]conformance.Result{
			result("It serves.", "", conformance.Failed, "refused", ""),
			result("It repeats.", "", conformance.Skipped, "failed before", ""),
			result("It plans.", "", conformance.Skipped, "failed before", ""),
			result("It waits.", "", conformance.Skipped, "failed before", ""),
			result("It patches.", "", conformance.Skipped, "no such handler", ""),
			result("It asks.", "", conformance.Skipped, "failed before", ""),
			result("It ends.", "", conformance.Skipped, "failed before", ""),
		}, `
FAIL  It serves.
      refused
skip  It repeats. (failed before)
skip  2 more, for the same reason
skip  It patches. (no such handler)
skip  It asks. (failed before)
skip  1 more, for the same reason`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			lines := &checkLines{write: func(format string, args ...any) { fmt.Fprintf(&got, "\n"+format, args...) }}
			for _, r := range tc.results {
				lines.add(r)
			}
			lines.end()
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
