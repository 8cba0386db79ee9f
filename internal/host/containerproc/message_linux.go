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

// MaxMessage is the size of the longest message: the longest one is an error, and
// everything without a limit is sent through a pipe.
const MaxMessage = 16 << 10

// MaxDescriptors is the kernel's limit for one message.
const MaxDescriptors = 253

// Send sends a message with descriptors.
func Send(fd int, v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > MaxMessage {
		return fmt.Errorf("a message of %d bytes is too long", len(b))
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return os.NewSyscallError("sendmsg", unix.Sendmsg(fd, b, rights, nil, unix.MSG_NOSIGNAL))
}

// Receive receives such a message; io.EOF means that the peer has exited.
func Receive(fd int, v any) ([]int, error) {
	b, oob := make([]byte, MaxMessage), make([]byte, unix.CmsgSpace(MaxDescriptors*4))
	for {
		n, on, _, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, os.NewSyscallError("recvmsg", err)
		case n == 0:
			return nil, io.EOF
		}
		fds, err := Descriptors(oob[:on])
		if err != nil {
			return nil, err
		}
		return fds, json.Unmarshal(b[:n], v)
	}
}

// Descriptors returns the descriptors of a message.
func Descriptors(oob []byte) (fds []int, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("read descriptors: %w", err)
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, fmt.Errorf("read descriptors: %w", err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}
