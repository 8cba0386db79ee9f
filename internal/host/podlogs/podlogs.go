// SPDX-License-Identifier: Apache-2.0

// Package podlogs stores the output of Pods' containers: in files of limited size
// in a folder accessible only to the plane's user, in the format of container
// runtimes, with the time and the stream of each line. It has the streams of clients of
// running containers, too.
package podlogs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

const (
	// maxFile is the size at which a file is rotated; the previously rotated file is
	// deleted then. So a run uses at most twice as much.
	maxFile = 10 << 20
	// maxLine is how much of a line is in one entry, as in other runtimes.
	maxLine = 16 << 10
	format  = time.RFC3339Nano
)

// Store is the folder of all logs.
type Store struct {
	dir string
	// Left is what could not be removed of an earlier process; nil if nothing.
	Left  error
	limit int64
	now   func() time.Time

	mu   sync.Mutex // guards runs
	runs map[string]*Log
}

// Open creates the folder, and removes or moves away what an earlier process left
// in it: its Pods have ended with it.
func Open(dir string, now func() time.Time) (*Store, error) {
	s := &Store{dir: dir, Left: filetree.Discard(dir), limit: maxFile, now: now, runs: map[string]*Log{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder for logs of Pods: %w", err)
	}
	return s, nil
}

// Log is the log of one run of a container.
type Log struct {
	path  string
	limit int64
	now   func() time.Time

	mu      sync.Mutex // guards the fields below
	file    *os.File
	size    int64
	rotated int           // the number of rotations
	changed chan struct{} // closed by the next entry, or the end
	ended   bool
	last    []string // the latest lines, to show why it exited
	lost    error    // why lines are no longer stored
}

func key(pod, container string, run int) string { return fmt.Sprintf("%s/%s/%d", pod, container, run) }

// Begin creates the log of a run. The previous log is kept, and earlier ones are
// deleted. A Pod is identified by a unique name.
func (s *Store) Begin(pod, container string, run int) (*Log, error) {
	dir := filepath.Join(s.dir, pod, container)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder for logs: %w", err)
	}
	name := filepath.Join(dir, fmt.Sprintf("%d.log", run))
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin a log: %w", err)
	}
	l := &Log{path: name, limit: s.limit, now: s.now, file: file, changed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs[key(pod, container, run)] = l
	if old, ok := s.runs[key(pod, container, run-2)]; ok {
		delete(s.runs, key(pod, container, run-2))
		return l, old.remove()
	}
	return l, nil
}

// Find returns the log of a run; nil if not found.
func (s *Store) Find(pod, container string, run int) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[key(pod, container, run)]
}

// Remove deletes all logs of a Pod.
func (s *Store) Remove(pod string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for k, l := range s.runs {
		if strings.HasPrefix(k, pod+"/") {
			errs = append(errs, l.End())
			delete(s.runs, k)
		}
	}
	return errors.Join(append(errs, filetree.Discard(filepath.Join(s.dir, pod)))...)
}

func (l *Log) remove() error {
	return errors.Join(l.End(), os.RemoveAll(l.path), os.RemoveAll(l.aside()))
}

func (l *Log) aside() string { return l.path + ".1" }

// Copy stores everything that a stream, stdout or stderr, contains until it ends.
// It never stops reading for lack of space: the container would block as well.
func (l *Log) Copy(stream string, from io.Reader) {
	r := bufio.NewReaderSize(from, maxLine)
	for {
		line, partial, err := r.ReadLine()
		if len(line) > 0 || err == nil {
			l.add(stream, line, partial)
		}
		if err != nil {
			return
		}
	}
}

func (l *Log) add(stream string, line []byte, partial bool) {
	tag := "F"
	if partial {
		tag = "P"
	}
	entry := fmt.Appendf(nil, "%s %s %s ", l.now().UTC().Format(format), stream, tag)
	entry = append(append(entry, line...), '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	l.remember(string(line))
	if l.size > 0 && l.size+int64(len(entry)) > l.limit {
		l.lost = l.rotate()
	}
	if l.lost == nil {
		n, err := l.file.Write(entry)
		l.size += int64(n)
		l.lost = err
	} else {
		l.lost = l.rotate() // there may be space again
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// rotate rotates the file and starts a new one.
func (l *Log) rotate() error {
	if err := os.Rename(l.path, l.aside()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_ = l.file.Close() // its content is written
	l.file, l.size = file, 0
	l.rotated++
	return nil
}

// The end of a container's output is shown where space is limited.
const (
	lastLines = 5
	lastBytes = 1 << 10
)

func (l *Log) remember(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	l.last = append(l.last, line)
	if len(l.last) > lastLines {
		l.last = l.last[1:]
	}
}

// Last returns the latest lines, a kilobyte at most.
func (l *Log) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := strings.Join(l.last, "\n")
	return text[max(0, len(text)-lastBytes):]
}

// End marks the end of the log.
func (l *Log) End() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	l.ended = true
	close(l.changed)
	return l.file.Close()
}
