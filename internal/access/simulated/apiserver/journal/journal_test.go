// SPDX-License-Identifier: Apache-2.0

package journal_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/capstan-dev/capstan/internal/access/simulated/apiserver/journal"
	"github.com/capstan-dev/capstan/internal/access/simulated/apiserver/store"
)

// load reads all records of a file.
func load(path string) (records []store.Record, err error) {
	err = journal.At(path, logr.Discard()).Load(func(r store.Record) error {
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
	j := journal.At(path, logr.Discard())
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
	if err != nil || info.Size() != j.Size() || info.Mode().Perm() != 0o600 {
		t.Errorf("file %v, error %v: want %d bytes for its owner alone", info, err, j.Size())
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

func TestDamageAtTheEndIsDroppedAndElsewhereTold(t *testing.T) {
	t.Parallel()
	const whole = `{"version":2,"resource":"pods","namespace":"ns","name":"a"}` + "\n"
	tests := map[string]struct {
		content string
		want    int // records
		err     string
	}{
		"half a line at the end":   {whole + whole[:20], 1, ""},
		"only half a line":         {whole[:20], 0, ""},
		"a broken line before one": {whole + "rubbish\n" + whole, 1, "line 2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "j")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := load(path)
			if len(got) != tc.want || (err != nil) != (tc.err != "") {
				t.Fatalf("%d records, error %v, want %d and %q", len(got), err, tc.want, tc.err)
			}
			if err != nil {
				if !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), path) {
					t.Errorf("error %v, want the path and %s", err, tc.err)
				}
				return
			}
			if again, err := load(path); err != nil || len(again) != tc.want {
				t.Errorf("loaded again: %d records, error %v", len(again), err)
			}
			if left, err := os.ReadFile(path); err != nil || strings.Count(string(left), "\n") != tc.want || len(left) > len(whole)*tc.want {
				t.Errorf("the file holds %q, error %v", left, err)
			}
		})
	}
}

func TestAFileThatCannotBeReadIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := load(t.TempDir()); err == nil {
		t.Error("a folder was read as a journal")
	}
}
