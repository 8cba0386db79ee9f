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
// is another one. The error is io.EOF if there is no user to answer.
func (e *Env) Ask(ctx context.Context, question string) error {
	e.Say("%s [y/N]", question)
	type line struct {
		text string
		err  error
	}
	answers := make(chan line, 1)
	go recovery.Func(ctx, func() { // without an answer it blocks until the program ends
		defer close(answers) // no answer is none that agrees
		text, err := bufio.NewReader(io.LimitReader(e.In, 100)).ReadString('\n')
		answers <- line{text, err}
	})()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case answer := <-answers:
		switch text := strings.ToLower(strings.TrimSpace(answer.text)); {
		case text == "y" || text == "yes":
			return nil
		case text == "" && answer.err != nil:
			return io.EOF
		}
		return ErrNotAgreed
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
	return e.Ask(ctx, question)
}
