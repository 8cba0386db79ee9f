// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReceiveRefusesCraftedMessages: a shim, or a process that took one over, sends
// what it likes. No message stops the receiver, takes more memory than the limit, or
// leaves a descriptor open that the receiver has not seen.
func TestReceiveRefusesCraftedMessages(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	many := make([]int, MaxDescriptors)
	for i := range many {
		many[i] = int(null.Fd())
	}
	credentials := unix.UnixCredentials(&unix.Ucred{Pid: int32(os.Getpid()), Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())})
	for name, tc := range map[string]struct {
		text string
		oob  []byte
		fds  int
		want string // in the error
	}{
		"a message":                       {text: `{"Dir":"/x"}`},
		"one with descriptors":            {text: `{}`, oob: unix.UnixRights(many[:2]...), fds: 2},
		"one with all that are possible":  {text: `{}`, oob: unix.UnixRights(many...), fds: MaxDescriptors},
		"no JSON, but a descriptor":       {text: "\x00\xff", oob: unix.UnixRights(many[0]), fds: 1, want: "invalid character"},
		"another type":                    {text: `{"Args":{}}`, want: "cannot unmarshal"},
		"two values":                      {text: `{}{}`, want: "invalid character"},
		"nested without end":              {text: strings.Repeat("[", MaxMessage), want: "exceeded max depth"},
		"the longest":                     {text: `"` + strings.Repeat("x", MaxMessage-2) + `"`, want: "cannot unmarshal string"},
		"one byte more":                   {text: `{}` + strings.Repeat(" ", MaxMessage-1), want: "has over"},
		"one byte more, and a descriptor": {text: `{}` + strings.Repeat(" ", MaxMessage-1), oob: unix.UnixRights(many[0]), fds: 1, want: "has over"},
		"credentials":                     {text: `{"Dir":"/x"}`, oob: credentials},
		"nothing":                         {want: io.EOF.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = errors.Join(unix.Close(pair[0]), unix.Close(pair[1])) }()
			if err := unix.Sendmsg(pair[0], []byte(tc.text), tc.oob, nil, 0); err != nil {
				t.Fatal(err)
			}
			var p Plan
			fds, err := Receive(pair[1], &p)
			for _, fd := range fds {
				flags, ferr := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				if ferr != nil || flags&unix.FD_CLOEXEC == 0 {
					t.Errorf("descriptor %d stays open in programs: %v", fd, ferr)
				}
				_ = unix.Close(fd)
			}
			if len(fds) != tc.fds || (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %d descriptors, %v, want %d, %q", len(fds), err, tc.fds, tc.want)
			}
		})
	}
}

func TestSendIsReceived(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(pair[1]) }()
	var p Plan
	if err := Send(pair[0], Plan{Dir: "/x"}, pair[0], pair[1]); err != nil {
		t.Fatal(err)
	}
	fds, err := Receive(pair[1], &p)
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	if err != nil || len(fds) != 2 || p.Dir != "/x" {
		t.Errorf("got %q, %v, %v", p.Dir, fds, err)
	}
	if err := Send(pair[0], strings.Repeat("x", MaxMessage)); err == nil {
		t.Error("a message that the receiver would refuse was sent")
	}
	if err := unix.Close(pair[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := Receive(pair[1], &p); !errors.Is(err, io.EOF) {
		t.Errorf("after its end: got %v", err)
	}
}
