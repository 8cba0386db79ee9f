// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"fmt"
	"slices"
	"strings"

	conformance "github.com/capstan-dev/capstan/conformance/extension"
)

// checkLines writes what the conformance suite finds out, one line for each
// check, and under it what is wrong. Results of one check come one after the
// other, one for each handler.
type checkLines struct {
	write   func(format string, args ...any)
	results []conformance.Result // of one check
}

func (c *checkLines) add(r conformance.Result) {
	if len(c.results) > 0 && c.results[0].Check != r.Check {
		c.flush()
	}
	c.results = append(c.results, r)
}

// flush writes the check whose results are complete.
func (c *checkLines) flush() {
	for _, line := range summarise(c.results) {
		c.write("%s", line)
	}
	c.results = nil
}

// summarise puts the results of one check in lines.
func summarise(results []conformance.Result) []string {
	if len(results) == 0 {
		return nil
	}
	var passed, failed, skipped []conformance.Result
	for _, r := range results {
		switch r.Outcome {
		case conformance.Passed:
			passed = append(passed, r)
		case conformance.Failed:
			failed = append(failed, r)
		default:
			skipped = append(skipped, r)
		}
	}
	check := results[0].Check
	switch {
	case len(failed) > 0:
		lines := []string{"FAIL  " + check + ratio(failed, results)}
		for _, r := range failed {
			problem := r.Problem
			if r.Handler != "" {
				problem = r.Handler + ": " + problem
			}
			lines = append(lines, "      "+problem)
		}
		return append(lines, distinct(failed, "      remedy: ", func(r conformance.Result) string { return r.Remedy })...)
	case len(passed) > 0:
		return []string{"ok    " + check + ratio(passed, results)}
	}
	why := distinct(skipped, "", func(r conformance.Result) string { return r.Problem })
	return []string{"skip  " + check + " (" + strings.Join(why, "; ") + ")"}
}

// ratio says which handlers some results are of, or how many of all.
func ratio(some, all []conformance.Result) string {
	switch {
	case len(all) == 1 && all[0].Handler == "":
		return ""
	case len(all) == 1:
		return " (" + all[0].Handler + ")"
	case len(some) == len(all):
		return fmt.Sprintf(" (%d handlers)", len(all))
	}
	return fmt.Sprintf(" (%d of %d handlers)", len(some), len(all))
}

// distinct are the different texts of results, in their order, each after a
// prefix.
func distinct(results []conformance.Result, prefix string, text func(conformance.Result) string) []string {
	var all []string
	for _, r := range results {
		if line := prefix + text(r); text(r) != "" && !slices.Contains(all, line) {
			all = append(all, line)
		}
	}
	return all
}
