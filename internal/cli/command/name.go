// SPDX-License-Identifier: Apache-2.0

package command

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// program is the name of this program in texts.
const program = "capstan"

// commandLine matches what precedes that name where a command line is shown: a
// quote, the start of a line, or a colon. A path or a word of a sentence is none.
var commandLine = regexp.MustCompile("(?m)([`\"]|: |^  )" + program + " ")

// inName writes the command lines of a text with the name that the program was
// called by, so that they can be copied.
func (e *Env) inName(text string) string {
	if e.Name == program || !strings.Contains(text, program+" ") {
		return text
	}
	return commandLine.ReplaceAllString(text, "${1}"+strings.ReplaceAll(e.Name, "$", "$$")+" ")
}

// NameInHelp replaces the name of the program in the help of cmd, and of all
// commands below it, by the name that it was called by.
func (e *Env) NameInHelp(cmd *cobra.Command) {
	cmd.Long, cmd.Example = e.inName(cmd.Long), e.inName(cmd.Example)
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = e.inName(f.Usage) })
	for _, child := range cmd.Commands() {
		e.NameInHelp(child)
	}
}
