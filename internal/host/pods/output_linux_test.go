// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"errors"
	"io"
	"strings"
	"testing"
)

func TestOutputKeepsTheNewest(t *testing.T) {
	tests := map[string]struct {
		writes []string
		want   string
	}{
		"nothing":            {},
		"all":                {[]string{"one\n", "two\n"}, "one\ntwo\n"},
		"what is new":        {[]string{"one\n", "two\n", "three\n", "four\n"}, "[14 bytes are lost: they were written faster than read]\nfour\n"},
		"the end of a write": {[]string{strings.Repeat("x", 30) + "\nend\n"}, "[31 bytes are lost: they were written faster than read]\nend\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := newOutput(16)
			for _, w := range tc.writes {
				if n, err := io.WriteString(o, w); n != len(w) || err != nil {
					t.Errorf("got %d, %v", n, err)
				}
			}
			o.end()
			if got := all(t, o); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClosedOutputTakesAllAndGivesNothing(t *testing.T) {
	o := newOutput(16)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(o, strings.Repeat("x", 100)); err != nil {
		t.Error(err)
	}
	if _, err := o.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}
