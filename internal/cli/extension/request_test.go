// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"bytes"
	"testing"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// What --example prints can be sent as it is, for every hook.
func TestEveryHookHasAnExampleThatCanBeRead(t *testing.T) {
	t.Parallel()
	for _, hook := range catalog.Default().Hooks() {
		t.Run(hook.Hook, func(t *testing.T) {
			t.Parallel()
			for _, format := range []string{"yaml", "json"} {
				var out bytes.Buffer
				if err := printExample(&command.Env{Out: &out}, hook, format); err != nil {
					t.Fatal(err)
				}
				if _, of, err := decodeRequest(out.Bytes(), hook); err != nil || of.GroupVersionHook != hook.GroupVersionHook {
					t.Errorf("%s of %s: %v\n%s", format, of, err, out.Bytes())
				}
			}
		})
	}
}
