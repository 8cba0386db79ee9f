// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// OutputFlag adds -o with the formats that a command supports.
func OutputFlag(cmd *cobra.Command, output *string, otherwise string, formats ...string) {
	usage := oneOf(formats)
	if otherwise != "" {
		usage += "; " + otherwise + " if empty"
	}
	cmd.Flags().StringVarP(output, "output", "o", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

// CheckOutput refuses a format that is none of formats.
func CheckOutput(output string, formats ...string) error {
	if output == "" || slices.Contains(formats, output) {
		return nil
	}
	return Misuse(fmt.Errorf("--output %q is not known: use %s", output, oneOf(formats)))
}

func oneOf(formats []string) string {
	last := len(formats) - 1
	if last == 0 {
		return formats[0]
	}
	return strings.Join(formats[:last], ", ") + " or " + formats[last]
}

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
