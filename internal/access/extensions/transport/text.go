// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"crypto/x509"
	"io"
	"strings"

	"github.com/capstan-dev/capstan/internal/kit/plaintext"
)

const (
	// maxExcerpt bounds what is quoted of an answer or of another's error.
	maxExcerpt = 512
	// echo is the length of a piece of the request that an excerpt may not
	// repeat. Shorter ones are names and field names. Pieces are looked for at
	// every so many bytes, so that a long request costs little.
	echo     = 64
	echoStep = 16
	// maxNames is how many names of a certificate are listed.
	maxNames = 8
)

// excerpt quotes the beginning of an answer that is an error, unless it is the
// request sent back, which may hold what is nobody's business.
func excerpt(body io.Reader, sent []byte) string {
	start, _ := io.ReadAll(io.LimitReader(body, maxExcerpt)) // what there is will do
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

// clean makes what a server sent fit to be printed.
func clean(text string) string { return plaintext.Line(text, maxExcerpt) }

// shorten makes the text of an error fit to be printed, since net/http puts
// what a server sent into its own.
func shorten(err error) error { return plaintext.Error(err, maxExcerpt) }

// names are those that a certificate is for.
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
