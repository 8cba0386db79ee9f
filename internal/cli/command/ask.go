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

// ErrNotAgreed says that somebody who was asked did not say yes.
var ErrNotAgreed = errors.New("nothing was changed")

// Ask asks a question, and returns nil if the answer is yes, and ErrNotAgreed if it is
// another one. The error is io.EOF if nobody is there to answer.
func (e *Env) Ask(ctx context.Context, question string) error {
	e.Say("%s [y/N]", question)
	type line struct {
		text string
		err  error
	}
	answers := make(chan line, 1)
	go recovery.Func(ctx, func() { // who never answers holds it until the program ends
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

// Confirm says what is about to happen, and asks whether to go on. Who runs it in a
// script has to say so beforehand: that nobody is there is misuse.
func (e *Env) Confirm(ctx context.Context, what string) error {
	err := e.Ask(ctx, what+" Go on?")
	if errors.Is(err, io.EOF) {
		return Misuse(errors.New("nobody is there to be asked: say --yes"))
	}
	return err
}

// AskIfPossible is Ask where somebody sits at a terminal, and yes elsewhere: scripts go
// on as they did before there was a question.
func (e *Env) AskIfPossible(ctx context.Context, question string) error {
	if !e.Interactive {
		return nil
	}
	return e.Ask(ctx, question)
}
