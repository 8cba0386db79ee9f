// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/kit/sealedfile"
)

// forge creates a backup of a forged snapshot. Its checksum is right.
func forge(t *testing.T, change func(keys map[string][]byte), snapshot []byte) string {
	t.Helper()
	folder := pki.Folder{Dir: t.TempDir(), Now: time.Now}
	if err := os.Chmod(folder.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := folder.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	keys, err := folder.Lasting()
	if err != nil {
		t.Fatal(err)
	}
	change(keys)
	h := sealedfile.Header{Created: time.Now(), Contents: []sealedfile.Content{sealedfile.Bytes(snapshotName, snapshot)}}
	for name, b := range keys {
		h.Contents = append(h.Contents, sealedfile.Bytes(name, b))
	}
	var b bytes.Buffer
	if err := sealedfile.Write(&b, kind, h); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "forged")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// summed returns a snapshot with the checksum that etcd adds.
func summed(db []byte) []byte {
	sum := sha256.Sum256(db)
	return append(bytes.Clone(db), sum[:]...)
}

// buckets returns a database with these empty buckets.
func buckets(t *testing.T, names ...string) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *bbolt.Tx) error {
		for _, name := range names {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWhatIsForgedLeavesNothing(t *testing.T) {
	same := func(map[string][]byte) {}
	pages := buckets(t, "key", "meta")
	broken := bytes.Clone(pages)
	for i := 2 * 4096; i < len(broken); i++ {
		broken[i] ^= 0xff
	}
	tests := map[string]string{
		"no snapshot":             forge(t, same, nil),
		"a snapshot of nothing":   forge(t, same, summed(nil)),
		"zeros":                   forge(t, same, summed(make([]byte, 64<<10))),
		"noise":                   forge(t, same, summed(bytes.Repeat([]byte("noise..."), 8<<10))),
		"broken pages":            forge(t, same, summed(broken)),
		"a database of others":    forge(t, same, summed(buckets(t, "other"))),
		"a snapshot without sum":  forge(t, same, pages),
		"an authority of rubbish": forge(t, func(keys map[string][]byte) { keys["ca.crt"] = []byte("rubbish") }, summed(pages)),
		"a key that is missing":   forge(t, func(keys map[string][]byte) { delete(keys, "sa.key") }, summed(pages)),
	}
	for name, file := range tests {
		parent := t.TempDir()
		for _, dryRun := range []bool{true, false} {
			if _, err := Restore(file, datadir.Dir(filepath.Join(parent, "new")), dryRun); err == nil {
				t.Errorf("%s: it is restored", name)
			} else {
				t.Logf("%s: %v", name, err)
			}
			if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
				t.Errorf("%s: it leaves %v, %v", name, left, err)
			}
		}
	}
}

func TestABackupOfANewerProgramIsRefused(t *testing.T) {
	tests := map[string]struct{ ours, theirs, want string }{
		"a newer one":         {"v1.2.0", "v1.3.0", "a program of version v1.3.0 has saved it, and this one is v1.2.0: restore it with one that is as new"},
		"an older one":        {"v1.3.0", "v1.2.0", ""},
		"the same":            {"v1.2.0", "v1.2.0", ""},
		"before it was noted": {"v1.2.0", "", ""},
	}
	for name, tc := range tests {
		got := ""
		if err := knows(tc.ours, tc.theirs); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: error %q, want %q", name, got, tc.want)
		}
	}
}
