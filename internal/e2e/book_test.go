// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// bookTimeout is how long an idle machine may take for the steps of one page. They need
// at most a minute, in which the programs of the page are linked.
const bookTimeout = 5 * time.Minute

// TestTheStepsOfTheBookWork runs the ten steps of pages of docs/book exactly as
// written: blocks of sh in one shell, blocks with a title as files, and blocks of
// text as what the sh before them must have printed, where … matches anything.
func TestTheStepsOfTheBookWork(t *testing.T) {
	testenv.Alone(t, 1)
	// What differs from the book, and why.
	everywhere := [][2]string{
		// The program is built already.
		{"make build\n", "true\n"},
		// The clone is this checkout.
		{`CAPSTAN="$PWD"`, `CAPSTAN="$CHECKOUT"`},
		// Others may use this address now.
		{"capstan up --detach", "capstan up --detach --listen 127.0.0.1:0"},
	}
	for name, tc := range map[string]struct {
		section string
		differs [][2]string
	}{
		"extensions.md": {"## Ten steps to a hook that blocks", [][2]string{{"127.0.0.1:9443", testenv.FreeAddress(t)}, {"127.0.0.1:9480", testenv.FreeAddress(t)}}},
		"classes.md":    {"## Ten steps from a class to an external patch", [][2]string{{"127.0.0.1:9444", testenv.FreeAddress(t)}}},
		"hooks.md": {"## Ten steps through the life of a cluster", [][2]string{
			{"127.0.0.1:9443", testenv.FreeAddress(t)},
			// The programs are built already.
			{`"$CAPSTAN"/bin/sample-extension`, `"$PROGRAMS"/sample-extension`},
		}},
		"providers.md": {"## Ten steps to a provider that passes", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, err := os.ReadFile(filepath.Join("..", "..", "docs", "book", name))
			if err != nil {
				t.Fatal(err)
			}
			runSection(t, section(t, substitute(t, string(page), append(tc.differs, everywhere...)), tc.section))
		})
	}
}

// TestTheManagerOfTheBookRuns follows the book's steps to try the manager in a
// plane.
func TestTheManagerOfTheBookRuns(t *testing.T) {
	t.Parallel()
	testenv.OwnPlanes(t, 1)
	needSandboxes(t)
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl, and its substitute elsewhere has no rollouts")
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "book", "manager.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := substitute(t, section(t, string(page), "## Trying it in a plane"), [][2]string{
		// The image is built already, for this machine alone.
		{"make image IMAGES=registry.example.com\n", "mkdir -p dist && ln -s \"$PROGRAMS/test/images\" dist/images\n"},
		{"capstan up --detach", "capstan up --detach --listen 127.0.0.1:0"},
	})
	runBlocks(t, blocks(text), 6)
}

// runSection runs the ten steps of a section.
func runSection(t *testing.T, text string) {
	t.Helper()
	if n := strings.Count(text, "\n### "); n != 10 {
		t.Errorf("the book has %d steps, and says ten", n)
	}
	runBlocks(t, blocks(text), 15)
}

// runBlocks runs steps, of which there are at least so many, and compares what they
// print with what is shown.
func runBlocks(t *testing.T, steps []block, atLeast int) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(steps) < atLeast {
		t.Fatalf("found %d blocks to run and compare, want %d: is the page written in another way now?", len(steps), atLeast)
	}
	dir := t.TempDir()
	runSteps(t, steps, dir, testenv.Binary(t), root)
	for i, b := range steps {
		if b.language != "text" {
			continue
		}
		got, err := os.ReadFile(output(dir, i-1))
		if err != nil {
			t.Fatal(err)
		}
		if !pattern(b.text).Match(got) {
			t.Errorf("line %d of the steps: the book shows\n%s\nbut this was printed:\n%s", b.line, b.text, got)
		}
	}
}

// curl replaces curl -s on machines without it.
const curl = `type curl > /dev/null 2>&1 || curl() {
	local url=${2#http://}
	local address=${url%%/*}
	exec 3<> "/dev/tcp/${address%:*}/${address#*:}"
	printf 'GET /%s HTTP/1.0\r\n\r\n' "${url#*/}" >&3
	sed '1,/^\r$/d' <&3
}
`

// block is a fenced block of a page.
type block struct {
	language, title, text string
	line                  int
}

var (
	fence   = regexp.MustCompile("^```([a-z]*)(?: title=\"([^\"]+)\")?$")
	heading = regexp.MustCompile(`(?m)^## `)
)

func blocks(page string) []block {
	var all []block
	var open *block
	for n, line := range strings.Split(page, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && line == "```":
			all, open = append(all, *open), nil
		case open != nil:
			open.text += line + "\n"
		case m != nil:
			open = &block{language: m[1], title: m[2], line: n + 1}
		}
	}
	return all
}

// section is what follows a heading up to the next one like it.
func section(t *testing.T, page, title string) string {
	t.Helper()
	_, rest, ok := strings.Cut(page, title+"\n")
	if !ok {
		t.Fatalf("the page has no section %q", title)
	}
	if end := heading.FindStringIndex(rest); end != nil {
		rest = rest[:end[0]]
	}
	return rest
}

func substitute(t *testing.T, page string, pairs [][2]string) string {
	t.Helper()
	for _, p := range pairs {
		if !strings.Contains(page, p[0]) {
			t.Fatalf("the page has no %q any more", p[0])
		}
		page = strings.ReplaceAll(page, p[0], p[1])
	}
	return page
}

// output is the file for the output of a block.
func output(dir string, block int) string { return filepath.Join(dir, fmt.Sprintf("output-%d", block)) }

// runSteps runs the blocks one after the other in one shell, and stops what
// they leave behind when one fails.
func runSteps(t *testing.T, steps []block, dir, program, root string) {
	t.Helper()
	var script strings.Builder
	command := filepath.Join(dir, "command")
	fmt.Fprintf(&script, "set -Eeuo pipefail\ntrap 'echo \"$BASH_COMMAND\" > %q' ERR\n%s", command, curl)
	for i, b := range steps {
		switch {
		case b.title != "":
			file := filepath.Join(dir, fmt.Sprintf("file-%d", i))
			if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&script, "cp %q %q\n", file, b.title)
		case b.language == "sh":
			fmt.Fprintf(&script, "{\n%s} > %q 2>&1\n", b.text, output(dir, i))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Limit(bookTimeout))
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script.String())
	cmd.Dir = dir
	cmd.Env = bookEnv(t, dir, program, root)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // with what it starts in the background
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if err == nil {
		return
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	down := exec.Command(program, "down")
	down.Env = cmd.Env
	_ = down.Run()                    // there may be no plane
	failed, _ := os.ReadFile(command) // there is none when time was up
	var all []string
	for i, b := range steps {
		if text, err := os.ReadFile(output(dir, i)); err == nil {
			all = append(all, fmt.Sprintf("line %d of the steps:\n%s-----\n%s", b.line, b.text, text))
		}
	}
	last := ""
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	// What failed is printed first and, after all that succeeded, last: logs are
	// cut.
	t.Fatalf("%v of %q %s\n%s\nAll of them:\n%s", err, failed, said.String(), last, strings.Join(all, "\n"))
}

// bookEnv is an environment with a separate home, where Go still finds its caches
// and uses no network.
func bookEnv(t *testing.T, dir, program, root string) []string {
	t.Helper()
	env := []string{"HOME=" + dir, "CHECKOUT=" + root, "PROGRAMS=" + filepath.Dir(program), "GOPROXY=off", "GOWORK=off", "PATH=" + binDir(t, dir, program) + string(filepath.ListSeparator) + os.Getenv("PATH")}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOTOOLCHAIN", "GOFLAGS", "CGO_ENABLED"} {
		value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(value)))
	}
	return env
}

func binDir(t *testing.T, dir, program string) string {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	link := func(program, name string) {
		if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	link(program, "capstan")
	if _, err := exec.LookPath("kubectl"); err != nil {
		itself, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		link(itself, "kubectl")
	}
	return bin
}

// pattern matches an output that the book shows. A line of … alone is any
// lines, blanks are as wide as they need to be.
func pattern(shown string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(shown) {
		line = strings.TrimSuffix(line, "\n")
		if line == "…" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		indent := len(line) - len(strings.TrimLeft(line, " "))
		b.WriteString(line[:indent])
		for i, word := range strings.Fields(line) {
			if i > 0 {
				b.WriteString(` +`)
			}
			b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(word), "…", ".*"))
		}
		b.WriteString(` *\n`)
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}
