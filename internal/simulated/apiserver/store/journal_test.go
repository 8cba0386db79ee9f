// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

// load reads all records of a file.
func load(path string) (records []store.Record, err error) {
	err = store.FileAt(path, logr.Discard()).Load(func(r store.Record) error {
		records = append(records, r)
		return nil
	})
	return records, err
}

func record(name string) store.Record {
	return store.Record{Version: 7, Resource: "pods", Namespace: "ns", Name: name, Object: []byte(`{"a":"b"}`)}
}

func TestRecordsComeBackInOrder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	if got, err := load(path); err != nil || got != nil {
		t.Errorf("of no file: %v, error %v", got, err)
	}
	j := store.FileAt(path, logr.Discard())
	want := []store.Record{record("a"), record("b"), {Version: 9, Resource: "pods", Namespace: "ns", Name: "a"}}
	for _, r := range want {
		if err := j.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() <= j.Size() || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, error %v: want %d bytes and a first line, for its owner alone", info, err, j.Size())
	}
	if err := j.Rewrite(want[1:2]); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(want[2]); err != nil {
		t.Fatal(err)
	}
	if got, err = load(path); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[1:], got); diff != "" {
		t.Errorf("after rewriting (-want +got):\n%s", diff)
	}
}

// written is a file of three records, and where each line of it ends.
func written(t *testing.T) (content []byte, ends []int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j")
	j := store.FileAt(path, logr.Discard())
	for _, name := range []string{"a", "b", "c"} {
		if err := j.Append(record(name)); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range content {
		if c == '\n' {
			ends = append(ends, i+1)
		}
	}
	return content, ends
}

// reload reads content, and reads it again if it was valid: what was dropped must
// not be there any longer, and what follows it is kept.
func reload(t *testing.T, content []byte) ([]store.Record, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "j")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := load(path)
	if err != nil {
		if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v, want one that says what is damaged", err)
		}
		return got, err
	}
	j := store.FileAt(path, logr.Discard())
	records := slices.Clone(got)
	if err := j.Load(func(store.Record) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if j.Size() > int64(len(content)) { // as the store does with a file of the old form
		if err := j.Rewrite(records); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Append(record("next")); err != nil {
		t.Fatal(err)
	}
	again, err := load(path)
	if diff := cmp.Diff(append(records, record("next")), again); diff != "" || err != nil {
		t.Errorf("after the next record, error %v (-want +got):\n%s", err, diff)
	}
	return got, nil
}

func TestLossOfAcknowledgedWritesIsReported(t *testing.T) {
	t.Parallel()
	content, ends := written(t)
	for n := range content {
		if _, err := reload(t, content[:n]); err == nil {
			t.Errorf("cut to %d bytes of %d (lines end at %v): not told", n, len(content), ends)
		}
		flipped := bytes.Clone(content)
		flipped[n] ^= 1
		if _, err := reload(t, flipped); err == nil {
			t.Errorf("a bit changed at %d (lines end at %v): not told", n, ends)
		}
	}
	for name, damaged := range map[string][]byte{
		"a record taken out":  slices.Concat(content[:ends[0]], content[ends[1]:]),
		"a record twice":      slices.Concat(content[:ends[1]], content[ends[0]:ends[1]], content[ends[2]:]),
		"two records swapped": slices.Concat(content[:ends[0]], content[ends[1]:ends[2]], content[ends[0]:ends[1]], content[ends[2]:]),
		"no first line":       content[ends[0]:],
		"rubbish":             []byte("rubbish"),
	} {
		if _, err := reload(t, damaged); err == nil {
			t.Errorf("%s: not told", name)
		}
	}
	_, err := reload(t, content[:ends[1]])
	if err == nil || !strings.HasSuffix(err.Error(), "the file is damaged: the last 2 of 3 records are missing") {
		t.Errorf("error %v, want it to say how much is missing", err)
	}
}

// A process that is killed leaves a record that was not acknowledged to any client,
// or a part of one.
func TestWhatWasNotAcknowledgedIsDropped(t *testing.T) {
	t.Parallel()
	content, ends := written(t)
	for n := range ends[1] - ends[0] {
		got, err := reload(t, slices.Concat(content, content[ends[0]:ends[0]+n+1]))
		if err != nil || len(got) != 3 {
			t.Errorf("%d bytes too many: %d records, error %v, want 3", n+1, len(got), err)
		}
	}
}

func TestFilesWithoutChecksumsAreRead(t *testing.T) {
	t.Parallel()
	const whole = `{"version":2,"resource":"pods","namespace":"ns","name":"a"}` + "\n"
	tests := map[string]struct {
		content string
		want    int // records
		err     string
	}{
		"whole":                    {whole + whole, 2, ""},
		"half a line at the end":   {whole + whole[:20], 1, ""},
		"only half a line":         {whole[:20], 0, ""},
		"a broken line before one": {whole + "rubbish\n" + whole, 1, "line 2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := reload(t, []byte(tc.content))
			if len(got) != tc.want || (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%d records, error %v, want %d and %q", len(got), err, tc.want, tc.err)
			}
		})
	}
}

func TestARecordThatCannotBeWrittenLeavesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "j")
	j := store.FileAt(path, logr.Discard())
	bad := store.Record{Version: 1, Name: "a", Object: []byte("{")}
	if err := j.Append(record("a")); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(bad); err == nil {
		t.Error("a record that is no JSON was written")
	}
	if got, err := load(path); err != nil || len(got) != 1 {
		t.Errorf("%d records, error %v, want 1", len(got), err)
	}
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := load(t.TempDir()); err == nil {
		t.Error("a folder was read as a journal")
	}
}

func TestUnsyncedWritesAreReportedOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "objects.jsonl")
	f := store.FileAt(path, logr.Discard())
	told := 0
	f.Follow(func() { told++ })
	if err := f.Sync(); err != nil || told != 0 {
		t.Errorf("before anything was written: told %d times, %v", told, err)
	}
	for round := 1; round <= 2; round++ {
		for range 3 {
			if err := f.Append(store.Record{}); err != nil {
				t.Fatal(err)
			}
		}
		if told != round {
			t.Errorf("told %d times, want %d", told, round)
		}
		if err := f.Sync(); err != nil {
			t.Error(err)
		}
	}
	if err := f.Append(store.Record{}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Errorf("of one that was removed: %v", err)
	}
}

func TestAJournalOfALaterVersionIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "objects.jsonl")
	if err := os.WriteFile(path, []byte("capstan-journal-2 in another form\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := store.FileAt(path, logr.Discard()).Load(func(store.Record) error { return nil })
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), `a later version of this program has written it, in form "2"`) {
		t.Errorf("got %v", err)
	}
}
