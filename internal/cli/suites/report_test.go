// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/internal/cli/command"
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
		"the problem, its object and the remedy": {[]conformance.Result{
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
		"of kinds": {[]conformance.Result{
			{Check: "It waits.", Kind: "A", Outcome: conformance.Passed},
			{Check: "It waits.", Kind: "B", Outcome: conformance.Failed, Problem: "it did not"},
		}, `
FAIL  It waits. (1 of 2 kinds)
      B: it did not`},
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
			l := &lines{write: func(format string, args ...any) { fmt.Fprintf(&got, "\n"+format, args...) }}
			for _, r := range tc.results {
				l.add(r)
			}
			l.end()
			if diff := cmp.Diff(tc.want, got.String()); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAReportIsADocumentForContinuousIntegration(t *testing.T) {
	t.Parallel()
	var r conformance.Report
	for _, res := range []conformance.Result{
		{Check: "It serves.", Outcome: conformance.Passed},
		{Check: "It waits.", Kind: "A", Outcome: conformance.Failed, Problem: "it <did> not", Remedy: "wait"},
		{Check: "It rests.", Kind: "A", Outcome: conformance.Advised, Problem: "it runs", Remedy: "rest"},
		{Check: "It ends.", Kind: "A", Outcome: conformance.Skipped, Problem: "not started"},
	} {
		r.Add(res)
	}
	r.Problem = "no server"
	var out bytes.Buffer
	o := Output{format: "junit"}
	err := o.Run(&command.Env{Out: &out, Err: &bytes.Buffer{}}, "p", func(func(conformance.Result)) conformance.Report { return r })
	if err == nil || err.Error() != "test p: no server" {
		t.Errorf("error %v", err)
	}
	want := `<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="p" tests="5" failures="1" errors="1" skipped="1">
  <testcase classname="p" name="It serves." time="0.000"></testcase>
  <testcase classname="A" name="It waits." time="0.000">
    <failure message="it &lt;did&gt; not">wait</failure>
  </testcase>
  <testcase classname="A" name="It rests." time="0.000">
    <system-out>advice: it runs&#xA;rest</system-out>
  </testcase>
  <testcase classname="A" name="It ends." time="0.000">
    <skipped message="not started"></skipped>
  </testcase>
  <testcase classname="p" name="run" time="0.000">
    <error message="no server"></error>
  </testcase>
</testsuite>
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
}
