// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"filippo.io/age"
	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/buildinfo"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
	"github.com/capstan-dev/capstan/internal/kit/pki"
	"github.com/capstan-dev/capstan/internal/kit/sealedfile"
	"github.com/capstan-dev/capstan/internal/mgmtplane"
)

// revisionBump is how far the revisions of a restored etcd are beyond those of its
// snapshot: more than can have been written since, so that no client that has
// watched the lost store gets a different history with the same revisions. etcd's
// documentation recommends it; at a thousand writes a second it is eleven days.
const revisionBump = 1_000_000_000

// Restore creates a data directory from a backup. The directory must not exist, or
// be empty. With dryRun nothing of it stays: the result is whether it could be
// restored. Nothing is left either if it fails.
func Restore(file string, dir datadir.Dir, dryRun bool, identities ...age.Identity) (Report, error) {
	r, err := restore(file, dir, dryRun, identities)
	if err != nil {
		return Report{}, fmt.Errorf("restore %s: %w", file, err)
	}
	return r, nil
}

func restore(file string, dir datadir.Dir, dryRun bool, identities []age.Identity) (r Report, err error) {
	if entries, err := os.ReadDir(string(dir)); !dryRun && (len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist)) {
		return r, errors.Join(fmt.Errorf("%s is not empty, and a backup replaces nothing: choose another --data-dir", dir), err)
	}
	// Read all of it before anything is written.
	if _, err := read(file, identities, func(string, io.Reader) error { return nil }); err != nil {
		return r, err
	}
	parent := filepath.Dir(string(dir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return r, err
	}
	if err := tidy(parent, restoring); err != nil {
		return r, err
	}
	made, err := os.MkdirTemp(parent, restoring) // 0700
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	mark, err := os.Open(made)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, mark.Close()) }()
	if err := lockfile.Try(mark); err != nil {
		return r, err
	}
	if r, err = unpack(file, datadir.Dir(made), identities); err != nil || dryRun {
		return r, err
	}
	// A rename replaces an empty directory, and no other.
	if err := os.Rename(made, string(dir)); err != nil {
		return r, err
	}
	return r, atomicfile.SyncDir(parent)
}

func read(file string, identities []age.Identity, take func(string, io.Reader) error) (sealedfile.Header, error) {
	f, err := os.Open(file)
	if err != nil {
		return sealedfile.Header{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	may := map[string]int64{snapshotName: maxSnapshot}
	for _, name := range pki.LastingNames() {
		may[name] = maxKey
	}
	h, err := sealedfile.Read(f, kind, may, take, identities...)
	if err == nil {
		err = knows(buildinfo.Read().Version, h.Version)
	}
	if errors.Is(err, sealedfile.ErrEncrypted) {
		err = fmt.Errorf("%w: say how to decrypt it, with --identity or --passphrase-file", err)
	}
	return h, err
}

// knows refuses a backup of a newer program, which may contain data that this one
// would lose.
func knows(ours, theirs string) error {
	if buildinfo.Older(ours, theirs) {
		return fmt.Errorf("a program of version %s has saved it, and this one is %s: restore it with one that is as new", theirs, ours)
	}
	return nil
}

// unpack creates a data directory in an empty directory.
func unpack(file string, dir datadir.Dir, identities []age.Identity) (r Report, err error) {
	keys, db := map[string][]byte{}, filepath.Join(string(dir), snapshotName)
	h, err := read(file, identities, func(name string, in io.Reader) (err error) {
		if name != snapshotName {
			keys[name], err = io.ReadAll(in)
			return err
		}
		out, err := os.OpenFile(db, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		r.Bytes, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
	if err != nil {
		return r, err
	}
	if r.Created = h.Created; r.Bytes == 0 {
		return r, errors.New("it has no snapshot of etcd")
	}
	folder := pki.Folder{Dir: dir.PKI(), Now: time.Now}
	if err := folder.Take(keys); err != nil {
		return r, err
	}
	if err := folder.Ensure([]string{"127.0.0.1"}); err != nil { // returns an error for invalid keys
		return r, err
	}
	if err := restoreEtcd(db, dir.Etcd()); err != nil {
		return r, fmt.Errorf("restore etcd: %w", err)
	}
	return r, os.Remove(db)
}

// restoreEtcd creates an etcd from a snapshot. A forged snapshot makes the
// libraries of etcd panic, or read beyond its end.
func restoreEtcd(db, dir string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the snapshot is no store of etcd: %v", v)
		}
	}()
	name, peer, cluster := mgmtplane.EtcdMember()
	log := zap.NewNop().WithOptions(zap.WithFatalHook(panics{}), zap.WithPanicHook(panics{}))
	return snapshot.NewV3(log).Restore(snapshot.RestoreConfig{
		SnapshotPath: db, OutputDataDir: dir, Name: name, PeerURLs: []string{peer}, InitialCluster: cluster, InitialClusterToken: name,
		RevisionBump: revisionBump, MarkCompacted: true,
	})
}

// panics makes a logger panic where it would end the process.
type panics struct{}

// OnWrite implements zapcore.CheckWriteHook.
func (panics) OnWrite(e *zapcore.CheckedEntry, _ []zapcore.Field) { panic(e.Message) }

// saving and restoring are patterns of the names of temporary files and
// directories, which are created next to their destination.
const saving, restoring = ".capstan-backup-*", ".capstan-restore-*"

// tidy removes what killed processes have left in a directory, because it contains
// keys. It leaves what a process has locked.
func tidy(dir, pattern string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if ours, _ := filepath.Match(pattern, e.Name()); !ours || !e.IsDir() && !e.Type().IsRegular() {
			continue
		}
		if err := removeFree(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
			errs = append(errs, fmt.Errorf("remove what was left of an interrupted one: %w", err))
		}
	}
	return errors.Join(errs...)
}

func removeFree(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	switch err = lockfile.Try(f); {
	case err == nil:
		err = os.RemoveAll(path)
	case errors.Is(err, lockfile.ErrHeld):
		err = nil // another process uses it
	}
	return errors.Join(err, f.Close())
}
