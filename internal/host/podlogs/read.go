// SPDX-License-Identifier: Apache-2.0

package podlogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Options select what is read of a log; the zero value reads everything that exists
// now.
type Options struct {
	// Follow waits for further lines until the run ends.
	Follow bool
	// Tail is the maximum number of existing lines to read; nil reads all.
	Tail *int64
	// Since is the time of the first line to read; zero is the start.
	Since time.Time
	// Timestamps puts the time before each line.
	Timestamps bool
	// Limit is the maximum number of bytes to read; 0 is no limit.
	Limit int64
	// Stream is stdout or stderr; "" is both.
	Stream string
}

var errEnough = errors.New("as much as was asked for")

// Read writes the selected part of a log.
func (l *Log) Read(ctx context.Context, o Options, w io.Writer) error {
	if o.Limit > 0 {
		w = &limited{w, o.Limit}
	}
	err := l.read(ctx, o, w)
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

func (l *Log) read(ctx context.Context, o Options, w io.Writer) error {
	all, current, rotated, more, err := l.content()
	if err != nil {
		return err
	}
	if err := write(w, chosen(all, o), o); err != nil {
		return err
	}
	for o.Follow && more != nil {
		select {
		case <-more:
		case <-ctx.Done():
			return nil // the client has disconnected
		}
		var next []byte
		next, rotated, current, more, err = l.since(rotated, current)
		if err != nil {
			return err
		}
		o.Tail = nil
		if err := write(w, chosen(next, o), o); err != nil {
			return err
		}
	}
	return nil
}

// since returns what was written after an offset in the file that was current after
// a number of rotations. What was deleted meanwhile is lost.
func (l *Log) since(rotated int, offset int64) (next []byte, now int, size int64, more chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		more = l.changed
	}
	from := offset
	if l.rotated > rotated {
		if l.rotated > rotated+1 {
			from = 0
		}
		if next, err = tail(l.aside(), from); err != nil {
			return nil, 0, 0, nil, err
		}
		from = 0
	}
	last, err := tail(l.path, from)
	if err != nil {
		return nil, 0, 0, nil, err
	}
	return append(next, last...), l.rotated, from + int64(len(last)), more, nil
}

func tail(name string, from int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read a log: %w", err)
	}
	return io.ReadAll(f)
}

// entry is one line, or a part of one.
type entry struct {
	at      time.Time
	stamp   []byte
	text    []byte
	partial bool
}

// chosen returns the selected entries.
func chosen(b []byte, o Options) []entry {
	var all []entry
	for line := range bytes.Lines(b) {
		fields := bytes.SplitN(bytes.TrimSuffix(line, []byte("\n")), []byte(" "), 4)
		if len(fields) < 4 || !bytes.HasSuffix(line, []byte("\n")) {
			continue // truncated by a full disk
		}
		at, err := time.Parse(format, string(fields[0]))
		if err != nil || o.Stream != "" && o.Stream != string(fields[1]) || at.Before(o.Since) {
			continue
		}
		all = append(all, entry{at, fields[0], fields[3], string(fields[2]) == "P"})
	}
	if o.Tail == nil {
		return all
	}
	keep, whole := len(all), int64(0)
	for keep > 0 {
		if !all[keep-1].partial {
			if whole == *o.Tail {
				break
			}
			whole++
		}
		keep--
	}
	return all[keep:]
}

func write(w io.Writer, all []entry, o Options) error {
	var b bytes.Buffer
	for _, e := range all {
		if o.Timestamps {
			b.Write(e.stamp)
			b.WriteByte(' ')
		}
		b.Write(e.text)
		if !e.partial {
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return nil
	}
	_, err := w.Write(b.Bytes())
	return err
}

type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) < l.left {
		l.left -= int64(len(p))
		return l.w.Write(p)
	}
	n, err := l.w.Write(p[:l.left])
	l.left = 0
	if err == nil {
		err = errEnough
	}
	return n, err
}
