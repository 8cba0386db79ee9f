// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

func TestChaosRefusesFlagsThatContradict(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--stop --seed 1":                   "--stop goes without --seed",
		"--stop --repeat x":                 "--stop goes without --repeat",
		"--stop --dry-run":                  "--stop goes without --dry-run",
		"--repeat x --for 1m":               "--repeat goes without --for",
		"--repeat x --cluster a":            "--repeat goes without --cluster",
		"-A -n fleet":                       "--all-namespaces goes without --namespace",
		"--for 4s":                          "--for 4s is too short: give 5s or more",
		"--every 99ms":                      "--every 99ms is too often: give 100ms or more",
		"--for 24h1s --every 100ms":         "has too many incidents: give --every 100.001157ms or more",
		"--for 1000000h --every 1h":         "has too many incidents",
		"--cluster=":                        "--cluster without a value",
		"--record=":                         "--record without a value",
		"extra":                             "unknown command",
		"--for 1m --kubeconfig-context= -A": "--kubeconfig-context without a value",
	} {
		_, err := execute(args)
		if !errors.As(err, new(command.UsageError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want misuse with %q", args, err, want)
		}
	}
}

// execute runs chaos without a management cluster.
func execute(args string) (string, error) {
	var out bytes.Buffer
	cmd := newChaos(&command.Env{Out: &out, Err: &out, LookupEnv: func(string) (string, bool) { return "", false }})
	cmd.SetArgs(strings.Fields(args))
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.Execute()
	return out.String(), err
}

// TestRecordsThatCannotBeRepeatedAreRefused: a record is a file that others may have
// written, and a plan of it must end.
func TestRecordsThatCannotBeRepeatedAreRefused(t *testing.T) {
	t.Parallel()
	const clusters = `"clusters":[{"namespace":"ns","name":"demo"}]`
	for name, tc := range map[string]struct{ text, want string }{
		"a run":             {`{"seed":1,"for":"1m","every":"1s",` + clusters + "}\n", ""},
		"without steps":     {`{"seed":1,"for":"1m","every":"1s"}` + "\n", "is no record of an earlier run"},
		"without a line":    {`{"seed":1,"for":"1m","every":"1s",` + clusters + "}", "is no record of an earlier run"},
		"no JSON":           {"seed: 1\n", "is no record of an earlier run"},
		"empty":             {"", "is no record of an earlier run"},
		"without a pause":   {`{"seed":1,"for":"1m","every":"0s",` + clusters + "}\n", "is too often"},
		"more than pauses":  {`{"seed":1,"for":"2000000h","every":"1ns",` + clusters + "}\n", "is too often"},
		"without an end":    {`{"seed":1,"for":"2000000h","every":"1s",` + clusters + "}\n", "has too many incidents"},
		"without a time":    {`{"seed":1,"every":"1s",` + clusters + "}\n", "is too short"},
		"an endless header": {strings.Repeat(" ", maxHeader+1) + "\n", "is no record of an earlier run"},
	} {
		file := filepath.Join(t.TempDir(), "record.jsonl")
		if err := os.WriteFile(file, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := readHeader(file)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) || err == nil && len(h.Clusters) != 1 {
			t.Errorf("%s: %v, error %v, want %q", name, h.Clusters, err, tc.want)
		}
	}
	if _, err := readHeader(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: error %v", err)
	}
}

func TestRecordIsNotWrittenOverAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "new", "record.jsonl")
	r, err := newRecord(file, header{Plane: "https://x"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.add(entry{Outcome: done}), r.Close()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	before, err := os.ReadFile(file)
	if err != nil || bytes.Count(before, []byte("\n")) != 2 {
		t.Fatalf("%q, %v", before, err)
	}
	if _, err := newRecord(file, header{}); !errors.Is(err, os.ErrExist) {
		t.Errorf("again: error %v", err)
	}
	if _, err := newRecord(filepath.Join(file, "below"), header{}); err == nil || !strings.HasPrefix(err.Error(), "make the folder of the record: ") {
		t.Errorf("below a file: error %v", err)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("it is %q now, %v", after, err)
	}
}
