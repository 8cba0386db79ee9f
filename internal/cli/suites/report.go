// SPDX-License-Identifier: Apache-2.0

// Package suites holds the command that runs the conformance suite of providers, and
// writes the results of a suite: lines for people while it runs, and documents for
// programs.
package suites

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/conformance"
)

// lines writes the results of a suite, one line for each check, and under it what
// is wrong. Results of one check arrive one after the other, one for each handler
// or kind.
type lines struct {
	write   func(format string, args ...any)
	results []conformance.Result // of one check

	// A check that everything else relies on causes a page of skips for one reason:
	// the first is written, the others are counted.
	why  string // of the skip before
	more int
}

func (c *lines) add(r conformance.Result) {
	if len(c.results) > 0 && c.results[0].Check != r.Check {
		c.flush()
	}
	c.results = append(c.results, r)
}

// flush writes the check whose results are complete.
func (c *lines) flush() {
	if len(c.results) == 0 {
		return
	}
	text, why := summarise(c.results)
	c.results = nil
	if why != "" && why == c.why {
		c.more++
		return
	}
	c.count()
	c.why = why
	for _, line := range text {
		c.write("%s", strings.ReplaceAll(line, "\n", "\n      ")) // the message of a server must not look like a check
	}
}

// end writes what is left.
func (c *lines) end() {
	c.flush()
	c.count()
}

func (c *lines) count() {
	if c.more > 0 {
		c.write("skip  %d more, for the same reason", c.more)
	}
	c.more = 0
}

// summarise summarizes the results of one check in lines. If it was skipped as a
// whole, it returns the reason.
func summarise(results []conformance.Result) (lines []string, skipped string) {
	var passed, failed, advised []conformance.Result
	for _, r := range results {
		switch r.Outcome {
		case conformance.Passed:
			passed = append(passed, r)
		case conformance.Failed:
			failed = append(failed, r)
		case conformance.Advised:
			advised = append(advised, r)
		}
	}
	check := results[0].Check
	switch {
	case len(failed) > 0:
		return problems("FAIL  "+check+ratio(failed, results), failed), ""
	case len(advised) > 0:
		return problems("note  "+check+ratio(advised, results), advised), ""
	case len(passed) > 0:
		return []string{"ok    " + check + ratio(passed, results)}, ""
	}
	why := strings.Join(distinct(results, "", func(r conformance.Result) string { return r.Problem }), "; ")
	return []string{"skip  " + check + " (" + why + ")"}, why
}

// problems puts what is wrong, and what to do about it, under a title.
func problems(title string, results []conformance.Result) []string {
	lines := []string{title}
	for _, r := range results {
		problem := r.Problem
		if subject := r.Subject(); subject != "" {
			problem = subject + ": " + problem
		}
		lines = append(lines, "      "+problem)
	}
	return append(lines, distinct(results, "      remedy: ", func(r conformance.Result) string { return r.Remedy })...)
}

// ratio names the handlers or kinds of some results, or how many of all.
func ratio(some, all []conformance.Result) string {
	what := "handlers"
	if all[0].Kind != "" {
		what = "kinds"
	}
	switch {
	case len(all) == 1 && all[0].Subject() == "":
		return ""
	case len(all) == 1:
		return " (" + all[0].Subject() + ")"
	case len(some) == len(all):
		return fmt.Sprintf(" (%d %s)", len(all), what)
	}
	return fmt.Sprintf(" (%d of %d %s)", len(some), len(all), what)
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
