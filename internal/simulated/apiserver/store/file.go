// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"sync/atomic"

	"github.com/go-logr/logr"
)

// ErrDamaged means that something which was kept cannot be read any more.
var ErrDamaged = errors.New("the file is damaged")

// File is a journal in one file. It holds the file open only while it reads or
// writes, so that thousands of idle clusters need no file descriptors. It
// belongs to one store, whose lock guards it.
type File struct {
	path string
	log  logr.Logger
	kept kept
	old  bool // without checksums, as long as nothing is written

	follow func() // called when there is something to sync that was not before; nil if nothing ever is
	behind atomic.Bool
}

// kept is the content of the first line.
type kept struct {
	records int
	bytes   int64 // of the records
	sum     uint32
}

const (
	headerFormat = magic + "1 %010d %015d %08x"
	magic        = "capstan-journal-"
)

// headerSize is that of the first line: it is written over in place.
var headerSize = int64(len(kept{}.header()))

func (k kept) header() []byte {
	text := fmt.Appendf(nil, headerFormat, k.records, k.bytes, k.sum)
	return fmt.Appendf(text, " %08x\n", checksum(0, text))
}

// with is what is kept once a line has been added.
func (k kept) with(line []byte, sum uint32) kept {
	return kept{records: k.records + 1, bytes: k.bytes + int64(len(line)), sum: sum}
}

// FileAt returns the journal kept at path, which need not exist yet.
func FileAt(path string, log logr.Logger) *File { return &File{path: path, log: log} }

// Follow has told called when there is something to sync that was not before. Call it
// before anything else, if ever.
func (f *File) Follow(told func()) { f.follow = told }

// Sync has all that was added on the disk before it returns.
func (f *File) Sync() error {
	if !f.behind.Swap(false) {
		return nil
	}
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // reset
	}
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// Size is how much has been written. A file of the old form is larger than
// any, so that it is rewritten before anything is added.
func (f *File) Size() int64 {
	if f.old {
		return math.MaxInt64
	}
	return f.kept.bytes
}

// Load gives apply every record. What was not acknowledged is dropped; a loss
// of anything else is ErrDamaged, for what is left may rest on it.
func (f *File) Load(apply func(Record) error) error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read
	r := bufio.NewReaderSize(file, 64<<10)
	if first, err := r.Peek(1); err == nil && first[0] == '{' {
		return f.loadOld(r, apply)
	}
	first, err := r.ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var want kept
	if _, err := fmt.Sscanf(string(first), headerFormat, &want.records, &want.bytes, &want.sum); err != nil || !bytes.Equal(first, want.header()) {
		if version, _, _ := bytes.Cut(bytes.TrimPrefix(first, []byte(magic)), []byte(" ")); bytes.HasPrefix(first, []byte(magic)) && string(version) != "1" {
			return f.damaged("a later version of this program has written it, in form %q: start that one", version)
		}
		return f.damaged("its first line does not say how many records it holds")
	}
	for f.kept.records < want.records {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return f.damaged("the last %d of %d records are missing", want.records-f.kept.records, want.records)
		}
		if err != nil {
			return err
		}
		rec, sum, ok := decode(f.kept.sum, line)
		if !ok {
			return f.damaged("record %d of %d is not what was written", f.kept.records+1, want.records)
		}
		if err := apply(rec); err != nil {
			return f.damaged("record %d of %d: %w", f.kept.records+1, want.records, err)
		}
		f.kept = f.kept.with(line, sum)
	}
	if f.kept != want {
		return f.damaged("the %d records are not those that were written", want.records)
	}
	tail, err := io.Copy(io.Discard, r)
	if err != nil || tail == 0 {
		return err
	}
	f.log.Info("Dropping the unfinished end of a journal", "path", f.path, "bytes", tail)
	return os.Truncate(f.path, headerSize+want.bytes)
}

// loadOld reads a file of lines without checksums. That its end was lost can
// only be seen where the last line is not whole, which is as the process ended.
func (f *File) loadOld(r *bufio.Reader, apply func(Record) error) error {
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			f.old = true // and stays as it is until it is rewritten
			return nil
		}
		if err != nil {
			return err
		}
		var rec Record
		err = json.Unmarshal(line, &rec)
		if err == nil {
			err = apply(rec)
		}
		if err != nil {
			return f.damaged("line %d: %w", n, err)
		}
	}
}

func (f *File) damaged(format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w", f.path, ErrDamaged, fmt.Errorf(format, args...))
}

// Append writes one record. When it cannot be written to its end, nothing of
// it stays.
func (f *File) Append(rec Record) error {
	if f.old {
		return fmt.Errorf("%s: a journal without checksums must be rewritten before anything is added", f.path)
	}
	if f.kept.records == 0 {
		return f.Rewrite([]Record{rec}) // so that the file is never there without its first line
	}
	line, sum, err := encode(nil, f.kept.sum, rec)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	next, end := f.kept.with(line, sum), headerSize+f.kept.bytes
	if _, err = file.WriteAt(line, end); err == nil {
		_, err = file.WriteAt(next.header(), 0)
	}
	if err != nil {
		err = errors.Join(err, file.Truncate(end))
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	f.kept = next
	f.changed()
	return nil
}

// write creates a file that can replace another one.
func (f *File) write(name string, data []byte) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil && f.follow != nil && (f.kept.records > 0 || f.old) {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// changed records that there is something to sync.
func (f *File) changed() {
	if !f.behind.Swap(true) && f.follow != nil {
		f.follow()
	}
}

// Rewrite replaces the file by one that holds records, in one step.
func (f *File) Rewrite(records []Record) error {
	var k kept
	all := k.header()
	for _, rec := range records {
		before := len(all)
		var sum uint32
		var err error
		if all, sum, err = encode(all, k.sum, rec); err != nil {
			return err
		}
		k = k.with(all[before:], sum)
	}
	copy(all, k.header())
	next := f.path + ".new"
	if err := f.write(next, all); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	if err := os.Rename(next, f.path); err != nil {
		return err
	}
	f.kept, f.old = k, false
	f.changed()
	return nil
}

var checksums = crc32.MakeTable(crc32.Castagnoli)

func checksum(before uint32, data []byte) uint32 { return crc32.Update(before, checksums, data) }

// encode appends rec as one line, and returns the checksum up to it. The object in
// it is JSON already, and is compacted to one line.
func encode(to []byte, before uint32, rec Record) ([]byte, uint32, error) {
	b, err := json.Marshal(rec)
	if err != nil {
		return nil, 0, err
	}
	if bytes.IndexByte(b, '\n') >= 0 {
		return nil, 0, errors.New("a record must be one line")
	}
	sum := checksum(before, b)
	to = fmt.Appendf(to, "%08x ", sum)
	return append(append(to, b...), '\n'), sum, nil
}

func decode(before uint32, line []byte) (rec Record, sum uint32, ok bool) {
	text, b, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
	sum = checksum(before, b)
	ok = found && string(text) == fmt.Sprintf("%08x", sum) && json.Unmarshal(b, &rec) == nil
	return rec, sum, ok
}
