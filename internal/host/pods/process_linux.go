// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/containerproc"
	"github.com/capstan-dev/capstan/internal/host/pods/holder"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// Process is the process of a container.
type Process struct {
	container Container
	stdout    *output
	stderr    *output
	stdin     io.WriteCloser
	input     chan []byte // input from clients; nil is its end
	terminal  *os.File    // the plane's side; nil if there is none
	drained   sync.WaitGroup
	done      chan struct{}
	// message is the file of its last message, or the socket for that; nil if there is
	// none.
	message *os.File

	mu    sync.Mutex // guards the fields below
	pidfd *os.File   // nil when it has exited
	exit  Exit
}

// Stdout returns its standard output, once: two readers would share it. A slow
// reader does not block the container, but loses the oldest output. io.EOF follows
// its exit.
func (p *Process) Stdout() io.ReadCloser { return p.stdout }

// Stderr is the same for its standard error; empty with a terminal.
func (p *Process) Stderr() io.ReadCloser { return p.stderr }

// Stdin returns its standard input; nil without Stdin or TTY.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Done is closed when it has exited and all its output is stored.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits until it exits.
func (p *Process) Wait() Exit {
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exit
}

// Signal sends it a signal; os.ErrProcessDone when it has exited. As process 1, it
// receives only signals that it handles, and SIGKILL.
func (p *Process) Signal(s unix.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd == nil {
		return os.ErrProcessDone
	}
	return send(p.pidfd, s)
}

func send(pidfd *os.File, s unix.Signal) error {
	err := unix.PidfdSendSignal(int(pidfd.Fd()), s, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return os.NewSyscallError("pidfd_send_signal", err)
}

// endWith kills a process when ctx ends. After stop it does not, and the pidfd may
// be closed.
func endWith(ctx context.Context, pidfd *os.File) (stop func()) {
	var mu sync.Mutex
	stopped := false // guarded by mu
	cancel := context.AfterFunc(ctx, recovery.Func(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			_ = send(pidfd, unix.SIGKILL) // it may have exited
		}
	}))
	return func() {
		cancel()
		mu.Lock()
		defer mu.Unlock()
		stopped = true
	}
}

func resize(terminal *os.File, s Size) error {
	raw, err := terminal.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = raw.Control(func(fd uintptr) {
		inner = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Height, Col: s.Width})
	})
	return errors.Join(err, inner)
}

// end records how it exited.
func (p *Process) end(e holder.Event, oom bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.exit = Exit{Code: e.Code, Signal: e.Signal, OOMKilled: oom, At: time.Now(), Message: e.Error}
	if p.message != nil {
		text, _ := io.ReadAll(io.LimitReader(p.message, maxMessage)) // the readable part is reported
		p.exit.LastMessage = string(text)
		_ = p.message.Close() // only read
	}
	if p.pidfd != nil {
		_ = p.pidfd.Close() // nothing was written to it
		p.pidfd = nil
	}
}

// awaitMessage creates a socket through which the container's file for its last
// message is sent.
func (p *Process) awaitMessage() (theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socketpair", err)
	}
	p.message = os.NewFile(uintptr(pair[0]), "message")
	return pair[1], nil
}

// receiveMessage receives the file from the socket, where it is once the container
// has started.
func (p *Process) receiveMessage() error {
	if p.message == nil {
		return nil
	}
	socket := p.message
	p.message = nil
	defer func() { _ = socket.Close() }() // it was read
	fd := int(socket.Fd())
	if err := unix.SetNonblock(fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	var sent struct{}
	fds, err := containerproc.Receive(fd, &sent)
	if err == nil && len(fds) != 1 {
		err = fmt.Errorf("%d descriptors came, want 1", len(fds))
	}
	if err != nil {
		closeAll(fds)
		return err
	}
	p.message = os.NewFile(uintptr(fds[0]), "last message")
	return nil
}

// pidOf returns the PID of the process of a pidfd, as this process sees it.
func pidOf(pidfd int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, "Pid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(n))
			if err == nil && pid <= 0 {
				err = os.ErrProcessDone
			}
			return pid, err
		}
	}
	return 0, fmt.Errorf("pidfd %d names no process", pidfd)
}

// streams are the files of a new process: ours are the plane's ends.
type streams struct {
	theirs                [3]*os.File
	stdin, stdout, stderr *os.File
	pipes                 *containerproc.Pipes
	terminal              *os.File
}

// openStreams opens them. With a terminal, stdin and stdout are the terminal, and
// stderr is nil; owner is the terminal's owner.
func openStreams(tty, stdin bool, owner int) (s *streams, err error) {
	s = &streams{}
	if s.pipes, err = containerproc.NewPipes(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
			s = nil
		}
	}()
	pipe := func(r, w **os.File) {
		if err == nil {
			*r, *w, err = os.Pipe()
		}
	}
	if tty {
		if err == nil {
			s.terminal, s.theirs[0], err = containerproc.OpenTerminal()
		}
		if err == nil && owner >= 0 { // only its processes can open it again
			err = s.theirs[0].Chown(owner, -1)
		}
		s.theirs[1], s.theirs[2] = s.theirs[0], s.theirs[0]
		s.stdin, s.stdout = s.terminal, s.terminal
	} else {
		if stdin {
			pipe(&s.theirs[0], &s.stdin)
		} else if err == nil {
			s.theirs[0], err = os.Open(os.DevNull)
		}
		pipe(&s.stdout, &s.theirs[1])
		pipe(&s.stderr, &s.theirs[2])
	}
	if err != nil {
		return s, fmt.Errorf("make its streams: %w", err)
	}
	return s, nil
}

// given closes the ends of the other process.
func (s *streams) given() {
	s.pipes.Passed()
	for _, f := range s.theirs {
		_ = f.Close() // nil, twice, or its own: nothing was written
	}
}

func (s *streams) close() {
	s.given()
	s.pipes.Close()
	for _, f := range []*os.File{s.stdin, s.stdout, s.stderr} {
		_ = f.Close() // as above
	}
}

// drain reads everything. Reading from a terminal fails when its other side is
// closed, which is its end.
func drain(to io.Writer, from *os.File) {
	_, _ = io.Copy(to, from)
}
