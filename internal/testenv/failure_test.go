// SPDX-License-Identifier: Apache-2.0

package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLastLinesLeavesOutReconnects(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	var log strings.Builder
	for i := range 2 * logLines {
		fmt.Fprintf(&log, "line %d\nW1124 logging.go:59] [core] [Channel #5 SubChannel #6]grpc: addrConn.createTransport failed to connect\n", i)
	}
	if err := os.WriteFile(path, []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	got := lastLines(path)
	if want := fmt.Sprintf("line %d\n", 2*logLines-1); strings.Contains(got, "grpc") || !strings.HasSuffix(got, want) || strings.Count(got, "\n") != logLines-1 {
		t.Errorf("got %d lines:\n%s", strings.Count(got, "\n"), got)
	}
	if got := lastLines(path + ".none"); !strings.Contains(got, "no such file") {
		t.Errorf("got %q for a log that is missing", got)
	}
}

func TestSlowdownIsAtLeastOne(t *testing.T) {
	t.Parallel()
	if got := Slowdown(); got < 1 || got > maxSlowdown {
		t.Errorf("got %v, want between 1 and %v", got, maxSlowdown)
	}
}
