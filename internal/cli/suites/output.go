// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"encoding/xml"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// Output is the output format: text, json or junit.
type Output struct{ format string }

var formats = []string{"text", "json", "junit"}

// Add adds -o.
func (o *Output) Add(cmd *cobra.Command) { command.OutputFlag(cmd, &o.format, "text", formats...) }

// Check refuses a form that is none of those.
func (o *Output) Check() error { return command.CheckOutput(o.format, formats...) }

// Run writes the lines of a suite while it runs, on stdout for text output, and
// then its report in the requested format. The error means that name does not keep
// its contract, or why that is not known.
func (o *Output) Run(env *command.Env, name string, suite func(progress func(conformance.Result)) conformance.Report) error {
	l := &lines{write: env.Say}
	if o.format == "text" || o.format == "" {
		l.write = env.Print
	}
	r := suite(l.add)
	l.end()
	var err error
	switch o.format {
	case "json":
		err = env.PrintObject(r, "json")
	case "junit":
		err = junit(env, name, r)
	}
	if err != nil {
		return err
	}
	if r.Problem != "" {
		return fmt.Errorf("test %s: %s", name, r.Problem)
	}
	advice := ""
	if r.Advised > 0 {
		advice = fmt.Sprintf(", advice on %d", r.Advised)
	}
	env.Say("%d passed, %d failed, %d skipped%s", r.Passed, r.Failed, r.Skipped, advice)
	switch {
	case r.Failed > 0:
		return fmt.Errorf("%s does not keep the contract", name)
	case r.Passed == 0:
		return errors.New("nothing could be checked")
	}
	return nil
}

// List prints the checks of a suite.
func (o *Output) List(env *command.Env, checks []conformance.Check) error {
	if o.format != "text" && o.format != "" {
		return env.PrintObject(checks, "json")
	}
	w := tabwriter.NewWriter(env.Out, 0, 0, 3, ' ', 0)
	for _, c := range checks {
		prefix := ""
		if c.Advice {
			prefix = "Advice: "
		}
		_, _ = fmt.Fprintf(w, "%s\n\t%s%s\n", c.Name, prefix, c.Description)
	}
	return w.Flush()
}

// The form that continuous integration reads.
type testSuite struct {
	XMLName  xml.Name   `xml:"testsuite"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Skipped  int        `xml:"skipped,attr"`
	Cases    []testCase `xml:"testcase"`
}

type testCase struct {
	Class   string   `xml:"classname,attr"`
	Name    string   `xml:"name,attr"`
	Seconds string   `xml:"time,attr"`
	Failure *message `xml:"failure"`
	Error   *message `xml:"error"`
	Skipped *message `xml:"skipped"`
	Output  string   `xml:"system-out,omitempty"`
}

type message struct {
	Text   string `xml:"message,attr"`
	Remedy string `xml:",chardata"`
}

// junit writes a report. Advice is the output of a case that passed; what kept
// the suite from being run is a case with an error.
func junit(env *command.Env, name string, r conformance.Report) error {
	s := testSuite{Name: name, Tests: len(r.Results), Failures: r.Failed, Skipped: r.Skipped}
	for _, res := range r.Results {
		c := testCase{Class: name, Name: res.Check, Seconds: fmt.Sprintf("%.3f", res.Duration.Seconds())}
		if subject := res.Subject(); subject != "" {
			c.Class = subject
		}
		switch res.Outcome {
		case conformance.Failed:
			c.Failure = &message{res.Problem, res.Remedy}
		case conformance.Skipped:
			c.Skipped = &message{res.Problem, ""}
		case conformance.Advised:
			c.Output = strings.Join([]string{"advice: " + res.Problem, res.Remedy}, "\n")
		}
		s.Cases = append(s.Cases, c)
	}
	if r.Problem != "" {
		s.Tests, s.Errors = s.Tests+1, 1
		s.Cases = append(s.Cases, testCase{Class: name, Name: "run", Seconds: "0.000", Error: &message{r.Problem, ""}})
	}
	text, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Out, "%s%s\n", xml.Header, text)
	return err
}
