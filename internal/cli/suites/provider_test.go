// SPDX-License-Identifier: Apache-2.0

package suites

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// full is a device that has no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestRunEndsAsItsReportSays(t *testing.T) {
	t.Parallel()
	passed, failed := conformance.Result{Check: "A.", Outcome: conformance.Passed}, conformance.Result{Check: "B.", Outcome: conformance.Failed, Problem: "\x1b[2Jno\nok    C."}
	advised, skipped := conformance.Result{Check: "C.", Outcome: conformance.Advised, Problem: "p", Remedy: "r"}, conformance.Result{Check: "D.", Outcome: conformance.Skipped, Problem: "s"}
	for name, tc := range map[string]struct {
		results []conformance.Result
		problem string
		said    string
		err     string
	}{
		"all pass":         {[]conformance.Result{passed}, "", "1 passed, 0 failed, 0 skipped\n", ""},
		"advice":           {[]conformance.Result{passed, advised}, "", "1 passed, 0 failed, 0 skipped, advice on 1\n", ""},
		"one fails":        {[]conformance.Result{passed, failed}, "", "1 passed, 1 failed, 0 skipped\n", "p does not keep the contract"},
		"nothing is known": {[]conformance.Result{skipped}, "", "0 passed, 0 failed, 1 skipped\n", "nothing could be checked"},
		"nothing at all":   {nil, "", "0 passed, 0 failed, 0 skipped\n", "nothing could be checked"},
		"it did not run":   {[]conformance.Result{passed}, "no server", "", "test p: no server"},
	} {
		for _, format := range []string{"", "text", "json", "junit"} {
			var out, said bytes.Buffer
			r := conformance.Report{Problem: tc.problem}
			o := Output{format: format}
			err := o.Run(&command.Env{Out: &out, Err: &said}, "p", func(progress func(conformance.Result)) conformance.Report {
				for _, res := range tc.results {
					r.Add(res)
					progress(res)
				}
				return r
			})
			if (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err || !strings.HasSuffix(said.String(), tc.said) {
				t.Errorf("%s, %q: error %v, said %q", name, format, err, said.String())
			}
			if strings.ContainsRune(out.String()+said.String(), '\x1b') && format != "json" || strings.Contains(out.String(), "\nok    C.") {
				t.Errorf("%s, %q: a message is obeyed, or looks like a check: %q", name, format, out.String())
			}
			if format != "json" {
				continue
			}
			var got conformance.Report
			if err := json.Unmarshal(out.Bytes(), &got); err != nil || cmp.Diff(r, got) != "" {
				t.Errorf("%s: %v, the report for programs (-want +got):\n%s", name, err, cmp.Diff(r, got))
			}
		}
	}
}

func TestRunThatCannotBeWrittenFails(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"json", "junit"} {
		o := Output{format: format}
		err := o.Run(&command.Env{Out: full{}, Err: &bytes.Buffer{}}, "p", func(func(conformance.Result)) conformance.Report { return conformance.Report{Passed: 1} })
		if err == nil || err.Error() != "no space left on device" {
			t.Errorf("%s: error %v", format, err)
		}
	}
	for _, format := range []string{"text", "json"} {
		o := Output{format: format}
		if err := o.List(&command.Env{Out: full{}}, []conformance.Check{{Name: "A."}}); err == nil || err.Error() != "no space left on device" {
			t.Errorf("list as %s: error %v", format, err)
		}
	}
}

func TestListHasTheChecksOfTheRoles(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		cmd := NewProvider(&command.Env{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }})
		cmd.SetArgs(append([]string{"test", "--list"}, args...))
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	text, err := run("--roles", "InfraCluster")
	if err != nil || !strings.HasPrefix(text, checks([]string{"InfraCluster"})[0].Name+"\n") {
		t.Errorf("%v, printed %.200s", err, text)
	}
	text, err = run("-o", "json")
	var all []conformance.Check
	if err := errors.Join(err, json.Unmarshal([]byte(text), &all)); err != nil || cmp.Diff(checks(nil), all) != "" || len(all) <= len(checks([]string{"InfraCluster"})) {
		t.Errorf("%v, %d checks", err, len(all))
	}
}

// TestFilesOfAConfigLieNextToIt, unless the command line names others.
func TestFilesOfAConfigLieNextToIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "provider.yaml")
	const text = "files: [release.yaml, ../other.yaml, /absolute.yaml]\nroles: [InfraCluster]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		o            testOptions
		files, roles []string
	}{
		"those of the config":       {testOptions{config: file}, []string{filepath.Join(dir, "release.yaml"), filepath.Join(filepath.Dir(dir), "other.yaml"), "/absolute.yaml"}, []string{"InfraCluster"}},
		"of standard input":         {testOptions{config: "-"}, []string{"release.yaml", "../other.yaml", "/absolute.yaml"}, []string{"InfraCluster"}},
		"those of the command line": {testOptions{config: file, files: []string{"mine.yaml"}, roles: []string{"InfraMachine"}}, []string{"mine.yaml"}, []string{"InfraMachine"}},
		"without a config":          {testOptions{files: []string{"mine.yaml"}}, []string{"mine.yaml"}, nil},
	} {
		c, err := readConfig(&command.Env{In: strings.NewReader(text)}, tc.o)
		if diff := cmp.Diff(tc.files, c.Files) + cmp.Diff(tc.roles, c.Roles); err != nil || diff != "" {
			t.Errorf("%s: %v, files and roles (-want +got):\n%s", name, err, diff)
		}
	}
}
