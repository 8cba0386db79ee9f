// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"crypto/x509"
	"io"
	"strings"

	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

const (
	// maxExcerpt limits quotes from a response or from an error of another package.
	maxExcerpt = 512
	// echo is the length of a piece of the request that an excerpt must not repeat.
	// Shorter pieces are names and field names. Pieces are compared at every so many
	// bytes, so that a long request costs little.
	echo     = 64
	echoStep = 16
	// maxNames is how many names of a certificate are listed.
	maxNames = 8
)

// excerpt quotes the start of an error response, unless that repeats the request,
// which may contain confidential data.
func excerpt(body io.Reader, sent []byte) string {
	start, _ := io.ReadAll(io.LimitReader(body, maxExcerpt)) // the part that was read is enough
	if repeats(start, sent) {
		return ", and its text, which repeats the request, is left out"
	}
	text := clean(string(start))
	if text == "" {
		return ""
	}
	return ": " + text
}

func repeats(text, sent []byte) bool {
	if text = bytes.TrimSpace(text); len(text) < echo {
		return len(text) > echoStep && bytes.Contains(sent, text)
	}
	for ; len(text) >= echo; text = text[echoStep:] {
		if bytes.Contains(sent, text[:echo]) {
			return true
		}
	}
	return false
}

// clean makes text from a server printable.
func clean(text string) string { return sanitize.Line(text, maxExcerpt) }

// shorten makes the text of an error printable, since net/http includes text from
// the server in its errors.
func shorten(err error) error { return sanitize.Error(err, maxExcerpt) }

// names lists the names in a certificate.
func names(cert *x509.Certificate) string {
	if cert == nil {
		return "another name"
	}
	all := append([]string{}, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	switch {
	case len(all) == 0:
		return "no name at all (a common name does not count)"
	case len(all) > maxNames:
		all = append(all[:maxNames], "others")
	}
	return clean(strings.Join(all, ", "))
}
