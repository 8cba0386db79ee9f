// SPDX-License-Identifier: Apache-2.0

// Package journal keeps the changes of a simulated cluster in a file, one JSON
// document a line, so that the cluster is there again after the process was
// stopped, or killed. It does not sync: it survives the process, not the host.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/internal/access/simulated/apiserver/store"
)

// File is a journal in one file. It holds the file open only while it reads or
// writes, so that thousands of idle clusters need no file descriptors. It
// belongs to one store, whose lock guards it.
type File struct {
	path string
	log  logr.Logger
	size int64
}

// At returns the journal kept at path, which need not exist yet.
func At(path string, log logr.Logger) *File { return &File{path: path, log: log} }

// Size is how much has been written.
func (f *File) Size() int64 { return f.size }

// Load gives apply every record. A last line that was not written to its end
// is dropped; a line before it that cannot be read is an error, for what comes
// after it may rest on it.
func (f *File) Load(apply func(store.Record) error) error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	r := bufio.NewReaderSize(file, 64<<10)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return f.dropTail(line)
		}
		if err != nil {
			return err
		}
		var rec store.Record
		if err := json.Unmarshal(line, &rec); err != nil {
			return fmt.Errorf("%s line %d: %w", f.path, n, err)
		}
		if err := apply(rec); err != nil {
			return fmt.Errorf("%s line %d: %w", f.path, n, err)
		}
		f.size += int64(len(line))
	}
}

func (f *File) dropTail(tail []byte) error {
	if len(tail) == 0 {
		return nil
	}
	f.log.Info("Dropping the unfinished last line of a journal", "path", f.path, "bytes", len(tail))
	return os.Truncate(f.path, f.size)
}

// Append writes one record. When it cannot be written to its end, nothing of
// it stays.
func (f *File) Append(rec store.Record) error {
	line, err := encode(nil, rec)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(line)
	if err != nil {
		err = errors.Join(err, file.Truncate(f.size))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	f.size += int64(len(line))
	return nil
}

// Rewrite replaces the file by one that holds records, in one step.
func (f *File) Rewrite(records []store.Record) error {
	var all []byte
	var err error
	for _, rec := range records {
		if all, err = encode(all, rec); err != nil {
			return err
		}
	}
	next := f.path + ".new"
	if err := os.WriteFile(next, all, 0o600); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := os.Rename(next, f.path); err != nil {
		return err
	}
	f.size = int64(len(all))
	return nil
}

// encode appends rec as one line. The object in it is JSON already, and is
// made one line by compacting it.
func encode(to []byte, rec store.Record) ([]byte, error) {
	b, err := json.Marshal(rec)
	if err != nil {
		return nil, err
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		return nil, errors.New("a record must be one line")
	}
	return append(append(to, b...), '\n'), nil
}
