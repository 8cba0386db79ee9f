// SPDX-License-Identifier: Apache-2.0

package connlistener

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
)

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
