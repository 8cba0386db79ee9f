// SPDX-License-Identifier: Apache-2.0

// Package spdy carries streams over one connection in the frames of SPDY/3.1, as
// Kubernetes' port-forwards do. It is compatible with the usual library
// (github.com/moby/spdystream) at the other end, and differs from it in the cost of
// a short connection. That library compresses headers at the highest level with a
// dictionary, which takes 2 ms and a megabyte at each end before anything is sent;
// here headers are sent uncompressed, in blocks of the same format. The library
// writes a frame in up to seven pieces, each of which becomes a message of a
// websocket; here a frame is one piece. And it waits forever to close a stream
// whose connection broke before it was replied to.
package spdy

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/moby/spdystream/spdy"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// ErrClosed means that the connection is closed, or that the other side has refused
// or reset a stream.
var ErrClosed = errors.New("the stream is closed")

// Conn is one end of a connection.
type Conn struct {
	conn   net.Conn
	framer *spdy.Framer // reads only
	accept func(*Stream) error
	closed chan bool // closed when the connection is
	ending sync.Once

	writing sync.Mutex // guards what follows
	frame   []byte     // the one being written
	begun   bool       // a header has been sent

	mu      sync.Mutex // guards what follows
	next    spdy.StreamId
	streams map[spdy.StreamId]*Stream
}

// What the other side may send. The headers of a stream have some tens of bytes, but
// are compressed: by default a frame of a megabyte could take a gigabyte of memory. A
// port-forward has two streams for each connection.
const (
	maxHeaders     = 16 << 10
	maxHeaderCount = 16
	maxStreams     = 1024
)

// Client is the end that opens streams.
func Client(conn net.Conn) *Conn { return start(conn, nil) }

// Server is the end that accepts streams, unless accept returns an error. The
// stream is usable once that has returned.
func Server(conn net.Conn, accept func(*Stream) error) *Conn { return start(conn, accept) }

func start(conn net.Conn, accept func(*Stream) error) *Conn {
	framer, _ := spdy.NewFramerWithOptions(io.Discard, bufio.NewReader(conn), // it can only fail for a level of compression
		spdy.WithMaxControlFramePayloadSize(maxHeaders), spdy.WithMaxHeaderFieldSize(maxHeaders), spdy.WithMaxHeaderCount(maxHeaderCount))
	c := &Conn{conn: conn, framer: framer, accept: accept, closed: make(chan bool), next: 1, streams: map[spdy.StreamId]*Stream{}}
	go recovery.Func(context.Background(), c.read)()
	return c
}

// CloseChan is closed when the connection is, by whichever side.
func (c *Conn) CloseChan() <-chan bool { return c.closed }

// Close ends all streams and the connection.
func (c *Conn) Close() error {
	err := c.conn.Close()
	c.end()
	return err
}

// end releases all waiting callers.
func (c *Conn) end() {
	c.ending.Do(func() {
		close(c.closed)
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.streams {
			_ = s.arrived.Close() // what a reader gets is EOF; closing never fails
		}
	})
}

// CreateStream opens a stream, and returns when the other side has accepted it.
func (c *Conn) CreateStream(headers http.Header) (httpstream.Stream, error) {
	c.writing.Lock() // IDs must be sent in order
	s := c.add(c.next, headers)
	c.next += 2
	err := c.writeHeaders(spdy.TypeSynStream, s, headers)
	c.writing.Unlock()
	if err != nil {
		return nil, err
	}
	select {
	case <-s.replied:
		return s, nil
	case <-s.reset:
	case <-c.closed:
	}
	return nil, ErrClosed
}

func (c *Conn) add(id spdy.StreamId, headers http.Header) *Stream {
	s := &Stream{conn: c, id: id, headers: headers.Clone(), replied: make(chan struct{}), reset: make(chan struct{})}
	s.unread, s.arrived = io.Pipe()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.streams[id] = s
	return s
}

func (c *Conn) stream(id spdy.StreamId) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams[id]
}

// read receives what the other side sends until the connection ends. Data waits
// until it is read, and so does what follows it.
func (c *Conn) read() {
	defer func() { _ = c.Close() }() // it is no longer of use
	for {
		frame, err := c.framer.ReadFrame()
		if err == nil {
			err = c.take(frame)
		}
		if err != nil {
			return
		}
	}
}

func (c *Conn) take(frame spdy.Frame) error {
	switch f := frame.(type) {
	case *spdy.SynStreamFrame:
		return c.opened(f)
	case *spdy.SynReplyFrame:
		if s := c.stream(f.StreamId); s != nil {
			s.once.Do(func() { close(s.replied) })
			s.received(nil, f.CFHeader.Flags&spdy.ControlFlagFin != 0)
		}
	case *spdy.DataFrame:
		if s := c.stream(f.StreamId); s != nil {
			s.received(f.Data, f.Flags&spdy.DataFlagFin != 0)
		}
	case *spdy.RstStreamFrame:
		if s := c.stream(f.StreamId); s != nil {
			s.drop()
		}
	case *spdy.PingFrame: // we send none, so this is no answer
		return c.write(control(spdy.TypePing, 0, binary.BigEndian.AppendUint32(nil, f.Id)))
	}
	return nil // the other kinds of frames change nothing
}

// opened calls accept for a new stream, and replies.
func (c *Conn) opened(f *spdy.SynStreamFrame) error {
	c.mu.Lock()
	full := len(c.streams) >= maxStreams
	c.mu.Unlock()
	if c.accept == nil || full || c.stream(f.StreamId) != nil {
		return c.write(reset(f.StreamId))
	}
	s := c.add(f.StreamId, f.Headers)
	defer s.once.Do(func() { close(s.replied) })
	if f.CFHeader.Flags&spdy.ControlFlagFin != 0 {
		s.received(nil, true)
	}
	if err := c.accept(s); err != nil {
		return s.Reset()
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.writeHeaders(spdy.TypeSynReply, s, nil)
}

func (c *Conn) write(frame []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := c.conn.Write(frame)
	return err
}

// Stream is one of the streams of a connection.
type Stream struct {
	conn    *Conn
	unread  *io.PipeReader
	arrived *io.PipeWriter
	id      spdy.StreamId
	headers http.Header
	once    sync.Once
	replied chan struct{} // closed when it is accepted, or the reply failed
	reset   chan struct{} // closed when either side has reset it

	mu             sync.Mutex // guards what follows
	sent, finished bool       // that we, and the other side, have nothing left to send
}

// Headers are those with which it was opened.
func (s *Stream) Headers() http.Header { return s.headers }

// Identifier is what it is called in frames.
func (s *Stream) Identifier() uint32 { return uint32(s.id) }

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) { return s.unread.Read(p) }

// maxData is how much is sent in one frame.
const maxData = 32 << 10

// Write implements io.Writer.
func (s *Stream) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(len(p), n+maxData)]
		if err := s.send(piece, false); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}

// Close ends our direction of the stream. What the other side sends can still be
// read.
func (s *Stream) Close() error {
	err := s.send(nil, true)
	s.forget()
	return err
}

// send sends a frame once the stream is replied to, or never will be.
func (s *Stream) send(p []byte, last bool) error {
	select {
	case <-s.replied:
	case <-s.reset:
	case <-s.conn.closed:
	}
	s.mu.Lock()
	over := s.sent
	s.sent = s.sent || last
	s.mu.Unlock()
	if over {
		return ErrClosed
	}
	c := s.conn
	c.writing.Lock()
	defer c.writing.Unlock()
	c.frame = append(data(c.frame[:0], s.id, len(p), last), p...)
	_, err := c.conn.Write(c.frame)
	return err
}

// Reset ends both directions immediately.
func (s *Stream) Reset() error {
	s.drop()
	return s.conn.write(reset(s.id))
}

// drop removes the stream; nothing is sent or read on it any longer.
func (s *Stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.sent || !s.finished {
		s.sent, s.finished = true, true
		close(s.reset)
	}
	_ = s.arrived.Close() // never fails
	s.conn.remove(s.id)
}

func (s *Stream) received(p []byte, last bool) {
	if len(p) > 0 {
		_, _ = s.arrived.Write(p) // unless it will not be read
	}
	if last {
		_ = s.arrived.Close() // never fails
		s.mu.Lock()
		s.finished = true
		s.mu.Unlock()
		s.forget()
	}
}

// forget removes the stream when both sides have ended their direction.
func (s *Stream) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent && s.finished {
		s.conn.remove(s.id)
	}
}

func (c *Conn) remove(id spdy.StreamId) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, id)
}
