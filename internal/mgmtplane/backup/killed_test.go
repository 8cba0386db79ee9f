// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
	"github.com/capstan-dev/capstan/internal/kit/pki"
)

// restoredBy is the environment variable with which the test's own program restores
// a backup, as "FILE DIRECTORY", and is killed.
const restoredBy = "CAPSTAN_TEST_RESTORE"

func TestMain(m *testing.M) {
	if file, dir, ok := strings.Cut(os.Getenv(restoredBy), " "); ok {
		if _, err := Restore(file, datadir.Dir(dir), false); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// saved is a backup of an etcd with one key.
func saved(t *testing.T) (file string, keys pki.Folder, revision int64) {
	t.Helper()
	dir := datadir.Dir(t.TempDir())
	if err := os.Chmod(string(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	keys = pki.Folder{Dir: dir.PKI(), Now: time.Now}
	if err := keys.Ensure([]string{"127.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	c, _, stop := store(t, dir)
	put, err := c.Put(t.Context(), "/registry/kept", "value")
	if err != nil {
		t.Fatal(err)
	}
	stop()
	file = filepath.Join(t.TempDir(), "backup")
	if _, err := Save(t.Context(), dir, file); err != nil {
		t.Fatal(err)
	}
	return file, keys, put.Header.Revision
}

// TestARestoreThatIsKilledLeavesNothingOrTheWhole kills it when one of the files
// exists that it creates.
func TestARestoreThatIsKilledLeavesNothingOrTheWhole(t *testing.T) {
	file, keys, revision := saved(t)
	for _, there := range []string{"", snapshotName, "pki/ca.key", "etcd/member/snap/db", "etcd/member/wal"} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "new")
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), restoredBy+"="+file+" "+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, filepath.Join(parent, restoring, there), dir)
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // how does not matter
		if _, err := os.Stat(dir); err == nil {
			t.Logf("%q: it was faster", there)
			continue
		}
		left, err := filepath.Glob(filepath.Join(parent, restoring))
		if err != nil || len(left) != 1 {
			t.Fatalf("%q: it left %v, %v", there, left, err)
		}
		restored(t, "after one that was killed", file, keys, revision, nil)
		if _, err := Restore(file, datadir.Dir(dir), false); err != nil {
			t.Fatalf("%q: %v", there, err)
		}
		if all, err := os.ReadDir(parent); err != nil || len(all) != 1 {
			t.Errorf("%q: next to the restored one are %v, %v", there, all, err)
		}
	}
}

// await waits until one of these is there, of which the first is a pattern.
func await(t *testing.T, pattern, path string) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		found, err := filepath.Glob(pattern)
		_, statErr := os.Stat(path)
		return len(found) > 0 || statErr == nil, err
	}); err != nil {
		t.Fatalf("wait for %s: %v", pattern, err)
	}
}

func TestCleanupKeepsFoldersInUse(t *testing.T) {
	dir := t.TempDir()
	busy, err := os.CreateTemp(dir, saving)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }() // it was never read
	if err := lockfile.Try(busy); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".capstan-backup-1", "capstan-backup-1", ".capstan-restore-1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := tidy(dir, saving); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 3 {
		t.Errorf("there are %v, %v; want all but .capstan-backup-1", entries, err)
	}
	if _, err := os.Stat(filepath.Join(dir, ".capstan-backup-1")); err == nil {
		t.Error("what was left is there yet")
	}
}
