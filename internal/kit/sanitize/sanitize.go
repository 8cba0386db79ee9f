// SPDX-License-Identifier: Apache-2.0

// Package sanitize escapes text from untrusted sources for display: in a
// condition, an event, an error, a log line or on a terminal. What would move a
// cursor, color, hide or reorder other text becomes a visible escape, as \x1b and
// \u202e.
//
// It also lists by name which fields of API objects hold secrets, or texts in which
// users put secrets: scripts, files and arguments.
package sanitize

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// more ends what was cut.
const more = " …"

// Line is text in one line of at most most bytes: space of any kind and length
// becomes one blank, and what is longer ends in an ellipsis.
func Line(text string, most int) string {
	var out strings.Builder
	gap := false
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if unicode.IsSpace(r) {
			gap, text = true, text[size:]
			continue
		}
		next := visible(text[:size], r)
		if gap && out.Len() > 0 {
			next = " " + next
		}
		if out.Len()+len(next) > most {
			return cut(out.String(), most)
		}
		out.WriteString(next)
		gap, text = false, text[size:]
	}
	return out.String()
}

// cut shortens a line so that more fits, between two runes.
func cut(line string, most int) string {
	if len(line) > most-len(more) {
		line = strings.ToValidUTF8(line[:max(0, most-len(more))], "")
	}
	return strings.TrimSpace(strings.TrimSpace(line) + more)
}

// Escape is text of any length, with its line feeds.
func Escape(text string) string {
	if strings.IndexFunc(text, func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }) < 0 {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if r == '\n' {
			out.WriteByte('\n')
		} else {
			out.WriteString(visible(text[:size], r))
		}
		text = text[size:]
	}
	return out.String()
}

// visible is one rune, or one byte that belongs to none, as it may be shown.
func visible(raw string, r rune) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return `\x` + strconv.FormatUint(uint64(raw[0]), 16)
	case unicode.IsPrint(r):
		return raw
	}
	quoted := strconv.QuoteRune(r)
	return quoted[1 : len(quoted)-1]
}

// Error is err with its text as Line; what it wraps can still be found.
func Error(err error, most int) error {
	if text := Line(err.Error(), most); text != err.Error() {
		return &cleaned{text, err}
	}
	return err
}

type cleaned struct {
	text string
	err  error
}

func (c *cleaned) Error() string { return c.text }
func (c *cleaned) Unwrap() error { return c.err }

// exact are names of fields, in lower case.
var exact = map[string]bool{
	"content": true, "passwd": true, "password": true, "token": true, "secret": true,
	"data": true, "stringdata": true, "binarydata": true,
	"bootcommands": true, "prekubeadmcommands": true, "postkubeadmcommands": true, "additionalconfig": true,
	"sshauthorizedkeys": true, "userdata": true, "kubeconfig": true, "args": true, "command": true, "settings": true, "authprovider": true,
}

// parts are parts of such names in objects of providers, unless they name or refer to
// another object.
var parts = []string{"password", "passwd", "token", "secret", "credential", "privatekey", "apikey", "userdata", "kubeconfig"}

// IsSecretField reports whether a field of that name holds a secret.
func IsSecretField(name string) bool {
	name = strings.ToLower(name)
	if exact[name] {
		return true
	}
	for _, end := range []string{"name", "names", "ref", "refs", "created"} {
		if strings.HasSuffix(name, end) {
			return false
		}
	}
	for _, part := range parts {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}
