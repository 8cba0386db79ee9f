// SPDX-License-Identifier: Apache-2.0

package download

import (
	"encoding/hex"
	"fmt"
	"path"
	"strings"
)

// Checksum finds the SHA-256 digest of a file in the checksum file that is
// published with it: the digest alone, or lines of digest and name as sha256sum
// writes them.
func Checksum(text, file string) (string, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || !isSHA256(fields[0]) {
			continue
		}
		if len(fields) == 1 || path.Base(strings.TrimPrefix(fields[1], "*")) == file {
			return strings.ToLower(fields[0]), nil
		}
	}
	return "", fmt.Errorf("the published checksums name no %s", file)
}

func isSHA256(s string) bool {
	digits, err := hex.DecodeString(s)
	return err == nil && len(digits) == 32
}
