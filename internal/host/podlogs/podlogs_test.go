// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ticking returns a clock that advances by a second with each call.
func ticking() func() time.Time {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() time.Time { now = now.Add(time.Second); return now }
}

func begin(t *testing.T) (*Store, *Log) {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "logs"), ticking())
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.Begin("pod", "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

func read(t *testing.T, l *Log, o Options) string {
	t.Helper()
	var b bytes.Buffer
	if err := l.Read(t.Context(), o, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestALogIsReadAsItIsAskedFor(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	l.Copy("stdout", strings.NewReader("one\ntwo\n"))   // at 1 s and 2 s
	l.Copy("stderr", strings.NewReader("three\n\nend")) // at 3 to 5 s
	tests := map[string]struct {
		o    Options
		want string
	}{
		"all":                {Options{}, "one\ntwo\nthree\n\nend\n"},
		"the end":            {Options{Tail: new(int64(2))}, "\nend\n"},
		"more than there is": {Options{Tail: new(int64(99))}, "one\ntwo\nthree\n\nend\n"},
		"nothing of it":      {Options{Tail: new(int64(0))}, ""},
		"since":              {Options{Since: time.Date(2026, 1, 1, 0, 0, 2, 0, time.UTC), Tail: new(int64(4))}, "two\nthree\n\nend\n"},
		"one stream":         {Options{Stream: "stdout"}, "one\ntwo\n"},
		"some bytes":         {Options{Limit: 5}, "one\nt"},
		"with the time":      {Options{Tail: new(int64(1)), Timestamps: true}, "2026-01-01T00:00:05Z end\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := read(t, l, tc.o); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestALogIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	l.limit = 100 // it is rotated meanwhile
	l.Copy("stdout", strings.NewReader("first\n"))
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := l.Read(context.Background(), Options{Follow: true}, w)
		_ = w.Close()
		ended <- err
	}()
	lines, buf := "first\n", make([]byte, 64)
	for i := range 10 {
		if n, err := r.Read(buf); err != nil || string(buf[:n]) != lines {
			t.Fatalf("%q, %v; want %q", buf[:n], err, lines)
		}
		lines = fmt.Sprintf("line %d\n", i)
		l.Copy("stdout", strings.NewReader(lines))
	}
	if n, err := r.Read(buf); err != nil || string(buf[:n]) != lines {
		t.Errorf("%q, %v; want %q", buf[:n], err, lines)
	}
	if err := l.End(); err != nil {
		t.Error(err)
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		t.Errorf("after its end: %q", rest)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestALogIsBoundedAndForItsUserAlone(t *testing.T) {
	t.Parallel()
	s, l := begin(t)
	l.limit = 1000
	for i := range 500 {
		l.Copy("stdout", strings.NewReader(fmt.Sprintf("line %d\n", i)))
	}
	total := int64(0)
	for _, name := range []string{l.path, l.aside()} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
		total += info.Size()
	}
	if total > 2000 {
		t.Errorf("%d bytes are kept, limit 2000", total)
	}
	if got := read(t, l, Options{Tail: new(int64(1))}); got != "line 499\n" {
		t.Errorf("it ends in %q", got)
	}
	if info, err := os.Stat(s.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
}

func TestTheRunBeforeIsKeptAndNoOther(t *testing.T) {
	t.Parallel()
	s, l := begin(t)
	l.Copy("stderr", strings.NewReader("boom\n"))
	for run := 1; run <= 2; run++ {
		if _, err := s.Begin("pod", "a", run); err != nil {
			t.Fatal(err)
		}
		if kept := s.Find("pod", "a", 0) != nil; kept != (run == 1) {
			t.Errorf("with run %d the first is kept: %v", run, kept)
		}
	}
	if _, err := os.Stat(l.path); !os.IsNotExist(err) {
		t.Errorf("its file is there: %v", err)
	}
	if err := s.Remove("pod"); err != nil || s.Find("pod", "a", 2) != nil {
		t.Errorf("%v; the latest is there: %v", err, s.Find("pod", "a", 2) != nil)
	}
}

func TestALongLineIsOneLineAgain(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	long := strings.Repeat("x", 3*maxLine+7)
	l.Copy("stdout", strings.NewReader(long+"\nend\n"))
	if got := read(t, l, Options{Tail: new(int64(2))}); got != long+"\nend\n" {
		t.Errorf("%d bytes, want %d", len(got), len(long)+5)
	}
}

// pieces records the sizes of what is written to it.
type pieces struct {
	bytes.Buffer
	largest int
}

func (p *pieces) Write(b []byte) (int, error) {
	p.largest = max(p.largest, len(b))
	return p.Buffer.Write(b)
}

// TestLogIsReadInPieces: clients that read slowly must not make the plane hold whole
// logs in memory.
func TestLogIsReadInPieces(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	l.limit = 1 << 20 // so that there are two files
	text := strings.Repeat(strings.Repeat("x", 99)+"\n", 10_000)
	l.Copy("stdout", strings.NewReader(text))
	for name, o := range map[string]Options{"all": {}, "its end": {Tail: new(int64(9_000))}} {
		var got pieces
		if err := l.Read(t.Context(), o, &got); err != nil {
			t.Fatal(err)
		}
		want := text
		if o.Tail != nil {
			want = text[len(text)-100*9_000:]
		}
		if got.String() != want || got.largest > 1<<16 {
			t.Errorf("%s: got %d bytes in pieces of up to %d, want %d in pieces of up to %d", name, got.Len(), got.largest, len(want), 1<<16)
		}
	}
}

func TestLongLineHasOneTimestamp(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	long := strings.Repeat("x", 2*maxLine+7)
	l.Copy("stdout", strings.NewReader(long+"\nend\n")) // in three entries, and at 4 s
	want := "2026-01-01T00:00:01Z " + long + "\n2026-01-01T00:00:04Z end\n"
	if got := read(t, l, Options{Timestamps: true}); got != want {
		t.Errorf("got %d bytes, want %d: ends in %.60q", len(got), len(want), got[max(0, len(got)-60):])
	}
}

// TestLogSkipsDamagedEntries: a full disk truncates an entry, and the files are those of
// a folder that the plane's user may have changed.
func TestLogSkipsDamagedEntries(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	const entries = "2026-01-01T00:00:01Z stdout F one\nstdout\n\nyesterday stdout F two\n2026-01-01T00:00:02Z stdout F three\n2026-01-01T00:00:03Z stdout F fo"
	if _, err := l.file.WriteString(entries); err != nil {
		t.Fatal(err)
	}
	if got := read(t, l, Options{}); got != "one\nthree\n" {
		t.Errorf("got %q", got)
	}
	if got := read(t, l, Options{Tail: new(int64(1))}); got != "three\n" {
		t.Errorf("its last line is %q", got)
	}
}

// TestLogIsFollowedWhereRotationFailed: a reader loses nothing that is stored while the
// next file cannot be created.
func TestLogIsFollowedWhereRotationFailed(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	l.Copy("stdout", strings.NewReader("one\n"))
	var got bytes.Buffer
	p := &printer{w: bufio.NewWriter(&got), rotated: -2}
	for _, step := range []func() error{
		func() error { return nil },
		func() error { return os.Rename(l.path, l.aside()) }, // rotate stopped here
		func() error { l.mu.Lock(); defer l.mu.Unlock(); return l.rotate() },
		func() error { l.Copy("stdout", strings.NewReader("two\n")); return nil },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if _, err := p.next(l); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != "one\ntwo\n" {
		t.Errorf("got %q", got.String())
	}
}

func TestFollowEndsWithItsClient(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Read(ctx, Options{Follow: true}, io.Discard); err != nil {
		t.Error(err)
	}
	broken, w := io.Pipe()
	_ = broken.Close()
	l.Copy("stdout", strings.NewReader("one\n"))
	if err := l.Read(t.Context(), Options{Follow: true}, w); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v, want that the client has disconnected", err)
	}
}

func TestLogOfEarlierPlaneIsRemoved(t *testing.T) {
	t.Parallel()
	s, l := begin(t)
	l.Copy("stdout", strings.NewReader("one\n"))
	again, err := Open(s.dir, ticking())
	if err != nil || again.Left != nil {
		t.Fatalf("%v, left %v", err, again.Left)
	}
	if _, err := os.Stat(l.path); !os.IsNotExist(err) || again.Find("pod", "a", 0) != nil {
		t.Errorf("its file is there: %v", err)
	}
	if got := l.Last(); got != "one" { // of a run that still ends
		t.Errorf("its last line is %q", got)
	}
}

func TestLogIsReadEvenIfNotStored(t *testing.T) {
	t.Parallel()
	_, l := begin(t)
	if err := l.file.Close(); err != nil { // simulates a broken disk
		t.Fatal(err)
	}
	from := strings.NewReader("one\ntwo\nthree\n")
	l.Copy("stdout", from)
	if from.Len() != 0 {
		t.Errorf("%d bytes are unread", from.Len())
	}
	if got := l.Last(); got != "one\ntwo\nthree" {
		t.Errorf("last lines %q", got)
	}
}
