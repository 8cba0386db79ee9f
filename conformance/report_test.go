// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestErrNamesWhatFailed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		report Report
		want   string
	}{
		"all is well":      {Report{Passed: 1, Results: []Result{{Outcome: Passed}}}, ""},
		"nothing passed":   {Report{URL: "u", Skipped: 1, Results: []Result{{Outcome: Skipped}}}, "no check of u was run to its end"},
		"only advice":      {Report{Passed: 1, Advised: 1, Results: []Result{{Outcome: Passed}, {Outcome: Advised}}}, ""},
		"nothing was done": {Report{Problem: "connect: refused", Passed: 1}, "connect: refused"},
		"two failed": {Report{URL: "u", Failed: 2, Results: []Result{
			{Check: "A.", Handler: "h", Outcome: Failed, Problem: "p"}, {Check: "B.", Outcome: Failed}, {Check: "C.", Outcome: Passed},
		}}, "2 of 3 checks of u failed: h: A. (p); B."},
	} {
		got := ""
		if err := tc.report.Err(); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestEvaluateReturnsOutcome(t *testing.T) {
	t.Parallel()
	check, advice := Check{Name: "It works."}, Check{Name: "It works.", Advice: true}
	for name, tc := range map[string]struct {
		check Check
		err   error
		want  Result
	}{
		"nothing is wrong":       {check, nil, Result{Outcome: Passed}},
		"something is":           {check, errors.New("a\nb"), Result{Outcome: Failed, Problem: "a; b", Remedy: "repair it"}},
		"advice":                 {advice, errors.New("a"), Result{Outcome: Advised, Problem: "a", Remedy: "repair it"}},
		"advice that is met":     {advice, nil, Result{Outcome: Passed}},
		"not run":                {check, Skip("no %s", "kind"), Result{Outcome: Skipped, Problem: "no kind"}},
		"not run, with context":  {check, fmt.Errorf("prepare: %w", Skip("no kind")), Result{Outcome: Skipped, Problem: "no kind"}},
		"advice that is not run": {advice, Skip("%w", errors.New("no kind")), Result{Outcome: Skipped, Problem: "no kind"}},
	} {
		tc.want.Check = "It works."
		if diff := cmp.Diff(tc.want, tc.check.Evaluate(tc.err, "repair it")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if cause := errors.New("cause"); !errors.Is(errors.Unwrap(Skip("skip: %w", cause).(skipError).error), cause) {
		t.Error("the cause of a skip is lost")
	}
}

func TestOneLineIsBounded(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a":                       "a",
		"a\r\n\nb\n":              "a; b",
		"":                        "",
		strings.Repeat("ü", 1000): strings.Repeat("ü", 1000),
		strings.Repeat("ü", 1001): strings.Repeat("ü", 999) + "…",
	} {
		if got := OneLine(errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAddCountsResults(t *testing.T) {
	t.Parallel()
	var r Report
	for _, o := range []Outcome{Passed, Failed, Failed, Advised, Advised, Advised, Skipped, Skipped, Skipped, Skipped} {
		r.Add(Result{Outcome: o})
	}
	if got := [5]int{r.Passed, r.Failed, r.Advised, r.Skipped, len(r.Results)}; got != [5]int{1, 2, 3, 4, 10} {
		t.Errorf("passed, failed, advised, skipped and all are %v", got)
	}
}

func TestResultNamesItsSubject(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Result{
		"A.":         {Check: "A."},
		"h: A.":      {Check: "A.", Handler: "h", Kind: "k"},
		"k: A. (p)":  {Check: "A.", Kind: "k", Problem: "p"},
		"A. (twice)": {Check: "A.", Problem: "twice"},
	} {
		if got := r.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// testRecord records what a test reports, so that it may fail.
type testRecord struct {
	name  string
	lines *[]string
}

func (r testRecord) note(verb string, text string) {
	*r.lines = append(*r.lines, r.name+" "+verb+" "+text)
}
func (r testRecord) Helper()                         {}
func (r testRecord) Context() context.Context        { return context.Background() }
func (r testRecord) Fatal(args ...any)               { r.note("ends:", fmt.Sprint(args...)) }
func (r testRecord) Errorf(text string, args ...any) { r.note("fails:", fmt.Sprintf(text, args...)) }
func (r testRecord) Logf(text string, args ...any)   { r.note("logs:", fmt.Sprintf(text, args...)) }
func (r testRecord) Skip(args ...any)                { r.note("skips:", fmt.Sprint(args...)) }
func (r testRecord) Run(name string, f func(testRecord)) bool {
	r.note("runs", name)
	f(testRecord{name, r.lines})
	return true
}

func TestSubtestsReportResults(t *testing.T) {
	t.Parallel()
	var lines []string
	top := testRecord{"top", &lines}
	Subtests(top, Report{Results: []Result{
		{Check: "A.", Outcome: Passed},
		{Check: "B.", Outcome: Failed, Kind: "Host", Problem: "p", Remedy: "r"},
		{Check: "C.", Outcome: Advised, Handler: "h", Problem: "p", Remedy: "r"},
		{Check: "D.", Outcome: Skipped, Problem: "no kind"},
	}})
	Subtests(top, Report{Problem: "connect: refused"})
	want := []string{
		"top runs A", "top runs B/Host", "B/Host fails: p\nr", "top runs C/h", "C/h logs: advice: p\nr", "top runs D", "D skips: no kind", "top ends: connect: refused",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
