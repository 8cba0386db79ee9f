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

// Read writes the selected part of a log. It holds little of it in memory: a client may
// be slow.
func (l *Log) Read(ctx context.Context, o Options, w io.Writer) error {
	if o.Limit > 0 {
		w = &limited{w, o.Limit}
	}
	p := &printer{Options: o, w: bufio.NewWriterSize(w, buffered), rotated: -2}
	for {
		more, err := p.next(l)
		if errors.Is(err, errEnough) {
			return nil
		}
		if err != nil || !o.Follow || more == nil {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil // the client has disconnected
		}
	}
}

// buffered is enough for the longest entry.
const buffered = 2 * maxLine

// printer writes a log to a client.
type printer struct {
	Options
	w      *bufio.Writer
	inLine bool // the last entry was a part of a line
	// rotated and offset are the position after which the log is not written yet: an
	// offset in the file that was current after a number of rotations.
	rotated int
	offset  int64
}

// next writes what was stored since the last call. What was deleted meanwhile is lost.
// It returns a channel that is closed when there is more; nil after the end.
func (p *printer) next(l *Log) (more chan struct{}, err error) {
	all, more, err := p.open(l)
	if err == nil {
		err = p.print(all)
	}
	for _, s := range all {
		_ = s.Close() // only read
	}
	return more, err
}

// section is a part of a file that does not change.
type section struct {
	io.ReadSeeker
	io.Closer
}

func (p *printer) open(l *Log) (all []section, more chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		more = l.changed
	}
	names, from := []string{l.path}, p.offset
	if l.rotated > p.rotated {
		names = []string{l.aside(), l.path}
	}
	if l.rotated > p.rotated+1 {
		from = 0
	}
	for _, name := range names {
		f, err := os.Open(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return all, nil, fmt.Errorf("read a log: %w", err)
		}
		size, err := f.Seek(0, io.SeekEnd)
		all = append(all, section{io.NewSectionReader(f, from, size-from), f})
		if err != nil {
			return all, nil, fmt.Errorf("read a log: %w", err)
		}
		p.offset, from = size, 0
	}
	p.rotated = l.rotated
	return all, more, nil
}

// print writes the selected entries.
func (p *printer) print(all []section) error {
	skip := int64(0)
	if p.Tail != nil {
		if err := p.each(all, func(_, _ []byte, partial bool) error {
			if !partial {
				skip++
			}
			return nil
		}); err != nil {
			return err
		}
		skip, p.Tail = skip-*p.Tail, nil
	}
	err := p.each(all, func(stamp, text []byte, partial bool) (err error) {
		if skip > 0 {
			if !partial {
				skip--
			}
			return nil
		}
		if p.Timestamps && !p.inLine {
			_, err = fmt.Fprintf(p.w, "%s ", stamp)
		}
		p.inLine = partial
		if err == nil {
			_, err = p.w.Write(text)
		}
		return err
	})
	return errors.Join(err, p.w.Flush())
}

// each calls f with the time and the text of each selected entry, with its newline
// unless it is only a part of a line.
func (o Options) each(all []section, f func(stamp, text []byte, partial bool) error) error {
	for _, s := range all {
		if _, err := s.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read a log: %w", err)
		}
		for r := bufio.NewReaderSize(s, buffered); ; {
			line, err := r.ReadSlice('\n')
			if errors.Is(err, io.EOF) {
				break // the rest is truncated by a full disk
			}
			if err != nil {
				return fmt.Errorf("read a log: %w", err)
			}
			fields := bytes.SplitN(line, []byte(" "), 4)
			if len(fields) < 4 || o.Stream != "" && o.Stream != string(fields[1]) {
				continue
			}
			if at, err := time.Parse(format, string(fields[0])); err != nil || at.Before(o.Since) {
				continue
			}
			text, partial := fields[3], string(fields[2]) == "P"
			if partial {
				text = bytes.TrimSuffix(text, []byte("\n"))
			}
			if err := f(fields[0], text, partial); err != nil {
				return err
			}
		}
	}
	return nil
}

type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	n, err := l.w.Write(p[:min(int64(len(p)), l.left)])
	if l.left -= int64(n); err == nil && l.left == 0 {
		err = errEnough
	}
	return n, err
}
