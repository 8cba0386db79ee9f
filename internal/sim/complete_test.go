// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"os"
	"strconv"
	"testing"
)

// Some tests repeat a story with many seeds, or once for each write after which a
// process can exit. By default they run a fixed selection, or for a shorter time.
// "make chaos" runs them completely: CAPSTAN_CHAOS_SEEDS is the number of seeds,
// CAPSTAN_CHAOS_SEED the first of them. If the number is set, no write is left out.

// complete reports whether these tests run completely.
func complete() bool { return os.Getenv("CAPSTAN_CHAOS_SEEDS") != "" }

// seeds returns the seeds of a random test: one by default, which is chosen because
// the run with it is short and reaches all that the test checks.
func seeds(t *testing.T, one uint64) []uint64 {
	t.Helper()
	if !complete() {
		return []uint64{one}
	}
	all := make([]uint64, number(t, "CAPSTAN_CHAOS_SEEDS", 1))
	for i := range all {
		all[i] = uint64(number(t, "CAPSTAN_CHAOS_SEED", 1)) + uint64(i)
	}
	return all
}

// number returns the number in an environment variable, or another one if that is
// not set.
func number(t *testing.T, variable string, other int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return other
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// chosenWrites returns the writes after which a process exits in a test that runs
// a selection: the first of each kind, and every tenth. kinds has the kind of each
// write, as wire.last has it. The result has the index of each.
func chosenWrites(kinds []string) (chosen []int) {
	seen := map[string]bool{}
	for n, kind := range kinds {
		if complete() || !seen[kind] || n%10 == 0 { // 10: with the first of each kind, two fifths of a move
			chosen = append(chosen, n)
		}
		seen[kind] = true
	}
	return chosen
}
