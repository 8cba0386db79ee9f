// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/capstan-dev/capstan/internal/host/pods/holder"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// TestAHolderBeginsBeforeTheRestOfTheProgram: there is one for each Pod, and what
// packages that it does not need allocate before it starts stays in its memory.
func TestAHolderBeginsBeforeTheRestOfTheProgram(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), testenv.Binary(t))
	cmd.Args[0], cmd.Env = holder.Name, []string{"GODEBUG=inittrace=1"}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	if !errors.As(err, &ended) {
		t.Fatalf("without a plane it ended by %v", err)
	}
	allocated := regexp.MustCompile(`(?m)^init .* (\d+) bytes`).FindAllSubmatch(out, -1)
	if len(allocated) == 0 {
		t.Fatalf("no package told what it allocates: %s", out)
	}
	sum := 0
	for _, m := range allocated {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if sum > 1<<20 {
		t.Errorf("%d packages have allocated %d bytes before, want at most 1 MiB: what does package holder import that is ready late?\n%s", len(allocated), sum, out)
	}
}
