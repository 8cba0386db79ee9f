// SPDX-License-Identifier: Apache-2.0

package manager

import "k8s.io/apimachinery/pkg/util/rand"

const (
	// maxLength is that of a label value, in which names of machines are kept.
	maxLength = 63
	// randomLength keeps names short; a caller whose name is taken retries.
	randomLength = 5
)

// randomName returns the prefix, a dash and five random letters or digits. A
// prefix that is too long is cut.
func randomName(prefix string) string {
	return prefix[:min(len(prefix), maxLength-randomLength-1)] + "-" + rand.String(randomLength)
}
