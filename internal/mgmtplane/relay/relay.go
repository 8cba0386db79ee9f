// SPDX-License-Identifier: Apache-2.0

// Package relay forwards connections of one plane's API server to what another
// plane runs: all planes reach the Pods, and so the webhooks, of the leader.
package relay

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	// Path is where an API server accepts connections for the cluster. Only
	// administrators can use it, because no role names it.
	Path = "/capstan/dial"

	protocol = "capstan-dial"
	header   = "Capstan-Address"
	// dialTimeout is for a plane that does not answer: a write waits for it.
	dialTimeout = 5 * time.Second
	// maxReason bounds the text of a refusal.
	maxReason = 1 << 10
)

// Dial connects to an address in the cluster.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Handler connects clients to the address that they name, by dial.
func Handler(dial Dial) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != protocol {
			http.Error(w, "want an upgrade to "+protocol, http.StatusUpgradeRequired)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), dialTimeout)
		defer cancel()
		to, err := dial(ctx, "tcp", r.Header.Get(header))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = to.Close() }() // both sides have ended, or one is closed
		hijacker, ok := w.(http.Hijacker)
		if !ok {
			http.Error(w, "want HTTP/1.1", http.StatusHTTPVersionNotSupported)
			return
		}
		from, in, err := hijacker.Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer func() { _ = from.Close() }() // as above
		if _, err := io.WriteString(from, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\n\r\n"); err != nil {
			return
		}
		copyBoth(from, in.Reader, to)
	})
}

// copyBoth returns when either side has ended: the relayed data are requests and
// responses, and no client waits for a response on a half-closed connection.
func copyBoth(from net.Conn, in io.Reader, to net.Conn) {
	ended := make(chan struct{}, 2)
	carry := func(to io.Writer, from io.Reader) {
		defer func() { ended <- struct{}{} }()
		_, _ = io.Copy(to, from)
	}
	go recovery.Func(context.Background(), func() { carry(to, in) })()
	go recovery.Func(context.Background(), func() { carry(from, to) })()
	<-ended
}

// Through connects to an address in the cluster through the API server of the plane
// that runs it, which listens at server. The config has the client certificate, and
// the authorities to trust.
func Through(ctx context.Context, server string, cfg *tls.Config, address string) (net.Conn, error) {
	conn, err := through(ctx, server, cfg, address)
	if err != nil {
		return nil, fmt.Errorf("reach %s through the plane at %s: %w", address, server, err)
	}
	return conn, nil
}

func through(ctx context.Context, server string, cfg *tls.Config, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
	defer cancel()
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"http/1.1"} // the others have no upgrade
	conn, err := (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", server)
	if err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	upgraded, err := upgrade(conn, deadline, server, address)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return upgraded, nil
}

func upgrade(conn net.Conn, deadline time.Time, server, address string) (net.Conn, error) {
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	req, err := http.NewRequest(http.MethodGet, "https://"+server+Path, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"Connection": "Upgrade", "Upgrade": protocol, header: address} {
		req.Header.Set(name, value)
	}
	if err := req.Write(conn); err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		reason, _ := io.ReadAll(io.LimitReader(res.Body, maxReason)) // as much as was received
		return nil, fmt.Errorf("%s: %q", res.Status, reason)
	}
	return &connection{conn, in}, conn.SetDeadline(time.Time{})
}

// connection first reads the data that was received with the response.
type connection struct {
	net.Conn
	in *bufio.Reader
}

// Read implements net.Conn.
func (c *connection) Read(b []byte) (int, error) { return c.in.Read(b) }
