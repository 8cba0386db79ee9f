// SPDX-License-Identifier: Apache-2.0

package history

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/kit/decisions"
)

// same are decisions that this version makes as they are recorded.
func same() []decisions.Decision {
	return []decisions.Decision{
		decision(0, `{"Want":2,"Names":["a","b"]}`, `["create a: have 0, want 2","create b: have 0, want 2"]`),
		decision(1, `{"Want":1,"Machines":[{"metadata":{"name":"a"}}]}`, `[]`),
	}
}

func encoded(t *testing.T, all []decisions.Decision) []byte {
	t.Helper()
	text, err := json.Marshal(decisions.List{Decisions: all})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// packed returns a tar.gz with one file.
func packed(t *testing.T, h tar.Header, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	if h.Typeflag == tar.TypeReg {
		h.Size = int64(len(content))
	}
	if err := files.WriteHeader(&h); err != nil {
		t.Fatal(err)
	}
	if h.Typeflag == tar.TypeReg {
		if _, err := files.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []io.Closer{files, zipped} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func TestReplayReportsDifferences(t *testing.T) {
	t.Parallel()
	other := decision(2, `{"Want":1,"Names":["a"]}`, `["create b: have 0, want 1"]`)
	failed := decision(3, `{"Want":1,"Names":["a"]}`, `["create a: have 0, want 1"]`)
	failed.Error = "it was impossible"
	unknown := decision(4, `{}`, `[]`)
	unknown.Planner = "future.Plan"
	unreadable := decision(5, `{"Want":"many"}`, `[]`)
	for name, tc := range map[string]struct {
		all     []decisions.Decision
		want    []string
		wantErr string
	}{
		"all are the same": {same(), []string{"2 decisions are the same, 0 differ, 0 skipped"}, ""},
		"none":             {[]decisions.Decision{}, []string{"0 decisions are the same"}, ""},
		"another plan":     {append(same(), other), []string{"MachineSet default/demo", "recorded: create b: have 0, want 1", "now: create a: have 0, want 1", "2 decisions are the same, 1 differ"}, "this version decides otherwise in 1 of 3 cases"},
		"another error":    {[]decisions.Decision{failed}, []string{"recorded: error: it was impossible"}, "this version decides otherwise in 1 of 1 cases"},
		"unknown planner":  {[]decisions.Decision{unknown}, []string{"planner future.Plan is unknown to this version", "0 differ, 1 skipped"}, ""},
		"unreadable facts": {[]decisions.Decision{unreadable}, []string{"decode facts: json: cannot unmarshal string", "1 skipped"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "decisions.json")
			if err := os.WriteFile(path, encoded(t, tc.all), 0o600); err != nil {
				t.Fatal(err)
			}
			env, out := environment()
			err := runReplay(t.Context(), env, path)
			if got := ""; err != nil && err.Error() != tc.wantErr || err == nil && got != tc.wantErr {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output has no %q:\n%s", want, out)
				}
			}
		})
	}
}

func TestReplayReadsReport(t *testing.T) {
	t.Parallel()
	text := encoded(t, same())
	zeros := bytes.Repeat([]byte(" "), 1<<20)
	for name, tc := range map[string]struct {
		content []byte
		want    int
		wantErr string
	}{
		"output of history":       {text, 2, ""},
		"report":                  {packed(t, tar.Header{Name: decisionsFile, Typeflag: tar.TypeReg}, text), 2, ""},
		"report without it":       {packed(t, tar.Header{Name: "x", Typeflag: tar.TypeReg}, text), 0, "it has no file decisions.json"},
		"outside of the archive":  {packed(t, tar.Header{Name: "../" + decisionsFile, Typeflag: tar.TypeReg}, text), 0, "it has no file decisions.json"},
		"link to a file":          {packed(t, tar.Header{Name: decisionsFile, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, nil), 0, "it has no file decisions.json"},
		"report that was cut":     {packed(t, tar.Header{Name: decisionsFile, Typeflag: tar.TypeReg}, text)[:40], 0, "unexpected EOF"},
		"empty":                   {nil, 0, "EOF"},
		"other JSON":              {[]byte(`{"items":[]}`), 0, "it has no list of decisions"},
		"text":                    {[]byte("decisions"), 0, "invalid character"},
		"more than a report has":  {packed(t, tar.Header{Name: "x", Typeflag: tar.TypeReg}, bytes.Repeat(zeros, maxReplayed>>20+1)), 0, "more than 256 MiB"},
		"deep nesting of objects": {[]byte(`{"decisions":[{"facts":` + strings.Repeat("[", 1<<20) + `}]}`), 0, "exceeded max depth"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := readFile(bytes.NewReader(tc.content))
			if len(all) != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("%d decisions, error %v; want %d, %q", len(all), err, tc.want, tc.wantErr)
			}
		})
	}
}
