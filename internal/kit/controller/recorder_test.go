// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/runtime"
)

// notes keeps the last one.
type notes struct{ last string }

// Eventf implements events.EventRecorder.
func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	n.last = fmt.Sprintf(note, args...)
}

func TestRecorderWritesNotesThatTheAPITakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		note string
		args []any
		want string // "" is the start of the note
	}{
		"short":           {"create %s", []any{"m"}, "create m"},
		"a percent":       {"%s", []any{"100%d"}, "100%d"},
		"not UTF-8":       {"%s", []any{"a\xffb"}, "a\\xffb"},
		"long":            {"%s", []any{strings.Repeat("x", 5000)}, ""},
		"long, not UTF-8": {"%s", []any{strings.Repeat("\xff", 5000)}, ""},
		"long runes":      {"x%s", []any{strings.Repeat("\u00fc", 1024)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n notes
			bounded{&n}.Eventf(nil, nil, "", "", "", tc.note, tc.args...)
			if len(n.last) > maxNote || !utf8.ValidString(n.last) || tc.want != "" && n.last != tc.want || tc.want == "" && len(n.last) < maxNote-10 {
				t.Errorf("%d bytes: %q", len(n.last), n.last)
			}
		})
	}
}
