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

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// errDetached is the reason why Attach returns before the container exits.
var errDetached = errors.New("its client has said all")

// Attach attaches a client to a container: the client receives the output from now
// on, and its input is the container's, if that has one. Attach returns when the
// container has exited and all its output was forwarded; when the client's input
// ends, unless the container's ends with it; or with ctx. A slow client blocks no
// other, but loses the oldest output. The container determines whether there is a
// terminal.
func (p *Process) Attach(ctx context.Context, streams Streams) error {
	select {
	case <-p.done:
		return fmt.Errorf("attach to container %s: %w", p.container.Name, os.ErrProcessDone)
	default:
	}
	ctx, detach := context.WithCancelCause(ctx)
	defer detach(nil)
	var out sync.WaitGroup
	for from, to := range map[*output]io.Writer{p.stdout: streams.Stdout, p.stderr: streams.Stderr} {
		if to == nil {
			continue
		}
		heard, leave := from.also()
		defer leave()
		context.AfterFunc(ctx, recovery.Func(ctx, leave))
		out.Go(recovery.Func(ctx, func() {
			if _, err := io.Copy(to, heard); err != nil {
				detach(err) // the client has disconnected
			}
		}))
	}
	if p.input != nil && streams.Stdin != nil {
		go recovery.Func(ctx, func() { p.hear(ctx, streams.Stdin, detach) })() // it may block in a read, which is the caller's
	}
	if streams.Resize != nil && p.terminal != nil {
		go recovery.Func(ctx, func() { follow(ctx, p.done, p.terminal, streams.Resize) })()
	}
	passed := make(chan struct{})
	go recovery.Func(ctx, func() {
		defer close(passed)
		out.Wait()
	})()
	select {
	case <-p.done:
		select {
		case <-passed:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	switch err := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(err, errDetached):
		linger(passed)
		return nil
	default:
		return fmt.Errorf("attach to container %s: %w", p.container.Name, err)
	}
}

// linger waits for output that was written already. A client may not read it.
func linger(passed <-chan struct{}) {
	timer := time.NewTimer(lingering)
	defer timer.Stop()
	select {
	case <-passed:
	case <-timer.C:
	}
}

// hear forwards the input of a client.
func (p *Process) hear(ctx context.Context, from io.Reader, detach context.CancelCauseFunc) {
	say := func(b []byte) bool {
		select {
		case p.input <- b:
			return true
		case <-p.done:
		case <-ctx.Done():
		}
		return false
	}
	for {
		b := make([]byte, 4<<10)
		n, err := from.Read(b)
		if n > 0 && !say(b[:n]) {
			return
		}
		if err == nil {
			continue
		}
		if !p.container.StdinOnce {
			detach(errDetached)
			return
		}
		say(nil)
		return
	}
}

// listen writes the input of clients to a container, in the order of arrival.
func (p *Process) listen() {
	for ended := false; ; {
		select {
		case b := <-p.input:
			switch {
			case ended:
			case b != nil:
				_, _ = p.stdin.Write(b) // it may not read it
			case p.terminal != nil:
				ended = true
				_, _ = p.stdin.Write([]byte{endOfText}) // as above
			default:
				ended = true
				_ = p.stdin.Close() // as above
			}
		case <-p.done:
			return
		}
	}
}

// follow sets a terminal to the sizes of a client's terminal.
func follow(ctx context.Context, done <-chan struct{}, terminal *os.File, sizes <-chan Size) {
	for {
		select {
		case size, ok := <-sizes:
			if !ok {
				return
			}
			_ = resize(terminal, size) // it keeps the old one
		case <-done:
			return
		case <-ctx.Done():
			return
		}
	}
}
