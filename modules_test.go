// SPDX-License-Identifier: Apache-2.0

package capstan

import (
	"encoding/json"
	"errors"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

const modulesFile = "build/modules.txt"

// oldAfter is the age in months, at the review, from which a module needs a reason.
const oldAfter = 12

// reviewedModule is a line of modulesFile.
type reviewedModule struct {
	path, version, why string
	released           time.Time
}

// parseModules reads the day of the review and the modules.
func parseModules(text string) (reviewed time.Time, all []reviewedModule, err error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if fields[0] == "reviewed" && len(fields) == 2 {
			if reviewed, err = time.Parse(time.DateOnly, fields[1]); err != nil {
				return reviewed, nil, err
			}
			continue
		}
		if len(fields) < 3 {
			return reviewed, nil, errors.New("want module, version, day and reason: " + line)
		}
		m := reviewedModule{path: fields[0], version: fields[1], why: strings.Join(fields[3:], " ")}
		if m.released, err = time.Parse(time.DateOnly, fields[2]); err != nil {
			return reviewed, nil, err
		}
		all = append(all, m)
	}
	return reviewed, all, nil
}

// checkModules reports the modules that differ from go.mod, and old ones without a reason.
// It compares with the day of the review: the result does not change with time.
func checkModules(reviewed time.Time, all []reviewedModule, direct map[string]string) (problems []string) {
	seen := map[string]bool{}
	for _, m := range all {
		seen[m.path] = true
		switch {
		case direct[m.path] == "":
			problems = append(problems, m.path+" is not required directly: delete its line")
		case direct[m.path] != m.version:
			problems = append(problems, m.path+" is at "+direct[m.path]+", not "+m.version+": correct its version and day")
		case m.why == "" && m.released.AddDate(0, oldAfter, 0).Before(reviewed):
			problems = append(problems, m.path+" is older than twelve months: update it, or add why it stays")
		}
	}
	for path := range direct {
		if !seen[path] {
			problems = append(problems, path+" has no line")
		}
	}
	slices.Sort(problems)
	return problems
}

// directModules are the versions that a go.mod requires directly.
func directModules(mod string) map[string]string {
	direct := map[string]string{}
	for _, block := range regexp.MustCompile(`(?ms)^require \((.*?)^\)`).FindAllStringSubmatch(mod, -1) {
		for _, m := range regexp.MustCompile(`(?m)^\t(\S+) (\S+)$`).FindAllStringSubmatch(block[1], -1) {
			direct[m[1]] = m[2]
		}
	}
	return direct
}

// released is the day of a version by the module cache, as far as that has it.
func released(t *testing.T, path, version string) (day time.Time, ok bool) {
	t.Helper()
	cache := os.Getenv("GOMODCACHE")
	if cache == "" {
		cache = filepath.Join(filepath.SplitList(build.Default.GOPATH)[0], "pkg", "mod")
	}
	escape := func(s string) string {
		return regexp.MustCompile("[A-Z]").ReplaceAllStringFunc(s, func(c string) string { return "!" + strings.ToLower(c) })
	}
	text, err := os.ReadFile(filepath.Join(cache, "cache", "download", filepath.FromSlash(escape(path)), "@v", escape(version)+".info"))
	if errors.Is(err, fs.ErrNotExist) {
		return day, false
	}
	var info struct{ Time time.Time }
	if err = errors.Join(err, json.Unmarshal(text, &info)); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return info.Time.UTC().Truncate(24 * time.Hour), true
}

func TestModulesAreReviewed(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(modulesFile)
	if err != nil {
		t.Fatal(err)
	}
	direct := directModules(string(mod))
	if os.Getenv("UPDATE_GOLDEN") != "" {
		text = []byte(updateModules(t, string(text), direct))
		if err := os.WriteFile(modulesFile, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	reviewed, all, err := parseModules(string(text))
	if err != nil || reviewed.IsZero() || len(direct) == 0 {
		t.Fatalf("%s: %v, reviewed %s, %d modules in go.mod", modulesFile, err, reviewed, len(direct))
	}
	for _, problem := range checkModules(reviewed, all, direct) {
		t.Errorf("%s: %s", modulesFile, problem)
	}
	for _, m := range all {
		if day, ok := released(t, m.path, m.version); ok && !day.Equal(m.released) {
			t.Errorf("%s: %s %s is of %s, not %s", modulesFile, m.path, m.version, day.Format(time.DateOnly), m.released.Format(time.DateOnly))
		}
	}
}

// updateModules writes versions and days of go.mod and of the module cache, and keeps the
// head of the file and the reasons.
func updateModules(t *testing.T, text string, direct map[string]string) string {
	t.Helper()
	head, _, _ := strings.Cut(text, "\n\n")
	_, all, err := parseModules(text)
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, m := range all {
		why[m.path] = m.why
	}
	var lines []string
	for path, version := range direct {
		day, ok := released(t, path, version)
		if !ok {
			t.Fatalf("%s %s is not in the module cache: run go mod download", path, version)
		}
		lines = append(lines, strings.TrimSpace(strings.Join([]string{path, version, day.Format(time.DateOnly), why[path]}, " ")))
	}
	slices.Sort(lines)
	return head + "\n\n" + strings.Join(lines, "\n") + "\n"
}

func TestCheckModulesNamesWhatIsNotReviewed(t *testing.T) {
	reviewed, all, err := parseModules("# text\nreviewed 2026-11-27\n\na v1 2025-11-26\nb v1 2025-11-27\nc v1 2020-01-01 finished\nd v1 2026-01-01\ne v1 2026-01-01\n")
	if err != nil {
		t.Fatal(err)
	}
	got := checkModules(reviewed, all, map[string]string{"a": "v1", "b": "v1", "c": "v1", "d": "v2", "f": "v1"})
	want := []string{
		"a is older than twelve months: update it, or add why it stays",
		"d is at v2, not v1: correct its version and day",
		"e is not required directly: delete its line",
		"f has no line",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, text := range []string{"a v1", "a v1 yesterday", "reviewed 1.1.2026"} {
		if _, _, err := parseModules(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// resolved are the versions that a go.mod requires, also indirectly, after its replace lines.
func resolved(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:require |replace |\t)(\S+)(?: => (\S+))? (v\S+)`).FindAllStringSubmatch(string(text), -1) {
		if versions[m[1]] != "" || m[2] == "" { // replaced, if required
			versions[m[1]] = m[3]
		}
	}
	return versions
}

// TestModulesShareVersions: one other version deep in the graph, and all that depends on
// it is compiled again for the modules of the tests.
func TestModulesShareVersions(t *testing.T) {
	ours := resolved(t, "go.mod")
	for _, file := range []string{"peer/go.mod", "peer/e2e/go.mod", "examples/provider-example/go.mod"} {
		shared := 0
		for path, version := range resolved(t, file) {
			switch have := ours[path]; {
			case have == version:
				shared++
			case have != "":
				t.Errorf("%s has %s %s, go.mod has %s", file, path, version, have)
			}
		}
		if shared < 30 {
			t.Errorf("%s shares only %d modules with go.mod", file, shared)
		}
	}
}

// TestVulnerabilitiesAreLookedUpForEveryModule checks the workflow of the public repository.
func TestVulnerabilitiesAreLookedUpForEveryModule(t *testing.T) {
	text, err := os.ReadFile(".github/workflows/govulncheck.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		On   map[string]any
		Jobs map[string]struct {
			Strategy struct{ Matrix struct{ Module []string } }
			Steps    []struct {
				Run              string
				WorkingDirectory string `json:"working-directory"`
			}
		}
	}
	if err := yaml.UnmarshalStrict(text, &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &workflow); err != nil {
		t.Fatal(err)
	}
	job := workflow.Jobs["govulncheck"]
	runs := false
	for _, step := range job.Steps {
		runs = runs || strings.Contains(step.Run, "govulncheck@v") && strings.HasSuffix(step.Run, " ./...") && step.WorkingDirectory == "${{ matrix.module }}"
	}
	_, pulls := workflow.On["pull_request"]
	_, daily := workflow.On["schedule"]
	if !runs || !pulls || !daily {
		t.Errorf("govulncheck runs %v, for pull requests %v, on a schedule %v", runs, pulls, daily)
	}
	var modules []string
	err = filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "go.mod" {
			modules = append(modules, filepath.Dir(path))
		}
		if err == nil && d.IsDir() && (d.Name() == "testdata" || d.Name() == ".git" || d.Name() == "bin") {
			return filepath.SkipDir
		}
		return err
	})
	slices.Sort(modules)
	if want := slices.Sorted(slices.Values(job.Strategy.Matrix.Module)); err != nil || !slices.Equal(modules, want) {
		t.Errorf("%v: modules are %q, and govulncheck runs in %q", err, modules, want)
	}
}

// TestActionsArePinned: a tag of an action can be moved to other code, a digest cannot.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^(- )?uses: [\w./-]+@[0-9a-f]{40} # v[0-9.]+$`)
	files, err := filepath.Glob(".github/workflows/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflow found: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if strings.Contains(line, "uses:") && !pinned.MatchString(line) {
				t.Errorf("%s: %q has no commit with its tag behind it", file, line)
			}
		}
	}
}
