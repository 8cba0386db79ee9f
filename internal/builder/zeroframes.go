// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// ZeroFrames starts a hostile HTTP/2 server. It sends SETTINGS_MAX_FRAME_SIZE=0, which RFC
// 9113 forbids, and answers no request: a client that accepts the value sends the body of a
// request in empty frames without end (CVE-2026-33814).
func ZeroFrames(t testing.TB) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.TLS = &tls.Config{NextProtos: []string{"h2"}}
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, c *tls.Conn, _ http.Handler) {
		// Length 6, type SETTINGS, no flags, stream 0; MAX_FRAME_SIZE is 5, and its value 0.
		if _, err := c.Write([]byte{0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0}); err == nil {
			_, _ = io.Copy(io.Discard, c) // until the client closes it
		}
	}}
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections() // a client that accepts the value keeps them
		s.Close()
	})
	return s
}
