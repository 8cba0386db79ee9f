// SPDX-License-Identifier: Apache-2.0

package spdy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/moby/spdystream/spdy"
	"k8s.io/streaming/pkg/httpstream"
	library "k8s.io/streaming/pkg/httpstream/spdy"
)

// end is what both this package's and the library's ends are.
type end interface {
	CreateStream(headers http.Header) (httpstream.Stream, error)
	Close() error
	CloseChan() <-chan bool
}

// ends creates both ends of a connection.
type ends struct {
	client func(net.Conn) (end, error)
	server func(net.Conn, func(httpstream.Stream) error) (end, error)
}

func ours(c net.Conn) (end, error) { return Client(c), nil }

func theirs(c net.Conn) (end, error) { return library.NewClientConnection(c) }

func serveOurs(c net.Conn, accept func(httpstream.Stream) error) (end, error) {
	return Server(c, func(s *Stream) error { return accept(s) }), nil
}

func serveTheirs(c net.Conn, accept func(httpstream.Stream) error) (end, error) {
	return library.NewServerConnection(c, func(s httpstream.Stream, _ <-chan struct{}) error { return accept(s) })
}

var all = map[string]ends{
	"both of this package":      {ours, serveOurs},
	"the client of the library": {theirs, serveOurs},
	"the server of the library": {ours, serveTheirs},
}

// sockets are the two ends of a connection.
func sockets(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err = net.Dial("tcp", l.Addr().String())
	if err == nil {
		server, err = l.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

func (e ends) connect(t *testing.T, accept func(httpstream.Stream) error) (client, server end) {
	t.Helper()
	a, b := sockets(t)
	server, err := e.server(b, accept)
	if err == nil {
		client, err = e.client(a)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client, server
}

func TestStreamsCarryDataBothWays(t *testing.T) {
	t.Parallel()
	for name, e := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := e.connect(t, func(s httpstream.Stream) error {
				go func() { // answers after the end, with a header and what was received
					got, err := io.ReadAll(s)
					if err != nil {
						t.Error(err)
					}
					_, _ = io.WriteString(s, strings.Join(s.Headers().Values("Port-Name"), "+"))
					_, _ = s.Write(got)
					_ = s.Close()
				}()
				return nil
			})
			for _, n := range []int{0, 1, maxData, 3*maxData + 7} { // one after the other on one connection
				s, err := client.CreateStream(http.Header{"Port-Name": {"etcd", "peer"}, "X-Empty": {""}})
				if err != nil {
					t.Fatal(err)
				}
				sent := bytes.Repeat([]byte("x"), n)
				if _, err := s.Write(sent); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(s)
				if err != nil || string(got) != "etcd+peer"+string(sent) {
					t.Errorf("%d bytes: got %d bytes back, %v", n, len(got), err)
				}
				if err := s.Close(); err == nil {
					t.Error("a stream was closed twice")
				}
			}
		})
	}
}

func TestAStreamThatIsRefusedIsNotOpened(t *testing.T) {
	t.Parallel()
	for name, e := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _ := e.connect(t, func(s httpstream.Stream) error {
				if s.Headers().Get("Port") == "0" {
					return errors.New("no such port")
				}
				return nil
			})
			if _, err := client.CreateStream(http.Header{"Port": {"0"}}); err == nil {
				t.Error("it was opened")
			}
			if _, err := client.CreateStream(http.Header{"Port": {"1"}}); err != nil {
				t.Errorf("another after it: %v", err)
			}
		})
	}
}

func TestTheEndOfAConnectionEndsItsStreams(t *testing.T) {
	t.Parallel()
	for name, e := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			accepted := make(chan httpstream.Stream, 1)
			client, server := e.connect(t, func(s httpstream.Stream) error { accepted <- s; return nil })
			s, err := client.CreateStream(http.Header{})
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
			<-server.CloseChan()
			for _, s := range []httpstream.Stream{s, <-accepted} {
				if _, err := io.ReadAll(s); err != nil {
					t.Errorf("got %v, want the end", err)
				}
			}
			if _, err := client.CreateStream(http.Header{}); err == nil {
				t.Error("a stream was opened over a closed connection")
			}
		})
	}
}

// TestConnLimitsWhatItReads: headers are compressed, and streams kept.
func TestConnLimitsWhatItReads(t *testing.T) {
	t.Parallel()
	a, b := sockets(t)
	accepted := 0 // by the goroutine that reads, until the connection is closed
	server := Server(b, func(*Stream) error { accepted++; return nil })
	framer, err := spdy.NewFramer(a, a)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, a) }()
	for i := range maxStreams + 10 {
		if err := framer.WriteFrame(&spdy.SynStreamFrame{StreamId: spdy.StreamId(2*i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	large := &spdy.SynStreamFrame{StreamId: 9999, Headers: http.Header{"A": {strings.Repeat("x", 1<<19)}}}
	if err := framer.WriteFrame(large); err != nil {
		t.Fatal(err)
	}
	<-server.CloseChan()
	if accepted != maxStreams {
		t.Errorf("accepted %d streams, want %d", accepted, maxStreams)
	}
}

// silent is a connection that takes nothing.
type silent struct{ net.Conn }

func (silent) Write([]byte) (int, error) { return 0, errors.New("broken") }

func TestAStreamThatCouldNotBeRepliedToCanBeClosed(t *testing.T) {
	t.Parallel()
	a, b := sockets(t)
	accepted := make(chan *Stream, 1)
	server := Server(silent{b}, func(s *Stream) error { accepted <- s; return nil })
	client := Client(a)
	go func() { _, _ = client.CreateStream(http.Header{}) }()
	s := <-accepted
	if err := s.Close(); err == nil {
		t.Error("the end was sent over a broken connection")
	}
	<-server.CloseChan()
}

func TestUnreadStreamDoesNotBlockClose(t *testing.T) {
	t.Parallel()
	a, b := sockets(t)
	server := Server(b, func(*Stream) error { return nil })
	client := Client(a)
	s, err := client.CreateStream(http.Header{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	<-server.CloseChan()
	<-client.CloseChan()
}

func TestAConnectionIsCheap(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const n = 10
	for range n {
		client, _ := all["both of this package"].connect(t, func(httpstream.Stream) error { return nil })
		if _, err := client.CreateStream(http.Header{"Port": {"2379"}}); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each > 512<<10 { // those of the library: 1.7 MiB
		t.Errorf("%d bytes for a connection with one stream, want at most half a megabyte", each)
	}
}
