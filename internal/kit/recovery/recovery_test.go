// SPDX-License-Identifier: Apache-2.0

package recovery

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/util/wait"
)

// logged returns a context with a logger, and what it has written.
func logged(t *testing.T) (context.Context, *strings.Builder) {
	t.Helper()
	var out strings.Builder
	log := funcr.New(func(prefix, args string) { out.WriteString(prefix + args) }, funcr.Options{})
	return logr.NewContext(t.Context(), log.WithValues("name", "cron")), &out
}

func TestCallReturnsPanicAsError(t *testing.T) {
	for name, tc := range map[string]struct {
		f         func() error
		want      string
		wantPanic bool
		wantIs    error
	}{
		"nothing":    {f: func() error { return nil }},
		"error":      {f: func() error { return io.EOF }, want: "EOF", wantIs: io.EOF},
		"text":       {f: func() error { panic("no schedule") }, want: "panic: no schedule", wantPanic: true},
		"error kept": {f: func() error { panic(io.EOF) }, want: "panic: EOF", wantPanic: true, wantIs: io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, log := logged(t)
			err := Call(ctx, tc.f)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || err.Error() != tc.want) {
				t.Errorf("got error %v, want %q", err, tc.want)
			}
			if _, ok := errors.AsType[*Error](err); ok != tc.wantPanic {
				t.Errorf("got a panic: %v, want %v", ok, tc.wantPanic)
			}
			if tc.wantIs != nil && !errors.Is(err, tc.wantIs) {
				t.Errorf("%v is not %v", err, tc.wantIs)
			}
			if got := strings.Contains(log.String(), "recovery_test.go"); got != tc.wantPanic {
				t.Errorf("got a stack in the log: %v, want %v: %s", got, tc.wantPanic, log)
			}
			if tc.wantPanic && !strings.Contains(log.String(), `"name"="cron"`) {
				t.Errorf("the log does not name the object: %s", log)
			}
		})
	}
}

func TestFuncEndsItsGoroutineAlone(t *testing.T) {
	ctx, log := logged(t)
	var running sync.WaitGroup
	running.Go(Func(ctx, func() { panic("no schedule") }))
	running.Wait()
	if !strings.Contains(log.String(), "no schedule") {
		t.Errorf("the panic is not in the log: %s", log)
	}
}

// TestProcessHasLoopsOfClientGoContinue does not run in parallel: it sets what holds for
// the process.
func TestProcessHasLoopsOfClientGoContinue(t *testing.T) {
	Process()
	ctx, log := logged(t)
	rounds := 0
	ctx, cancel := context.WithCancel(ctx)
	wait.UntilWithContext(ctx, func(context.Context) {
		if rounds++; rounds == 1 {
			panic("no schedule")
		}
		cancel()
	}, 0)
	if rounds != 2 || !strings.Contains(log.String(), "no schedule") {
		t.Errorf("got %d rounds and log %q, want 2 and the panic", rounds, log)
	}
}
