// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// MaxMessage is the size of the longest message: the longest one is an error, and
	// everything without a limit is sent through a pipe.
	MaxMessage = 16 << 10
	// MaxDescriptors is the kernel's limit for one message.
	MaxDescriptors = 253
)

// Buffers returns memory for a message and for its descriptors.
func Buffers() (b, oob []byte) {
	return make([]byte, MaxMessage), make([]byte, unix.CmsgSpace(MaxDescriptors*4))
}

// Encode returns a message with descriptors.
func Encode(v any, fds ...int) (b, oob []byte, err error) {
	if b, err = json.Marshal(v); err != nil {
		return nil, nil, err
	}
	if len(b) > MaxMessage {
		return nil, nil, fmt.Errorf("a message of %d bytes is too long", len(b))
	}
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	return b, oob, nil
}

// Decode reads a received message and returns its descriptors, also with an error:
// the caller closes them. Where the receiver has no descriptor left, the kernel drops
// the rest of them, which the caller counts.
func Decode(b, oob []byte, flags int, v any) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(oob)
	for i := range messages {
		got, rerr := unix.ParseUnixRights(&messages[i])
		fds, err = append(fds, got...), errors.Join(err, rerr)
	}
	switch {
	case err != nil:
		return fds, fmt.Errorf("read descriptors: %w", err)
	case flags&unix.MSG_TRUNC != 0:
		return fds, fmt.Errorf("a message has over %d bytes", len(b))
	}
	return fds, json.Unmarshal(b, v)
}

// Send sends a message with descriptors.
func Send(fd int, v any, fds ...int) error {
	b, oob, err := Encode(v, fds...)
	if err != nil {
		return err
	}
	return os.NewSyscallError("sendmsg", unix.Sendmsg(fd, b, oob, nil, unix.MSG_NOSIGNAL))
}

// Receive receives such a message; io.EOF means that the peer has exited.
func Receive(fd int, v any) ([]int, error) {
	b, oob := Buffers()
	for {
		n, on, flags, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return nil, io.EOF
		}
		return Decode(b[:n], oob[:on], flags, v)
	}
}
