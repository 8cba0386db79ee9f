// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// The columns of the table.
const (
	nameColumn = iota
	replicasColumn
	availableColumn
	readyColumn
	upToDateColumn
	versionColumn
	statusColumn
	reasonColumn
	sinceColumn
	messageColumn // the last, the only one whose cells have many lines
	columns
)

func header() row {
	return row{"NAME", "REPLICAS", "AVAILABLE", "READY", "UP TO DATE", "VERSION", "STATUS", "REASON", "SINCE", "MESSAGE"}
}

type row [columns]string

// gap is between two columns.
const gap = 2

const (
	// leastMessage is how wide the messages are at least, on however narrow a terminal.
	leastMessage = 24
	// leastName is how wide the names are at least: that of a Cluster, and the
	// prefix of the names below it.
	leastName = 24
)

// optional are the columns that are omitted if the terminal is too narrow, in this
// order. Conditions and -o yaml have what they show.
var optional = []int{upToDateColumn, sinceColumn, versionColumn, reasonColumn, availableColumn, readyColumn, replicasColumn}

// table is a table without borders.
type table struct {
	rows  []row
	below []string // the prefix of the name in further lines of each
}

// add adds a row. All of it except the message is one line, and escaped so that no
// text from objects can control the terminal.
func (t *table) add(r row, below string) {
	for i := range r {
		if i != messageColumn {
			r[i] = strings.ReplaceAll(r[i], "\n", " ")
		}
		r[i] = sanitize.Escape(r[i])
	}
	t.rows, t.below = append(t.rows, r), append(t.below, below)
}

// write prints the table. Its lines end within a number of columns: messages are
// wrapped, then columns left out, then names cut; with 0 they do not.
func (t *table) write(w io.Writer, within int, color bool) error {
	widths, most := t.layout(within)
	for i, r := range t.rows {
		for n, message := range wrap(r[messageColumn], most) {
			if n > 0 {
				r = row{nameColumn: t.below[i]}
			}
			var line strings.Builder
			for c, cell := range r[:messageColumn] {
				if widths[c] == 0 {
					continue
				}
				cell = cut(cell, widths[c])
				line.WriteString(paint(cell, color && c == statusColumn))
				line.WriteString(strings.Repeat(" ", widths[c]-textWidth(cell)+gap))
			}
			if _, err := fmt.Fprintln(w, strings.TrimRight(line.String()+message, " ")); err != nil {
				return err
			}
		}
	}
	return nil
}

// layout returns how wide the columns are, 0 for one that is left out, and how wide a
// message may be, 0 for any width.
func (t *table) layout(within int) (widths [columns]int, most int) {
	before := 0
	for i := range messageColumn {
		for _, r := range t.rows {
			widths[i] = max(widths[i], textWidth(r[i]))
		}
		before += widths[i] + gap
	}
	if within <= 0 {
		return widths, 0
	}
	for _, i := range optional {
		if before+leastMessage <= within {
			break
		}
		before -= widths[i] + gap
		widths[i] = 0
	}
	if beyond := before + leastMessage - within; beyond > 0 {
		name := max(widths[nameColumn]-beyond, min(leastName, widths[nameColumn]))
		before -= widths[nameColumn] - name
		widths[nameColumn] = name
	}
	return widths, max(within-before, leastMessage)
}

// cut is a text in a number of columns, with an ellipsis for what has no room.
func cut(text string, most int) string {
	if textWidth(text) <= most {
		return text
	}
	n := 0
	for i, r := range text {
		if n += runeWidth(r); n >= most {
			return text[:i] + "…"
		}
	}
	return text
}

// textWidth is how many columns of a terminal a text takes.
func textWidth(text string) (n int) {
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch kind := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case kind == width.EastAsianWide, kind == width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// wrap breaks a message into lines of at most most columns, at blanks where there
// are any. The continuation of a list item is indented to its text. With 0 only the
// existing lines are split.
func wrap(message string, most int) (lines []string) {
	for line := range strings.SplitSeq(message, "\n") {
		text := strings.TrimLeft(line, " ")
		indent := line[:len(line)-len(text)]
		if strings.HasPrefix(text, "* ") {
			indent += "  "
		}
		if most > 0 && len(indent) > most/2 {
			indent = "" // a message of another controller may consist only of blanks
		}
		for most > 0 && textWidth(line) > most {
			at := breakAt(line, most, len(indent))
			if at == len(line) {
				break // one letter, wider than that
			}
			lines = append(lines, strings.TrimRight(line[:at], " "))
			line = indent + strings.TrimLeft(line[at:], " ")
		}
		lines = append(lines, line)
	}
	return lines
}

// breakAt is where a line is broken: at the last blank that leaves a part within
// most columns, but none within the first bytes, or else in the middle of a word. It
// is behind one letter at least, or there would be no end.
func breakAt(line string, most, first int) int {
	n, blank, fits := 0, 0, 0
	for i, r := range line {
		if r == ' ' && i > first {
			blank = i
		}
		if n += runeWidth(r); n > most && fits > first {
			break
		}
		fits = i + len(string(r))
	}
	if blank > 0 {
		return blank
	}
	return fits
}

// paint colors a status by its value.
func paint(cell string, color bool) string {
	code := 0
	switch {
	case strings.HasSuffix(cell, "True"):
		code = 32
	case strings.HasSuffix(cell, "False"):
		code = 31
	case strings.HasSuffix(cell, "Unknown"):
		code = 33
	}
	if !color || code == 0 {
		return cell
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", code, cell)
}
