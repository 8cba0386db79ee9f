// SPDX-License-Identifier: Apache-2.0

// Package suggest suggests the name that a user meant by an unknown one.
package suggest

import (
	"fmt"
	"strings"
)

// Hint is the end of an error about an unknown name: the known name that was
// probably meant, as `: did you mean "x"?`. It is empty if none is near.
func Hint(name string, known []string) string {
	near := Of(name, known)
	if near == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", near)
}

// Of is the known name that is nearest to name; of several the first, and empty if
// none is near: a third of the letters may be wrong, or the end be missing.
func Of(name string, known []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, k := range known {
		if len(name)-len(k) >= least {
			continue // too long to match: its distance is not computed
		}
		n := distance(strings.ToLower(name), strings.ToLower(k))
		if len(name) > 2 && strings.HasPrefix(strings.ToLower(k), strings.ToLower(name)) {
			n = min(n, 1)
		}
		if n < least {
			best, least = k, n
		}
	}
	return best
}

// distance counts the letters to insert, to remove, to replace, or to swap with the
// next one, to convert a to b.
func distance(a, b string) int {
	var before, last []int
	for i := range len(a) + 1 {
		row := make([]int, len(b)+1)
		for j := range row {
			switch {
			case i == 0 || j == 0:
				row[j] = i + j
			case a[i-1] == b[j-1]:
				row[j] = last[j-1]
			default:
				row[j] = 1 + min(last[j], row[j-1], last[j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					row[j] = min(row[j], 1+before[j-2])
				}
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
