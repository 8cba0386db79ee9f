// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/testenv"
)

// Every command initializes every package that the program links. What our own
// packages allocate then, in bytes: a package in which a global of a feature is
// created at its first use stays far below the first, and all of them below the second.
const (
	maxPackageInit = 64 << 10
	maxOwnInit     = 512 << 10
)

// initLine is a line of GODEBUG=inittrace=1: a package and the bytes it allocated.
var initLine = regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`)

// TestVersionInitializesLittleOfOurOwn bounds what a command that reads nothing pays
// for the other commands. What the linked modules allocate is theirs.
func TestVersionInitializesLittleOfOurOwn(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), testenv.Binary(t), "version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("version: %v: %s", err, trace.String())
	}
	packages, all := 0, 0
	for _, m := range initLine.FindAllStringSubmatch(trace.String(), -1) {
		name, own := strings.CutPrefix(m[1], "github.com/capstan-dev/capstan/")
		if !own {
			continue
		}
		bytes, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		packages, all = packages+1, all+bytes
		if bytes > maxPackageInit {
			t.Errorf("package %s allocates %d bytes when the program starts, limit %d: create its globals at their first use (sync.OnceValue)", name, bytes, maxPackageInit)
		}
	}
	if packages == 0 {
		t.Fatalf("no package of ours in the trace:\n%s", trace.String())
	}
	if all > maxOwnInit {
		t.Errorf("our packages allocate %d bytes when the program starts, limit %d", all, maxOwnInit)
	}
}
