// SPDX-License-Identifier: Apache-2.0

package podspec

import "strings"

// Expand replaces $(NAME) in a text by the value of NAME. $$ is an escaped dollar sign,
// and a name without a value is unchanged.
func Expand(text string, lookup func(string) (string, bool)) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if rest, ok := strings.CutPrefix(after, "$"); ok {
			b.WriteByte('$')
			text = rest
			continue
		}
		text = after
		rest, ok := strings.CutPrefix(after, "(")
		name, end, closed := strings.Cut(rest, ")")
		if !ok || !closed {
			b.WriteByte('$')
			continue
		}
		if value, ok := lookup(name); ok {
			b.WriteString(value)
		} else {
			b.WriteString("$(" + name + ")")
		}
		text = end
	}
}
