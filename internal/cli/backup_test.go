// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/capstan-dev/capstan/internal/cli/command"
)

// vault is a program for planes whose backups are encrypted texts.
type vault struct{ saved bytes.Buffer }

func (v *vault) env(out io.Writer) *Env {
	return &Env{
		Env: command.Env{Out: out},
		Backup: func(_ context.Context, dir, file string, recipients ...age.Recipient) (Backup, error) {
			v.saved.Reset()
			if len(recipients) == 0 {
				_, err := fmt.Fprintf(&v.saved, "%s in %s", dir, file)
				return Backup{Bytes: 3 << 20}, err
			}
			w, err := age.Encrypt(&v.saved, recipients...)
			if err == nil {
				_, err = fmt.Fprintf(w, "%s in %s", dir, file)
				err = errors.Join(err, w.Close())
			}
			return Backup{Bytes: 3 << 20}, err
		},
		Restore: func(_, _ string, _ bool, identities ...age.Identity) (Backup, error) {
			b := Backup{Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Bytes: 1 << 20}
			if len(identities) == 0 {
				return b, nil
			}
			r, err := age.Decrypt(bytes.NewReader(v.saved.Bytes()), identities...)
			if err == nil {
				_, err = io.ReadAll(r)
			}
			return b, err
		},
	}
}

// keys writes the files of a user: a key, another one, and passphrases.
func keys(t *testing.T) (public, key, other, phrase, wrong string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ours, err := age.GenerateX25519Identity()
	theirs, otherErr := age.GenerateX25519Identity()
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	return ours.Recipient().String(), write("key", "# mine\n"+ours.String()+"\n"), write("other", theirs.String()), write("phrase", "correct horse\r\nsecond line"), write("wrong", "battery staple\n")
}

func TestBackupIsReadByItsRecipientsAlone(t *testing.T) {
	t.Parallel()
	public, key, other, phrase, wrong := keys(t)
	const restored = "Restored b of 2026-01-02T03:04:05Z: continue with \"capstan up --data-dir "
	for name, tc := range map[string]struct {
		backup, restore, out string
		status               int
		says                 string
	}{
		"in the clear":         {"", "", restored, 0, ""},
		"only checked":         {"", "--dry-run", "b is whole: of 2026-01-02T03:04:05Z, with a store of 1 MiB\n", 0, ""},
		"with a key":           {"--recipient " + public, "--identity " + key, restored, 0, ""},
		"with another key":     {"--recipient " + public, "--identity " + other, "", 1, "did not match any of the recipients"},
		"with a passphrase":    {"--passphrase-file " + phrase, "--passphrase-file " + phrase, restored, 0, ""},
		"with another":         {"--passphrase-file " + phrase, "--passphrase-file " + wrong, "", 1, "passphrase"},
		"with no file of keys": {"--recipient " + public, "--identity " + key + ".none", "", 1, "read keys: open "},
		"with a file of other": {"--recipient " + public, "--identity " + phrase, "", 1, "read keys of " + phrase},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var v vault
			var out bytes.Buffer
			dir := filepath.Join(t.TempDir(), "data")
			status, said := run(t.Context(), t, v.env(&out), strings.Fields("backup b --data-dir "+dir+" "+tc.backup)...)
			how := map[bool]string{true: "; the file grants administrator access to the plane and its clusters\n", false: ", encrypted\n"}[tc.backup == ""]
			if status != 0 || said != "" || out.String() != "Saved "+dir+" with a store of 3 MiB in b"+how || (v.saved.String() == dir+" in b") != (tc.backup == "") {
				t.Fatalf("backup: status %d, printed %q, said %q", status, out.String(), said)
			}
			out.Reset()
			status, said = run(t.Context(), t, v.env(&out), strings.Fields("restore b --data-dir "+dir+" "+tc.restore)...)
			if status != tc.status || !strings.HasPrefix(out.String(), tc.out) || tc.out == "" && out.Len() > 0 || !strings.Contains(said, tc.says) {
				t.Errorf("restore: status %d, printed %q, said %q", status, out.String(), said)
			}
		})
	}
}

func TestBackupRefusesWrongCommandLines(t *testing.T) {
	t.Parallel()
	public, key, _, phrase, _ := keys(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\nphrase\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, tc := range map[string]struct {
		status int
		says   string
	}{
		"backup":     {2, "accepts 1 arg(s), received 0"},
		"backup a b": {2, "accepts 1 arg(s), received 2"},
		"restore":    {2, "accepts 1 arg(s), received 0"},
		"backup a --recipient " + public + " --passphrase-file " + phrase: {2, "none of the others can be"},
		"restore a --identity " + key + " --passphrase-file " + phrase:    {2, "none of the others can be"},
		"backup a --recipient=":                          {2, "--recipient without a value"},
		"backup a --recipient age1nonsense":              {2, `--recipient "age1nonsense" is no public key of age: `},
		"backup a --recipient " + key:                    {2, "is no public key of age: "},
		"backup a --data-dir=":                           {2, "--data-dir without a value"},
		"backup a --passphrase-file " + empty:            {1, "read the passphrase: the first line of " + empty + " is empty"},
		"restore a --passphrase-file " + empty:           {1, "read the passphrase: the first line of " + empty + " is empty"},
		"restore a --passphrase-file " + empty + ".none": {1, "read the passphrase: open "},
	} {
		var v vault
		var out bytes.Buffer
		if status, said := run(t.Context(), t, v.env(&out), strings.Fields(args)...); status != tc.status || !strings.Contains(said, tc.says) || out.Len() > 0 || v.saved.Len() > 0 {
			t.Errorf("%s: status %d, said %q, printed %q; want status %d, %q", args, status, said, out.String(), tc.status, tc.says)
		}
	}
	for _, args := range []string{"backup a", "restore a", "up"} { // by a program for another system
		if status, said := run(t.Context(), t, &Env{Env: command.Env{Out: io.Discard}}, strings.Fields(args)...); status != 1 || !strings.Contains(said, "has no management plane in it") {
			t.Errorf("%s: status %d, said %q", args, status, said)
		}
	}
}
