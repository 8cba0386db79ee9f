// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/host/pods/holder"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// lingering is how long the output of a command is read after its exit: processes
// that it left running may keep it open forever.
const lingering = 2 * time.Second

// Exec runs a command in a running container, with the container's variables,
// folder, user and limits, and returns its exit code. The end of ctx kills it. An
// error means that it did not start or was not followed to its end.
func (s *Sandbox) Exec(ctx context.Context, container string, args []string, streams Streams) (int, error) {
	code, err := s.exec(ctx, container, args, streams)
	if err != nil {
		return 0, fmt.Errorf("exec in container %s of sandbox %s: %w", container, s.spec.Name, err)
	}
	return code, nil
}

func (s *Sandbox) exec(ctx context.Context, container string, args []string, streams Streams) (int, error) {
	s.mu.Lock()
	p := s.containers[container]
	s.mu.Unlock()
	if p == nil {
		return 0, errors.New("it does not run")
	}
	if len(args) == 0 || args[0] == "" {
		return 0, errors.New("no command is given")
	}
	target, err := p.duplicate()
	if err != nil {
		return 0, err
	}
	defer func() { _ = unix.Close(target) }() // nothing was written
	c := p.container
	st, err := openStreams(streams.TTY, streams.Stdin != nil, s.owner(c))
	if err != nil {
		return 0, err
	}
	defer st.close()
	ended := make(chan holder.Event, 1)
	pidfd, err := s.start(ctx, st, beginning{holder.Request{Kind: holder.Exec, Terminal: streams.TTY}, containerGroup(s, c.Name), s.plan(c, args, streams.TTY), ended}, target)
	if err != nil {
		return 0, err
	}
	defer func() { _ = pidfd.Close() }() // nothing was written
	// Its end ends the command.
	defer context.AfterFunc(ctx, recovery.Func(ctx, func() { _ = st.pipes.Plan.Close() }))()
	copied := carry(ctx, st, streams)
	var e holder.Event
	select {
	case e = <-ended:
	case <-s.ctx.Done():
		return 0, s.Err()
	}
	timer := time.NewTimer(lingering)
	defer timer.Stop()
	select {
	case <-copied:
	case <-timer.C:
	}
	switch {
	case ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case e.Error != "":
		return 0, errors.New(e.Error)
	}
	return e.Code, nil
}

// duplicate returns another descriptor of the process, which may exit meanwhile.
func (p *Process) duplicate() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pidfd == nil {
		return 0, os.ErrProcessDone
	}
	return unix.FcntlInt(p.pidfd.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// carry copies between a command and its client. It returns a channel that is
// closed when all output of the command has been read.
func carry(ctx context.Context, st *streams, streams Streams) <-chan struct{} {
	var out sync.WaitGroup
	copy := func(to io.Writer, from *os.File) {
		if from == nil {
			return
		}
		if to == nil {
			to = io.Discard
		}
		out.Go(recovery.Func(ctx, func() {
			if _, err := io.Copy(to, from); err != nil {
				drain(io.Discard, from) // the command does not wait for a client that stopped reading
			}
		}))
	}
	copy(streams.Stdout, st.stdout)
	copy(streams.Stderr, st.stderr)
	if streams.Stdin != nil {
		go recovery.Func(ctx, func() { // it may block in a read, which is the caller's
			defer func() { // also if the client's reader panics: the command waits for the end
				if st.terminal == nil {
					_ = st.stdin.Close()
				} else {
					_, _ = st.terminal.Write([]byte{endOfText})
				}
			}()
			_, _ = io.Copy(st.stdin, streams.Stdin) // the command may not read it
		})()
	}
	done := make(chan struct{})
	go recovery.Func(ctx, func() {
		defer close(done)
		out.Wait()
	})()
	if streams.Resize != nil && st.terminal != nil {
		go recovery.Func(ctx, func() { follow(ctx, done, st.terminal, streams.Resize) })()
	}
	return done
}

// endOfText ends the input of a terminal.
const endOfText = 4
