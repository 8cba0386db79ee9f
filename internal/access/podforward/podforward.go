// SPDX-License-Identifier: Apache-2.0

// Package podforward connects to a port of a Pod through the API server of its cluster.
//
// Through it, ServingCertExpiry reads the certificates that the API servers of a
// workload cluster present to all clients: by their static Pods, since a load balancer
// would answer with the certificate of any of them. The certificates are not trusted:
// nothing is sent, size and time are limited, and a certificate only counts if the
// cluster's CA has signed it.
package podforward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	pfconst "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	library "k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/spdy"
)

// link is a connection on which streams are opened.
type link interface {
	CreateStream(headers http.Header) (httpstream.Stream, error)
	Close() error
}

// Open is OpenPod for a static Pod in kube-system of a workload cluster.
func Open(ctx context.Context, config *rest.Config, pod string, port int) (net.Conn, error) {
	return OpenPod(ctx, config, metav1.NamespaceSystem, pod, port)
}

// OpenPod opens one stream to a port of a Pod: SPDY inside a websocket, or plain SPDY if
// the API server or a proxy before it does not support that. The context bounds only the
// opening.
func OpenPod(ctx context.Context, config *rest.Config, namespace, pod string, port int) (net.Conn, error) {
	u, err := podURL(config, namespace, pod)
	if err != nil {
		return nil, err
	}
	link, err := overWebsocket(ctx, config, u)
	if httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) {
		link, err = overSPDY(ctx, config, u)
	}
	if err != nil {
		return nil, err
	}
	// CreateStream waits for the other side and has no context.
	stop := context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = link.Close() }))
	conn, err := newStream(link, pod, port)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = link.Close() // The cause has been reported already.
		return nil, err
	}
	return conn, nil
}

func podURL(config *rest.Config, namespace, pod string) (*url.URL, error) {
	if config == nil {
		return nil, errors.New("no configuration for the API server")
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read the API server's address: %w", err)
	}
	return base.JoinPath("api", "v1", "namespaces", namespace, "pods", pod, "portforward"), nil
}

func overWebsocket(ctx context.Context, config *rest.Config, u *url.URL) (link, error) {
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare a websocket: %w", err)
	}
	up := &upgrade{dialer: websocket.Dialer{
		NetDialContext: config.Dial, Proxy: config.Proxy, TLSClientConfig: security,
		Subprotocols:   []string{pfconst.WebsocketsSPDYTunnelingPrefix + portforward.PortForwardProtocolV1Name},
		ReadBufferSize: buffer, WriteBufferSize: buffer,
	}}
	transport, err := rest.HTTPWrappersForConfig(config, up)
	if err != nil {
		return nil, fmt.Errorf("prepare a websocket: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("prepare a websocket: %w", err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close() // It has no body: the connection belongs to the websocket now.
	return spdy.Client(portforward.NewTunnelingConnection(u.Path, up.conn)), nil
}

// buffer is how many bytes of a websocket are read and written at once: as in
// client-go, 32 KiB and the byte of the channel number.
const buffer = 32<<10 + 1024

// upgrade is a round trip that opens a websocket. Client-go's uses neither the
// dialer of the configuration nor a proxy of the environment, unlike all other
// requests of the same configuration.
type upgrade struct {
	dialer websocket.Dialer
	conn   *websocket.Conn
}

// RoundTrip implements http.RoundTripper.
func (u *upgrade) RoundTrip(req *http.Request) (*http.Response, error) {
	at := *req.URL
	at.Scheme = strings.Replace(at.Scheme, "http", "ws", 1)
	conn, resp, err := u.dialer.DialContext(req.Context(), at.String(), req.Header)
	switch {
	case errors.Is(err, websocket.ErrBadHandshake):
		return nil, &httpstream.UpgradeFailureError{Cause: refused(resp)}
	case err != nil:
		return nil, err
	case conn.Subprotocol() != u.dialer.Subprotocols[0]:
		cause := fmt.Errorf("the API server speaks the protocol %q in websockets, wanted %q", conn.Subprotocol(), u.dialer.Subprotocols[0])
		return nil, &httpstream.UpgradeFailureError{Cause: errors.Join(cause, conn.Close())}
	}
	u.conn = conn
	return resp, nil
}

// refused returns why no websocket was opened, in the server's words.
func refused(resp *http.Response) error {
	said, _ := io.ReadAll(io.LimitReader(resp.Body, maxReport)) // partial text is enough, as the status is known
	_ = resp.Body.Close()
	return fmt.Errorf("no websocket: %s: %s", resp.Status, said)
}

func overSPDY(ctx context.Context, config *rest.Config, u *url.URL) (link, error) {
	security, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("prepare a SPDY connection: %w", err)
	}
	way := library.RoundTripperConfig{PingPeriod: 5 * time.Second}
	if config.Proxy != nil {
		way.TLS, way.Proxier = security, config.Proxy
	} else {
		way.UpgradeTransport = &http.Transport{DialContext: config.Dial, TLSClientConfig: security}
	}
	upgrader, err := library.NewRoundTripperWithConfig(way)
	if err != nil {
		return nil, fmt.Errorf("prepare a SPDY connection: %w", err)
	}
	transport, err := rest.HTTPWrappersForConfig(config, upgrader)
	if err != nil {
		return nil, fmt.Errorf("prepare a SPDY connection: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("prepare a SPDY connection: %w", err)
	}
	req.Header.Set(httpstream.HeaderProtocolVersion, portforward.PortForwardProtocolV1Name)
	resp, err := refusals{transport}.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	carried, err := upgrader.NewConnection(resp) // which reads the text of a refusal
	if err != nil {
		return nil, err
	}
	if protocol := resp.Header.Get(httpstream.HeaderProtocolVersion); protocol != portforward.PortForwardProtocolV1Name {
		return nil, errors.Join(fmt.Errorf("the API server speaks the port-forward protocol %q, wanted %q", protocol, portforward.PortForwardProtocolV1Name), carried.Close())
	}
	return carried, nil
}

// refusals limits the body of a response that refuses to switch protocols: it would
// be read to its end, and closing it would do so as well. Its connection has no
// owner, and is closed when it is garbage collected.
type refusals struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (r refusals) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := r.RoundTripper.RoundTrip(req)
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		resp.Body = io.NopCloser(io.LimitReader(resp.Body, maxReport))
	}
	return resp, err
}

// stream is the data stream of a port-forward as a connection. An error that the
// other side reports on the error stream is returned by the next read.
type stream struct {
	httpstream.Stream
	link link
	pod  string

	mu     sync.Mutex
	broken error
	told   chan struct{} // closed when the error stream has ended
}

func newStream(link link, pod string, port int) (*stream, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	errs, err := link.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("open the error stream: %w", err)
	}
	if err := errs.Close(); err != nil { // it is never written to
		return nil, fmt.Errorf("close our side of the error stream: %w", err)
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := link.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("open the data stream: %w", err)
	}
	s := &stream{Stream: data, link: link, pod: pod, told: make(chan struct{})}
	go recovery.Func(context.Background(), func() { s.listen(errs) })()
	return s, nil
}

// maxReport limits what is read from the error stream.
const maxReport = 4 << 10

func (s *stream) listen(errs io.Reader) {
	defer close(s.told)
	report, _ := io.ReadAll(io.LimitReader(errs, maxReport)) // a broken link also causes an error on the data stream
	if len(report) > 0 {
		s.mu.Lock()
		s.broken = errors.New(strings.TrimSpace(string(report)))
		s.mu.Unlock()
		_ = s.link.Close() // No data follows.
	}
}

func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	if err != nil {
		err = s.reason(err)
	}
	return n, err
}

func (s *stream) Write(p []byte) (int, error) {
	n, err := s.Stream.Write(p)
	if err != nil {
		err = s.reason(err)
	}
	return n, err
}

// reportTimeout is how long a report may take after the end of the data stream.
const reportTimeout = time.Second

// reason prefers the error that the other side reported to that of the stream. The
// report has a separate stream and may arrive later: without waiting, the text for
// the same problem would vary.
func (s *stream) reason(err error) error {
	late := time.NewTimer(reportTimeout)
	defer late.Stop()
	select {
	case <-s.told:
	case <-late.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	return err
}

// Close closes the port-forward, whose only stream this is.
func (s *stream) Close() error {
	err := s.link.Close()
	<-s.told
	return err
}

// The connection is bounded by contexts and by the timeouts of its users: streams
// do not support deadlines.

func (s *stream) LocalAddr() net.Addr              { return addr("port-forward") }
func (s *stream) RemoteAddr() net.Addr             { return addr(s.pod) }
func (s *stream) SetDeadline(time.Time) error      { return nil }
func (s *stream) SetReadDeadline(time.Time) error  { return nil }
func (s *stream) SetWriteDeadline(time.Time) error { return nil }

type addr string

func (a addr) Network() string { return "port-forward" }
func (a addr) String() string  { return string(a) }
