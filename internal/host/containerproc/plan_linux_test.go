// SPDX-License-Identifier: Apache-2.0

package containerproc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestAnErrorArrivesWithWhatTheKernelSaid(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want syscall.Errno
	}{
		"none":                  {nil, 0},
		"of the kernel":         {fmt.Errorf("write: %w", &os.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}), syscall.ENOSPC},
		"without a known cause": {errors.New("no reason"), 0},
	} {
		p, err := NewPipes()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := WriteAnswer(p.Answer, tc.err); err != nil {
			t.Fatal(err)
		}
		p.Passed()
		got := p.Await()
		if (got == nil) != (tc.err == nil) || got != nil && got.Error() != tc.err.Error() {
			t.Errorf("%s: got %v, want %v", name, got, tc.err)
		}
		if errno, _ := errors.AsType[syscall.Errno](got); errno != tc.want {
			t.Errorf("%s: got %d, want %d", name, errno, tc.want)
		}
	}
}

// TestRunPrefersTheAnswer: a process that exits early has the better reason than the
// pipe that it did not read.
func TestRunPrefersTheAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   string
	}{
		"no answer":         {"", "send what to run: write |1: broken pipe"},
		"an answer":         {`{"Error":"no disk"}`, "no disk"},
		"one cut short":     {`{"Error":"no di`, "unexpected EOF"},
		"one without end":   {`{"Error":"` + strings.Repeat("x", 64<<10), "unexpected EOF"},
		"one that is wrong": {`[1]`, "json: cannot unmarshal array into Go value of type containerproc.Answer"},
	} {
		p, err := NewPipes()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		go func() {
			_ = p.Given.Close()
			_, _ = io.WriteString(p.Answer, tc.answer)
			p.Passed()
		}()
		// The process reads nothing: this fills the pipe.
		if got := p.Run(Plan{Dir: strings.Repeat("x", 1<<20)}); got == nil || got.Error() != tc.want {
			t.Errorf("%s: got %v, want %s", name, got, tc.want)
		}
	}
}

// TestReadPlanIsBounded: a plan may come from a plane that runs another version.
func TestReadPlanIsBounded(t *testing.T) {
	long, err := json.Marshal(Plan{Dir: strings.Repeat("x", longestPlan)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		text, want string
		open       bool
	}{
		"a plan":                  {text: `{"Dir":"/x"}`},
		"one that stays open":     {text: `{"Dir":"/x"}`, open: true},
		"nothing":                 {want: "read what to run: EOF"},
		"one cut short":           {text: `{"Dir":"/`, want: "read what to run: unexpected EOF"},
		"one that is too long":    {text: string(long), want: "read what to run: arguments, variables and files are over 8388608 bytes"},
		"one of another language": {text: "\x00\x01", want: "read what to run: invalid character '\\x00' looking for beginning of value"},
	} {
		p, err := NewPipes()
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		go func() {
			_, _ = io.WriteString(p.Plan, tc.text)
			if !tc.open {
				_ = p.Plan.Close()
			}
		}()
		var got Plan
		err = ReadPlan(p.Given, &got)
		if tc.want == "" && (err != nil || got.Dir != "/x") || tc.want != "" && (err == nil || err.Error() != tc.want) {
			t.Errorf("%s: got %q, %v, want %q", name, got.Dir, err, tc.want)
		}
	}
}

func TestStepErrorNamesEveryStep(t *testing.T) {
	for step := range 256 {
		err := stepError(byte(step), syscall.EPERM)
		if !errors.Is(err, syscall.EPERM) || strings.HasPrefix(err.Error(), ":") {
			t.Errorf("step %d: %v", step, err)
		}
	}
	if err := stepError(toDrop, 0); err != nil {
		t.Errorf("no error: %v", err)
	}
}

// TestHearBelievesOneMessage: a process of the container that took over the child
// could write anything. Only the message that the child waits opens its gate.
func TestHearBelievesOneMessage(t *testing.T) {
	for step := range 256 {
		for _, errno := range []byte{0, 1, 255} {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte{byte(step), errno}); err != nil {
				t.Fatal(err)
			}
			waits, err := hear(r, "/nothing")
			gate := step == int(toGate) && errno == 0
			if waits != gate || (err == nil) != gate {
				t.Errorf("step %d, error %d: waits %v, %v", step, errno, waits, err)
			}
			_ = errors.Join(r.Close(), w.Close())
		}
	}
	for name, text := range map[string]string{"nothing": "", "half of a message": "\x00"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
		_ = w.Close()
		if waits, err := hear(r, "/nothing"); waits || (err == nil) != (text == "") {
			t.Errorf("%s: waits %v, %v", name, waits, err)
		}
		_ = r.Close()
	}
}
