// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/spdy"
)

const (
	forwardProtocol = "portforward.k8s.io"
	tunnelProtocol  = "SPDY/3.1+" + forwardProtocol
	// pairWithin is how long one stream of a pair waits for the other, and maxPairs how many
	// of one connection wait.
	pairWithin = 30 * time.Second
	maxPairs   = 512
)

// forward carries connections to ports of a Pod, over SPDY or over SPDY in a
// websocket, until the client closes it.
func (s *Server) forward(w http.ResponseWriter, r *request) error {
	if s.portForward == nil {
		return apierrors.NewBadRequest("port-forwarding is not simulated in this cluster")
	}
	if _, err := s.objects.Entry(r.kind, r.namespace, r.name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), s.log.WithValues("namespace", r.namespace, "pod", r.name)))
	defer cancel()
	f := &forwarder{s: s, namespace: r.namespace, pod: r.name, ctx: ctx, waiting: map[string]*pair{}}
	conn, err := f.upgrade(w, r.Request)
	if err != nil || conn == nil {
		return err
	}
	select {
	case <-conn.CloseChan():
	case <-s.closed.Done():
	}
	cancel()
	_ = conn.Close() // it is closed either way
	f.running.Wait()
	return nil
}

// forwarder is one upgraded connection.
type forwarder struct {
	s              *Server
	namespace, pod string
	ctx            context.Context // that of the connection, which outlives the request
	running        sync.WaitGroup

	mu      sync.Mutex // guards waiting
	waiting map[string]*pair
}

// pair is the two streams of one forwarded connection.
type pair struct{ data, errors *spdy.Stream }

// upgrade takes the connection over. A nil connection means that the client
// has been answered.
func (f *forwarder) upgrade(w http.ResponseWriter, r *http.Request) (*spdy.Conn, error) {
	if websocket.IsWebSocketUpgrade(r) {
		upgrader := websocket.Upgrader{Subprotocols: []string{tunnelProtocol}, CheckOrigin: func(*http.Request) bool { return true }}
		if !strings.Contains(r.Header.Get("Sec-Websocket-Protocol"), tunnelProtocol) {
			return nil, apierrors.NewBadRequest("the websocket must offer the protocol " + tunnelProtocol)
		}
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return nil, nil // the upgrader has answered
		}
		return spdy.Server(portforward.NewTunnelingConnection("server", ws), f.accept), nil
	}
	if !httpstream.IsUpgradeRequest(r) {
		return nil, apierrors.NewBadRequest("Upgrade request required")
	}
	if _, err := httpstream.Handshake(r, w, []string{forwardProtocol}); err != nil {
		return nil, nil // the handshake has answered
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return nil, apierrors.NewBadRequest("this connection cannot be upgraded: use HTTP/1.1")
	}
	w.Header().Add(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	w.Header().Add(httpstream.HeaderUpgrade, "SPDY/3.1")
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, read, err := hijacker.Hijack()
	if err != nil {
		return nil, nil // the client has been answered
	}
	return spdy.Server(hijacked{conn, read}, f.accept), nil
}

// hijacked is a connection of which the HTTP server has read something already.
type hijacked struct {
	net.Conn
	read io.Reader
}

// Read implements io.Reader.
func (h hijacked) Read(p []byte) (int, error) { return h.read.Read(p) }

// accept takes a new stream, and starts a connection when both streams of a
// pair are there.
func (f *forwarder) accept(stream *spdy.Stream) error {
	id, kind := stream.Headers().Get(corev1.PortForwardRequestIDHeader), stream.Headers().Get(corev1.StreamType)
	port, err := strconv.ParseUint(stream.Headers().Get(corev1.PortHeader), 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("port %q is not a port", stream.Headers().Get(corev1.PortHeader))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.waiting[id]
	if p == nil && len(f.waiting) >= maxPairs {
		return errors.New("too many streams wait for their pair")
	}
	if p == nil {
		p = &pair{}
		f.waiting[id] = p
		time.AfterFunc(pairWithin, recovery.Func(f.ctx, func() { f.forget(id, p) }))
	}
	switch kind {
	case corev1.StreamTypeData:
		p.data = stream
	case corev1.StreamTypeError:
		p.errors = stream
	default:
		return fmt.Errorf("stream type %q is not known", kind)
	}
	if p.data != nil && p.errors != nil {
		delete(f.waiting, id)
		f.running.Go(recovery.Func(f.ctx, func() { f.serve(p, int32(port)) }))
	}
	return nil
}

// forget drops a pair that was not completed.
func (f *forwarder) forget(id string, p *pair) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting[id] == p {
		delete(f.waiting, id)
	}
}

func (f *forwarder) serve(p *pair, port int32) {
	defer func() {
		_ = p.data.Close()                 // the other end notices
		_, _ = io.Copy(io.Discard, p.data) // unread data would block other connections
	}()
	defer func() { _ = p.errors.Close() }() // the other end notices
	if err := f.s.portForward(f.ctx, f.namespace, f.pod, port, p.data); err != nil {
		_, _ = fmt.Fprintf(p.errors, "error forwarding port %d to pod %s/%s: %v", port, f.namespace, f.pod, err) // the client may have left
	}
}
