// SPDX-License-Identifier: Apache-2.0

package sanitize

import (
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain text stays":             {"pod etcd-a: Ready ✓ größer 語", "pod etcd-a: Ready ✓ größer 語"},
		"a colour":                     {"\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		"an eight bit control":         {"a\u009b2Jb", `a\u009b2Jb`},
		"a title with a bell":          {"\x1b]0;owned\a", `\x1b]0;owned\a`},
		"backspace and delete":         {"ok\b\b\x7f", `ok\b\b\x7f`},
		"a zero byte":                  {"a\x00b", `a\x00b`},
		"right to left":                {"a\u202egnp.exe", `a\u202egnp.exe`},
		"isolates":                     {"\u2066a\u2069", `\u2066a\u2069`},
		"invisible letters":            {"a\u200bb\ufeffc\u00add", `a\u200bb\ufeffc\u00add`},
		"tags":                         {"a\U000e0041", `a\U000e0041`},
		"half a rune":                  {"a\xc3", `a\xc3`},
		"a replacement that was there": {"a\ufffd", "a\ufffd"},
		"space of any kind":            {" a\r\n\t b\u2028c\u3000d\v ", "a b c d"},
		"nothing":                      {"\n \t", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Line(tc.text, 100); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestLineIsCut(t *testing.T) {
	tests := map[string]struct {
		text string
		most int
		want string
	}{
		"as long as allowed":  {"abcdef", 6, "abcdef"},
		"one too many":        {"abcdefghi", 8, "abcd …"},
		"escapes count":       {"abc\x1b\x1b", 10, `abc\x1 …`},
		"not half a rune":     {"aääääää", 10, "aää …"},
		"no room for a word":  {"abcdef", 3, "…"},
		"space at the end":    {"abcd    ", 4, "abcd"},
		"a megabyte of space": {"a" + strings.Repeat(" ", 1<<20) + "b", 4, "a b"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Line(tc.text, tc.most); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestEscapeKeepsLines(t *testing.T) {
	const text = "* Node a: \x1b[2J\r\n\t* Pod b: \u202ex"
	if got, want := Escape(text), `* Node a: \x1b[2J\r`+"\n"+`\t* Pod b: \u202ex`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestErrorKeepsWhatItWraps(t *testing.T) {
	err := Error(errors.Join(errors.New("\x1b[1m"), io.EOF), 100)
	if err.Error() != `\x1b[1m EOF` || !errors.Is(err, io.EOF) {
		t.Errorf("%q", err)
	}
	if plain := Error(io.EOF, 100); plain != io.EOF {
		t.Errorf("%#v, want the error itself", plain)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b[31m \u202e\xff", 20)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = most&1023 + len(more)
		got := Line(text, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return r != utf8.RuneError && !unicode.IsPrint(r) }) {
			t.Errorf("%q of %q", got, text)
		}
		if again := Line(got, most); again != got {
			t.Errorf("%q again is %q", got, again)
		}
	})
}
