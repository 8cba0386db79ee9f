// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// attach attaches a client with input from in, and returns its output and the
// result.
func attach(ctx context.Context, p *Process, in io.Reader) (heard *io.PipeReader, ended <-chan error) {
	r, w := io.Pipe()
	end := make(chan error, 1)
	go func() {
		err := p.Attach(ctx, Streams{Stdin: in, Stdout: w})
		_ = w.Close()
		end <- err
	}()
	return r, end
}

func TestClientsTakePartInAContainer(t *testing.T) {
	s := start(t, open(t, Options{}))
	c := container(t, "cat")
	c.Stdin = true
	p, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	listens, stopped := attach(ctx, p, nil)
	in, say := io.Pipe()
	speaks, said := attach(t.Context(), p, in)
	if _, err := io.WriteString(say, "one\n"); err != nil {
		t.Fatal(err)
	}
	until(t, speaks, "one\n")
	until(t, listens, "one\n")
	// Its input stays open for the next client.
	if err := say.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-said; err != nil {
		t.Errorf("a client that has said all: %v", err)
	}
	next, _ := attach(t.Context(), p, strings.NewReader("two\n"))
	until(t, listens, "two\n")
	_, _ = io.Copy(io.Discard, next)
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("a client that is gone: %v", err)
	}
	if err := p.Signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.Wait()
	if got := all(t, p.Stdout()); got != "one\ntwo\n" {
		t.Errorf("the log got %q", got)
	}
	if err := p.Attach(soon(t), Streams{Stdout: io.Discard}); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after its end: %v", err)
	}
}

func TestStdinOnceClosesInputAfterFirstClient(t *testing.T) {
	s := start(t, open(t, Options{}))
	c := container(t, "cat")
	c.Stdin, c.StdinOnce = true, true
	p, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var heard bytes.Buffer
	if err := p.Attach(soon(t), Streams{Stdin: strings.NewReader("all of it"), Stdout: &heard}); err != nil || heard.String() != "all of it" {
		t.Errorf("got %q, %v", heard.String(), err)
	}
	if e := p.Wait(); e.Code != 0 {
		t.Errorf("it ended with %+v", e)
	}
}

func TestContainerWithoutStdinIgnoresInput(t *testing.T) {
	s := start(t, open(t, Options{}))
	p, err := s.Run(t.Context(), container(t, "term"))
	if err != nil {
		t.Fatal(err)
	}
	until(t, p.Stdout(), "ready\n")
	heard, ended := attach(soon(t), p, strings.NewReader("the port is closed"))
	for there := 0; there == 0; runtime.Gosched() {
		p.stdout.mu.Lock()
		there = len(p.stdout.others)
		p.stdout.mu.Unlock()
	}
	if err := p.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := all(t, heard); got != "asked to end\n" {
		t.Errorf("got %q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestSlowClientBlocksNoOtherClient(t *testing.T) {
	s := start(t, open(t, Options{Kept: 64 << 10}))
	c := container(t, "cat")
	c.Stdin, c.StdinOnce = true, true
	p, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, deaf := attach(ctx, p, nil)
	var heard bytes.Buffer
	flood := strings.Repeat("x", 1<<20)
	if err := p.Attach(soon(t), Streams{Stdin: strings.NewReader(flood), Stdout: &heard}); err != nil {
		t.Errorf("the other client: %v", err)
	}
	if e := p.Wait(); e.Code != 0 {
		t.Errorf("it ended with %+v", e)
	}
	cancel()
	if err := <-deaf; !errors.Is(err, context.Canceled) {
		t.Errorf("the client that does not read: %v", err)
	}
}

func TestClientSetsTerminalSize(t *testing.T) {
	s := start(t, open(t, Options{}))
	c := container(t, "size")
	c.Stdin, c.StdinOnce, c.TTY = true, true, true
	p, err := s.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	in, say := io.Pipe()
	sizes, ended := make(chan Size, 1), make(chan error, 1)
	sizes <- Size{Height: 21, Width: 77}
	go func() { ended <- p.Attach(t.Context(), Streams{Stdin: in, Stdout: w, TTY: true, Resize: sizes}) }()
	until(t, r, "21 77")
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := say.Close(); err != nil { // the terminal converts this to the end of its input
		t.Fatal(err)
	}
	if e := p.Wait(); e.Code != 0 {
		t.Errorf("it ended with %+v", e)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
