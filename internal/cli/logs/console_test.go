// SPDX-License-Identifier: Apache-2.0

package logs

import (
	"bufio"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestAConsoleIsFollowedUntilItsContainerIsGone(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "m0-1")
	newer, older := filepath.Join(folder, "console.log"), filepath.Join(folder, "console.old")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(newer, []byte("first\nsec"), 0o600)); err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	c := &console{env: &command.Env{Out: w, Err: w}, folder: folder}
	ended := make(chan error, 1)
	go func() {
		ended <- c.show(t.Context(), true)
		_ = w.Close()
	}()
	lines := bufio.NewScanner(r)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("line %q, %v, want %q", lines.Text(), lines.Err(), want)
		}
	}
	next("first")
	add := func(text string) {
		t.Helper()
		f, err := os.OpenFile(newer, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	add("ond\n")
	next("second")
	add("the end of a full file and ")
	if err := os.Rename(newer, older); err != nil {
		t.Fatal(err)
	}
	add("the beginning of another\nno end")
	next("the end of a full file and the beginning of another")
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	next("no end")
	if err := <-ended; err != nil || lines.Scan() {
		t.Errorf("error %v, further line %q", err, lines.Text())
	}
}
