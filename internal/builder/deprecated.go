// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"strings"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// Deprecated are conditions as v1beta1 had them, a line each, without their times.
func Deprecated(list clusterv1.Conditions) (lines []string) {
	for _, c := range list {
		words := []string{string(c.Type), string(c.Status)}
		for _, w := range []string{string(c.Severity), c.Reason} {
			if w != "" {
				words = append(words, w)
			}
		}
		line := strings.Join(words, " ")
		if c.Message != "" {
			line += ": " + c.Message
		}
		lines = append(lines, line)
	}
	return lines
}
