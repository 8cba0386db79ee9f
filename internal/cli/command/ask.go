// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// ErrNotAgreed means that the user did not answer yes.
var ErrNotAgreed = errors.New("nothing was changed")

// Ask asks a question, and returns nil if the answer is yes, and ErrNotAgreed if it
// is another one. The error is io.EOF if there is no user to answer. In must be an Input,
// so that the end of ctx ends the question.
func (e *Env) Ask(ctx context.Context, question string) error {
	e.Say("%s [y/N]", question)
	answer, err := bufio.NewReader(io.LimitReader(e.In, 100)).ReadString('\n')
	switch text := strings.ToLower(strings.TrimSpace(answer)); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case text == "y" || text == "yes":
		return nil
	case text == "" && err != nil:
		return io.EOF
	}
	return ErrNotAgreed
}

// Input returns a reader of in whose reads end with ctx: a terminal or a pipe may never
// have more to read, and only the end of the program would end that.
func Input(ctx context.Context, in io.Reader) io.Reader { return input{ctx, in} }

type input struct {
	ctx context.Context
	in  io.Reader
}

// Read implements io.Reader.
func (i input) Read(p []byte) (int, error) {
	type part struct {
		text []byte
		err  error
	}
	parts, buffer := make(chan part, 1), make([]byte, len(p))
	go recovery.Func(i.ctx, func() { // without input it blocks until the program ends
		defer close(parts)
		n, err := i.in.Read(buffer)
		parts <- part{buffer[:n], err}
	})()
	select {
	case <-i.ctx.Done():
		return 0, context.Cause(i.ctx)
	case read, ok := <-parts:
		if !ok { // it panicked
			return 0, io.ErrUnexpectedEOF
		}
		return copy(p, read.text), read.err
	}
}

// Confirm prints what is about to happen, and asks whether to continue. Scripts
// must confirm with a flag: without a user to answer it is misuse.
func (e *Env) Confirm(ctx context.Context, what string) error {
	err := e.Ask(ctx, what+" Continue?")
	if errors.Is(err, io.EOF) {
		return Misuse(errors.New("no terminal for confirmation: use --yes"))
	}
	return err
}

// AskIfPossible is Ask with a user at a terminal, and yes otherwise: scripts
// continue as they did before the question was added.
func (e *Env) AskIfPossible(ctx context.Context, question string) error {
	if !e.Interactive {
		return nil
	}
	if err := e.Ask(ctx, question); !errors.Is(err, io.EOF) {
		return err
	}
	return ErrNotAgreed
}
