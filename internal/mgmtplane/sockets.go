// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/capstan-dev/capstan/internal/kit/lockfile"
)

const (
	clientSocket, peerSocket = "etcd.sock", "peer.sock"
	// maxSocketPath is the capacity of sockaddr_un on Linux, less the final zero.
	maxSocketPath = 107
	// inURLs are characters with a meaning in a list of URLs, by which the API
	// server receives the socket.
	inURLs = ",%?#"
	// socketsPrefix is the prefix of the names of socket directories in the
	// directory of temporary files. A plane locks its own for as long as it runs.
	socketsPrefix = "capstan-sockets-"
)

// socketDir returns DIR/run, or a directory with a short name where that path would
// not fit a socket's address, or a URL.
func (c *completed) socketDir(p *Plane) (string, error) {
	sweepSockets()
	dir := filepath.Join(string(c.dir), "run")
	if len(filepath.Join(dir, clientSocket)) <= maxSocketPath && !strings.ContainsAny(dir, inURLs) {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return "", fmt.Errorf("make folder of sockets: %w", err)
		}
		return dir, os.Chmod(dir, 0o700)
	}
	for {
		dir, err := os.MkdirTemp("", socketsPrefix)
		if err != nil {
			return "", fmt.Errorf("make folder of sockets: %w", err)
		}
		lock, err := lockFolder(dir, lockfile.Wait)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another plane swept it before it was locked
		}
		if err != nil {
			return "", fmt.Errorf("lock folder of sockets: %w", err)
		}
		p.stack.Push("folder of sockets", func(context.Context) error {
			return errors.Join(os.RemoveAll(dir), lockfile.Unlock(lock))
		})
		return dir, nil
	}
}

// sweepSockets removes what killed planes of this user have left. It removes only
// sockets; what it cannot remove is harmless.
func sweepSockets() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), socketsPrefix+"*")) // the pattern is sound
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			continue
		}
		lock, err := lockFolder(dir, lockfile.Try)
		if err != nil {
			continue // its plane runs
		}
		_ = os.Remove(filepath.Join(dir, clientSocket))
		_ = os.Remove(filepath.Join(dir, peerSocket))
		_ = os.Remove(dir)
		_ = lockfile.Unlock(lock)
	}
}

// lockFolder returns a locked directory. If it was removed before the lock was
// taken, the error is fs.ErrNotExist.
func lockFolder(dir string, lock func(*os.File) error) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err = lock(f); err == nil && !lockfile.Current(f) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
