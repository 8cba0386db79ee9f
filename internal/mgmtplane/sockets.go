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

	"golang.org/x/sys/unix"
)

const (
	clientSocket, peerSocket = "etcd.sock", "peer.sock"
	// maxSocketPath is what sockaddr_un holds on Linux, less the final zero.
	maxSocketPath = 107
	// inURLs means something in a list of URLs, which is how the API server is
	// told of the socket.
	inURLs = ",%?#"
	// socketsPrefix begins the names of folders of sockets in the folder of
	// temporary files. A plane locks its own for as long as it lives.
	socketsPrefix = "capstan-sockets-"
)

// socketDir is DIR/run, or a folder with a short name where that path would
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
		lock, err := lockFolder(dir, unix.LOCK_EX)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another plane swept it before it was locked
		}
		if err != nil {
			return "", fmt.Errorf("lock folder of sockets: %w", err)
		}
		p.stack.Push("folder of sockets", func(context.Context) error {
			return errors.Join(os.RemoveAll(dir), lock.Close())
		})
		return dir, nil
	}
}

// sweepSockets removes what planes of this user that were killed have left. It
// touches nothing but sockets; what it cannot remove harms nobody.
func sweepSockets() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), socketsPrefix+"*")) // the pattern is sound
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil || !info.IsDir() || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			continue
		}
		lock, err := lockFolder(dir, unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			continue // its plane lives
		}
		_ = os.Remove(filepath.Join(dir, clientSocket))
		_ = os.Remove(filepath.Join(dir, peerSocket))
		_ = os.Remove(dir)
		_ = lock.Close()
	}
}

// lockFolder returns a folder that is locked and was not removed before it
// was: then the error is fs.ErrNotExist.
func lockFolder(dir string, how int) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how)
	if err == nil {
		var held, there os.FileInfo
		if held, err = f.Stat(); err == nil {
			there, err = os.Lstat(dir)
		}
		if err == nil && !os.SameFile(held, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
