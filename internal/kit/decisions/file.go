// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	// format is the first line of a file, with the key of its hashes.
	format = 1

	// flushAfter is how long a decision may wait to be written with later ones. A
	// process that is killed loses them; no decision depends on them.
	flushAfter = 5 * time.Second

	// maxFile is the size at which a file is replaced by the decisions in memory.
	maxFile = 2 * maxTotal

	// maxLine is the size of a decision in a file, in bytes.
	maxLine = maxInputs + maxPlan + maxError + 16<<10
)

// header is the first line of a file.
type header struct {
	Decisions int    `json:"decisions"` // the format
	Key       []byte `json:"key"`
}

// file appends decisions to a file. A nil file keeps nothing.
type file struct {
	path    string
	log     logr.Logger
	rewrite func() error

	mu      sync.Mutex // guards the fields below
	pending []byte
	timer   *time.Timer // nil: nothing is pending

	writing sync.Mutex // held while the file is written; guards the fields below
	written int        // its size
	failed  bool       // the last write failed, and was logged
}

// Keep reads the decisions of earlier processes from a file, and keeps later ones there.
// Only the owner may read the file. It must be called before decisions are recorded.
// A file that cannot be read is replaced, and invalid lines are ignored: nothing depends
// on recorded decisions. Close writes the rest.
func (r *Recorder) Keep(path string, log logr.Logger) {
	ignored, err := r.load(path)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		log.Info("Ignoring the recorded decisions of earlier processes", "file", path, "reason", err.Error())
	case ignored > 0:
		log.Info("Ignoring invalid records of earlier decisions", "file", path, "lines", ignored)
	}
	f := &file{path: path, log: log}
	f.rewrite = func() error { return r.rewrite(f) }
	if err := f.rewrite(); err != nil {
		log.Info("Recording decisions in memory only", "file", path, "reason", err.Error())
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.file = f
}

// load reads the decisions of a file, and returns how many lines are invalid.
func (r *Recorder) load(path string) (ignored int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewReaderSize(io.LimitReader(f, maxFile+maxTotal), maxLine)
	first, err := lines.ReadSlice('\n')
	var h header
	if err != nil || json.Unmarshal(first, &h) != nil || h.Decisions != format || len(h.Key) != len(r.key) {
		return 0, fmt.Errorf("it does not start with the header of format %d", format)
	}
	r.key = h.Key
	for {
		line, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			ignored++
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = lines.ReadSlice('\n')
			}
		case err == nil:
			if !r.restore(bytes.Clone(bytes.TrimSpace(line))) {
				ignored++
			}
		case len(line) > 0:
			ignored++ // it was cut
		}
		if errors.Is(err, io.EOF) {
			return ignored, nil
		}
		if err != nil {
			return ignored, err
		}
	}
}

// restore adds a decision of a file.
func (r *Recorder) restore(entry []byte) bool {
	d, err := Read(entry)
	if err != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var facts struct { // of facts that are Naming
		Names []string
		Name  string
	}
	_ = json.Unmarshal(d.Facts, &facts) // others have neither
	r.insert(d, entry, last{digest: d.digest(append(facts.Names, facts.Name))})
	return true
}

// rewrite replaces the file by the decisions in memory.
func (r *Recorder) rewrite(f *file) error {
	first, err := json.Marshal(header{format, r.key})
	if err != nil {
		return err
	}
	r.mu.Lock()
	entries := r.find(func(Object) bool { return true })
	f.take() // they are among the entries
	r.mu.Unlock()
	content := append(first, '\n')
	for _, entry := range entries {
		content = append(append(content, entry...), '\n')
	}
	f.written = len(content)
	return atomicfile.Write(f.path, content)
}

// append has a decision written soon.
func (f *file) append(entry []byte) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pending = append(append(f.pending, entry...), '\n')
	if f.timer == nil {
		f.timer = time.AfterFunc(flushAfter, recovery.Func(context.Background(), f.flush))
	}
}

// take returns what is not written yet.
func (f *file) take() []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer != nil {
		f.timer.Stop()
	}
	pending := f.pending
	f.pending, f.timer = nil, nil
	return pending
}

// flush writes what is pending. A failure is logged once; the decisions stay in memory.
func (f *file) flush() {
	f.writing.Lock()
	defer f.writing.Unlock()
	pending := f.take()
	if len(pending) == 0 {
		return
	}
	var err error
	if f.written += len(pending); f.written > maxFile {
		err = f.rewrite()
	} else {
		err = write(f.path, pending)
	}
	if err != nil && !f.failed {
		f.log.Info("Decisions are not kept over a restart", "file", f.path, "reason", err.Error())
	}
	f.failed = err != nil
}

func write(path string, content []byte) error {
	to, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = to.Write(content)
	return errors.Join(err, to.Close())
}

// Close writes what is not written yet.
func (r *Recorder) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	f := r.file
	r.mu.Unlock()
	if f != nil {
		f.flush()
	}
}
