// SPDX-License-Identifier: Apache-2.0

package connlistener

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
)

func listening(t *testing.T) *Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := New(ln)
	t.Cleanup(func() { _ = l.Close() }) // some tests have closed it
	return l
}

func TestBothKindsOfConnectionsAreAccepted(t *testing.T) {
	t.Parallel()
	l := listening(t)
	ours, theirs := net.Pipe()
	go l.Serve(theirs)
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{ours, dialled} {
		go func() { _, _ = c.Write([]byte("x")) }()
		got, err := l.Accept() // in whichever order
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = got.Close() }()
	}
}

func TestUnacceptedConnectionIsClosed(t *testing.T) {
	t.Parallel()
	l := listening(t)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	l.Serve(theirs)
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("error %v, want the end", err)
	}
	if c, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted %v, %v after the end", c, err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

// TestAnErrorIsPassedOn closes the underlying listener: Accept must return its
// error.
func TestAnErrorIsPassedOn(t *testing.T) {
	t.Parallel()
	l := listening(t)
	if err := l.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// broken is a listener that panics.
type broken struct{ net.Listener }

func (broken) Accept() (net.Conn, error) { panic("broken") }

func TestAcceptEndsWhenListenerPanics(t *testing.T) {
	t.Parallel()
	l := New(broken{listening(t)})
	if c, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("accepted %v, %v, want that it is closed", c, err)
	}
}

func TestAServerLivesAsLongAsItsConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		l := Listen(near)
		conn, err := l.Accept()
		if err != nil || l.Addr() != near.LocalAddr() {
			t.Fatalf("got %v at %v", err, l.Addr())
		}
		ended := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("got %v while the connection is open", err)
		default:
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want the end", err)
		}
		if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("got %v at the other end, want the end", err)
		}
	})
}
