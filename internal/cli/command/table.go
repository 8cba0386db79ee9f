// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// maxCell bounds what is shown of one value; -o json shows all of it.
const maxCell = 512

// Table writes rows to stdout in columns without borders.
type Table struct{ w *tabwriter.Writer }

// Table starts a table. The header is optional.
func (e *Env) Table(header ...string) *Table {
	t := &Table{tabwriter.NewWriter(e.Out, 0, 0, 3, ' ', 0)}
	if len(header) > 0 {
		t.Row(header...)
	}
	return t
}

// Row adds a row. Each cell stays one line of its column, for any content.
func (t *Table) Row(cells ...string) {
	for i, cell := range cells {
		cells[i] = sanitize.Line(cell, maxCell)
	}
	_, _ = fmt.Fprintln(t.w, strings.Join(cells, "\t"))
}

// Flush writes the table.
func (t *Table) Flush() error { return t.w.Flush() }
