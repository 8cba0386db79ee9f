// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

func TestOnlyYesIsYes(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]error{"y\n": nil, "YES\n": nil, "n\n": ErrNotAgreed, "\n": ErrNotAgreed, "yesterday\n": ErrNotAgreed, "y": nil, "": ErrNotAgreed} {
		var talk bytes.Buffer
		env := &Env{In: strings.NewReader(answer), Err: &talk, Interactive: true}
		if err := env.AskIfPossible(t.Context(), "Delete all?"); !errors.Is(err, want) || talk.String() != "Delete all? [y/N]\n" {
			t.Errorf("%q is answered: %v after %q, want %v", answer, err, &talk, want)
		}
	}
}

func TestWhoInterruptsAQuestionDoesNotAgree(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in, _ := io.Pipe()
	if err := (&Env{In: Input(ctx, in), Err: io.Discard}).Ask(ctx, "Continue?"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was interrupted", err)
	}
}

func TestAskFailsWithoutTerminal(t *testing.T) {
	t.Parallel()
	var talk bytes.Buffer
	if err := (&Env{In: strings.NewReader("n\n"), Err: &talk}).AskIfPossible(t.Context(), "Delete all?"); err != nil || talk.Len() > 0 {
		t.Errorf("asked %q, %v: want neither", &talk, err)
	}
}

func TestOneIsAskedBefore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ in, want string }{
		"yes":            {"y\n", "<nil>"},
		"YES at the end": {"YES", "<nil>"},
		"no":             {"n\n", "nothing was changed"},
		"just a line":    {"\n", "nothing was changed"},
		"no terminal":    {"", "no terminal for confirmation: use --yes"},
	} {
		env := &Env{In: strings.NewReader(tc.in), Err: &bytes.Buffer{}}
		if err := env.Confirm(t.Context(), "It goes."); fmt.Sprint(err) != tc.want {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
}
