// SPDX-License-Identifier: Apache-2.0

// Package atomicfile replaces files so that a reader finds either the old or the new
// content, also after the host lost its power. It imports only the standard
// library: the smallest processes write files, too.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
)

// Write replaces a file, which only its owner may read. The temporary file in the
// same folder has a hidden name, and is removed if Write fails.
func Write(name string, content []byte) error {
	dir := filepath.Dir(name)
	f, err := os.CreateTemp(dir, "."+filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(dir)
}

// WriteOutput is Write for a file that a user names. One that cannot be replaced, as Stays
// reports, is written to.
func WriteOutput(name string, content []byte) error {
	if Stays(name) {
		return os.WriteFile(name, content, 0o600)
	}
	return Write(name, content)
}

// Stays reports whether a name is that of a device, a pipe or an open file, which a rename
// must not replace.
func Stays(name string) bool {
	info, err := os.Stat(name)
	return err == nil && (!info.Mode().IsRegular() || slices.Contains([]string{"/dev", "/dev/fd"}, filepath.Dir(name)))
}

// SyncDir has the names of a folder kept on disk.
func SyncDir(dir string) error {
	if runtime.GOOS == "windows" { // it syncs folders automatically, and cannot open them
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// WriteProgram writes a new program, which all users may start. A process that this
// one starts has a copy of every open descriptor until it has become its program,
// and Linux starts no program that is open for writing ("text file busy", ETXTBSY
// in execve(2)). So no process starts while the program is open.
func WriteProgram(name string, content []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(name, content, 0o755)
}
