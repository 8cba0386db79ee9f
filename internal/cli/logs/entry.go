// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// entry is one log entry of a program: a line, and those that continue it.
type entry struct {
	Time    time.Time         `json:"time,omitzero"` // zero if it has none
	Level   string            `json:"level,omitempty"`
	Source  string            `json:"source,omitempty"`
	Message string            `json:"message"`
	Values  map[string]string `json:"values,omitempty"`
	text    string
}

// klogHeader is "I1122 22:10:02.123956   32393 endpoint.go:53] ".
var klogHeader = regexp.MustCompile(`^([IWEF])(\d{4} \d{2}:\d{2}:\d{2}\.\d{6})\s+\d+ (\S+:\d+)\] `)

// levels are the names of the letters of klog.
var levels = map[string]string{"I": "info", "W": "warning", "E": "error", "F": "fatal"}

// begins reports whether a line starts an entry. One that klog did not write does,
// unless it is indented as the further lines of a value are.
func begins(line string) bool {
	return !strings.HasPrefix(line, "\t") && !strings.HasPrefix(line, " ")
}

// parse reads an entry. klog writes no year: it is the one in which the entry is
// not later than now.
func parse(text string, now time.Time) entry {
	e := entry{Message: text, text: text}
	m := klogHeader.FindStringSubmatch(text)
	if m == nil {
		return e
	}
	if t, err := time.ParseInLocation("20060102 15:04:05.000000", strconv.Itoa(now.Year())+m[2], now.Location()); err == nil {
		if t.After(now.Add(24 * time.Hour)) {
			t = t.AddDate(-1, 0, 0)
		}
		e.Time = t
	}
	e.Level, e.Source = levels[m[1]], m[3]
	rest := text[len(m[0]):]
	e.Message = rest
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return e // the form without values
	}
	if e.Message, err = strconv.Unquote(quoted); err == nil {
		e.Values = values(rest[len(quoted):])
	}
	return e
}

// values reads KEY="VALUE" pairs, in which a value may be one word, or a block of
// lines between < and >.
func values(rest string) map[string]string {
	out := map[string]string{}
	for {
		key, after, ok := strings.Cut(strings.TrimLeft(rest, " "), "=")
		if !ok {
			return out
		}
		switch quoted, err := strconv.QuotedPrefix(after); {
		case err == nil:
			out[key], _ = strconv.Unquote(quoted)
			rest = after[len(quoted):]
		case strings.HasPrefix(after, "<\n"):
			block, more, _ := strings.Cut(after[2:], "\n >")
			out[key], rest = strings.TrimPrefix(strings.ReplaceAll(block, "\n\t", "\n"), "\t"), more
		case strings.HasPrefix(after, "{"), strings.HasPrefix(after, "["):
			// A structured value has blanks itself: it continues to the next key.
			end := len(after)
			if at := nextKey.FindStringIndex(after); at != nil {
				end = at[0]
			}
			out[key], rest = after[:end], after[end:]
		default:
			out[key], rest, _ = strings.Cut(after, " ")
		}
	}
}

// nextKey is the start of the pair that follows one which is not quoted.
var nextKey = regexp.MustCompile(` [A-Za-z][A-Za-z0-9]*=`)

// of reports whether an entry is about a cluster, NAMESPACE/NAME.
func (e *entry) of(cluster string) bool { return e.Values["Cluster"] == cluster }
