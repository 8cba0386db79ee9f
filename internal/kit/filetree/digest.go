// SPDX-License-Identifier: Apache-2.0

package filetree

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strings"
)

// FileDigest returns the digest of the contents of a file as "sha256:" and 64 digits.
func FileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil)), nil
}

// Digest returns the digest of a text as "sha256:" and 64 digits.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// DigestDigits returns the digits of a digest, of which text may have only the first six
// or more; "" if it is no digest.
func DigestDigits(text string) string {
	digits := strings.TrimPrefix(text, "sha256:")
	if len(digits) < 6 || len(digits) > 64 || strings.Trim(digits, "0123456789abcdef") != "" {
		return ""
	}
	return digits
}
