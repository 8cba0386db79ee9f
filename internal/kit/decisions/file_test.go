// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
)

var discard = logr.Discard()

// logged returns a log and its lines.
func logged() (logr.Logger, *[]string) {
	var lines []string
	return funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}), &lines
}

func TestDecisionsAreKeptOverRestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions")
	log, lines := logged()
	first := New()
	first.Keep(path, log)
	Add(reconcile(t, first, "a", 0), facts{Token: "abcdef.0123456789abcdef"}, creating("1"))
	first.Close()
	second := New()
	second.Keep(path, log)
	if diff := cmp.Diff(all(t, first), all(t, second)); diff != "" {
		t.Errorf("decisions after a restart (-want +got):\n%s", diff)
	}
	Add(reconcile(t, second, "a", 1), facts{Token: "abcdef.0123456789abcdef"}, creating("1"))
	if n, _ := second.Size(); n != 1 {
		t.Errorf("a restart recorded the same decision again: %s", second.All())
	}
	Add(reconcile(t, second, "a", 1), facts{Token: "abcdef.0123456789abcdef"}, creating("2"))
	if d := all(t, second); len(d) != 2 || !bytes.Equal(d[0].Facts, d[1].Facts) {
		t.Errorf("the hash of a secret changed by a restart: %s", second.All())
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	if len(*lines) > 0 {
		t.Errorf("logged %q", *lines)
	}
}

func TestKeepIgnoresInvalidFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions")
	r := New()
	r.Keep(path, discard)
	Add(reconcile(t, r, "a", 0), facts{}, creating("1"))
	Add(reconcile(t, r, "b", 0), facts{}, creating("1"))
	r.Close()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		content string
		want    int
		logs    string
	}{
		"as it was":         {string(good), 2, ""},
		"cut":               {string(good[:len(good)-20]), 1, `"lines"=1`},
		"a forged line":     {string(good) + "{\"object\":{}}\nnone\n[]\n\n", 2, `"lines"=4`},
		"a long line":       {string(good) + strings.Repeat("x", 3*maxLine) + "\n" + string(bytes.SplitAfter(good, []byte("\n"))[1]), 3, `"lines"=1`},
		"empty":             {"", 0, "header of format 1"},
		"another format":    {`{"decisions":2}` + "\n", 0, "header of format 1"},
		"no file of ours":   {strings.Repeat("\x00", 1<<16), 0, "header of format 1"},
		"without line feed": {strings.TrimSpace(string(good)), 1, `"lines"=1`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "decisions")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			log, lines := logged()
			r := New()
			r.Keep(path, log)
			if n, _ := r.Size(); n != tc.want || strings.Join(*lines, "\n") != "" && tc.logs == "" || len(*lines) > 1 || !strings.Contains(strings.Join(*lines, ""), tc.logs) {
				t.Errorf("%d decisions, logged %q; want %d, %q", n, *lines, tc.want, tc.logs)
			}
			Add(reconcile(t, r, "c", 0), facts{}, creating("1"))
			r.Close()
			after := New()
			after.Keep(path, log)
			if n, _ := after.Size(); n != tc.want+1 {
				t.Errorf("%d decisions after the next restart, want %d", n, tc.want+1)
			}
		})
	}
}

func TestKeepRecordsInMemoryWithoutFolder(t *testing.T) {
	t.Parallel()
	log, lines := logged()
	r := New()
	r.Keep(filepath.Join(t.TempDir(), "none", "decisions"), log)
	Add(reconcile(t, r, "a", 0), facts{}, creating("1"))
	r.Close()
	if n, _ := r.Size(); n != 1 || len(*lines) != 1 || !strings.Contains((*lines)[0], "Recording decisions in memory only") {
		t.Errorf("%d decisions, logged %q", n, *lines)
	}
}

func TestFileIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions")
	r := New()
	r.Keep(path, discard)
	r.file.written = maxFile // as after many decisions
	Add(reconcile(t, r, "a", 0), facts{}, creating("1"))
	r.Close()
	content, err := os.ReadFile(path)
	if want := 2; err != nil || bytes.Count(content, []byte("\n")) != want || r.file.written != len(content) {
		t.Errorf("the file has %d bytes (%d counted), want %d lines (%v)", len(content), r.file.written, want, err)
	}
}

func TestWritesFailOnlyOnceInLog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log, lines := logged()
	r := New()
	r.Keep(filepath.Join(dir, "decisions"), log)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		Add(reconcile(t, r, "a", 0), facts{}, creating(fmt.Sprint(i)))
		r.Close()
	}
	if n, _ := r.Size(); n != 3 || len(*lines) != 1 {
		t.Errorf("%d decisions, logged %q", n, *lines)
	}
}

func TestReplacedFileHasDecisionsOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "decisions")
	r := New()
	r.Keep(path, discard)
	Add(reconcile(t, r, "a", 0), facts{}, creating("1"))
	if err := r.file.rewrite(); err != nil { // before the decision was appended
		t.Fatal(err)
	}
	r.Close()
	after := New()
	after.Keep(path, discard)
	if n, _ := after.Size(); n != 1 {
		t.Errorf("%d decisions after a restart: %s", n, after.All())
	}
}
