// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"strings"
	"testing"
)

const hostile = "\x1b]0;owned\x07\x1b[2J\u009b31m\u202e\r\ttail"

func TestEachWarningOfAPIServerIsPrintedOnce(t *testing.T) {
	t.Parallel()
	var talk bytes.Buffer
	w := &warnings{env: &Env{Err: &talk}, told: map[string]bool{}}
	for range 2 { // as of a dry run and of what follows it
		w.HandleWarningHeaderWithContext(t.Context(), 299, "", "no controller acts on this\x1b[2J")
	}
	if got, want := talk.String(), "Warning: no controller acts on this\\x1b[2J\n"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
}

func TestTableSanitizesForeignText(t *testing.T) {
	t.Parallel()
	var out, talk bytes.Buffer
	env := &Env{Out: &out, Err: &talk}
	env.Say("said: %s", hostile)
	env.Print("printed: %s", hostile)
	table := env.Table("A", "B")
	table.Row("first"+hostile, "a\nforged   row")
	table.Row(strings.Repeat("x", 10*maxCell), "b")
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{out.String(), talk.String()} {
		for _, r := range strings.ReplaceAll(text, "\n", "") {
			if r < ' ' || r == 0x7f || (r >= 0x80 && r < 0xa0) || r == '\u202e' {
				t.Errorf("%q is printed in %q", r, text)
			}
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("%d lines, want one that is printed, a header and two rows:\n%s", n, out.String())
	}
	if n := out.Len(); n > 4*maxCell {
		t.Errorf("a value of %d bytes makes a table of %d", 10*maxCell, n)
	}
}
