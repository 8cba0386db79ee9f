// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"io"
	"net"
	"time"
)

// Conn converts a stream, such as that of a port-forward, to a connection for
// Serve. It has no deadlines: the creator of the stream closes it in time.
func Conn(s io.ReadWriteCloser) net.Conn { return &streamed{ReadWriteCloser: s} }

type streamed struct{ io.ReadWriteCloser }

func (*streamed) LocalAddr() net.Addr              { return streamAddr{} }
func (*streamed) RemoteAddr() net.Addr             { return streamAddr{} }
func (*streamed) SetDeadline(time.Time) error      { return nil }
func (*streamed) SetReadDeadline(time.Time) error  { return nil }
func (*streamed) SetWriteDeadline(time.Time) error { return nil }

type streamAddr struct{}

func (streamAddr) Network() string { return "port-forward" }
func (streamAddr) String() string  { return "port-forward" }
