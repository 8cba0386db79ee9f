// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
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
