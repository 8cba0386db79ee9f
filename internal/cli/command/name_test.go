// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"
)

func TestCommandLinesHaveTheNameThatTheProgramWasCalledBy(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, want string }{
		"in backticks":      {"start one with `capstan up`", "start one with `clusterctl up`"},
		"in quotes":         {`stop it with "capstan down"`, `stop it with "clusterctl down"`},
		"after a colon":     {"Follow it with: capstan describe cluster demo", "Follow it with: clusterctl describe cluster demo"},
		"on lines":          {"Next:\n  capstan a\n  capstan b", "Next:\n  clusterctl a\n  clusterctl b"},
		"not in a path":     {"read /home/you/capstan x", "read /home/you/capstan x"},
		"not in a sentence": {"is capstan there?", "is capstan there?"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			env := &Env{Name: "clusterctl", Err: &out}
			env.Say("%s", tc.text)
			if got := out.String(); got != tc.want+"\n" {
				t.Errorf("said %q, want %q", got, tc.want)
			}
			child := &cobra.Command{Use: "child", Long: tc.text, Example: tc.text}
			child.Flags().String("flag", "", tc.text)
			root := &cobra.Command{Use: "root"}
			root.AddCommand(child)
			env.NameInHelp(root)
			if child.Long != tc.want || child.Example != tc.want || child.Flag("flag").Usage != tc.want {
				t.Errorf("help %q, %q, %q; want %q", child.Long, child.Example, child.Flag("flag").Usage, tc.want)
			}
			if env.Name = "capstan"; env.inName(tc.text) != tc.text {
				t.Errorf("under its own name %q", env.inName(tc.text))
			}
		})
	}
}
