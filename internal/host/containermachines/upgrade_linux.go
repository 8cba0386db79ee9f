// SPDX-License-Identifier: Apache-2.0

package containermachines

import (
	"archive/tar"
	_ "embed" // for the script
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// upgradeDir is where all files of a renewal are in a machine, for as long as it takes.
const upgradeDir = "/var/lib/capstan/renewal"

// upgradeLock is held in a machine by a running renewal.
const upgradeLock = "/run/capstan-renewal.lock"

//go:embed receive.sh
var receive string

//go:embed renew.sh
var renew string

// receiveCommand is the command that takes what sendUpgrade writes.
func receiveCommand() []string {
	return []string{"/bin/sh", "-c", receive, "receive", upgradeDir, upgradeLock}
}

// renewCommand is the command that does it. All of it may be repeated, also after an
// interruption anywhere. ignore are the names of checks that kubeadm must skip,
// separated by commas.
func renewCommand(ignore string) []string {
	return []string{"/bin/sh", "-c", renew, "renew", upgradeDir, upgradeLock, ignore}
}

// inStore is what containerd keeps of images: their contents, and its metadata of
// them. What it has unpacked is left out, which is three quarters.
var inStore = []string{"lib/containerd/io.containerd.content.v1.content", "lib/containerd/io.containerd.metadata.v1.bolt"}

// sendUpgrade writes an archive with all that a machine of image from needs to become one
// of image to: container images, and the files of a node that differ.
func sendUpgrade(w io.Writer, from, to Image) (err error) {
	out := tar.NewWriter(w)
	inVar, err := os.OpenRoot(to.Var) // no link in it leads out
	if err == nil {
		defer func() { err = errors.Join(err, inVar.Close()) }()
		for _, dir := range inStore {
			err = errors.Join(err, addAll(out, inVar.FS(), dir))
		}
	}
	if err != nil {
		return fmt.Errorf("read the container images of the node image: %w", err)
	}
	old, err := from.Node()
	if err != nil {
		return err
	}
	files, err := to.Node()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := addChanged(out, name, old[name], files[name]); err != nil {
			return fmt.Errorf("read the programs of the node image: %w", err)
		}
	}
	return out.Close()
}

// addAll adds the regular files below a folder of containerd.
func addAll(out *tar.Writer, inVar fs.FS, dir string) error {
	return fs.WalkDir(inVar, dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := inVar.Open(name)
		if err != nil {
			return err
		}
		return add(out, path.Join("store", path.Base(dir), name[len(dir):]), f)
	})
}

// addChanged adds a file of a node unless it is the same as another one; "" is none.
func addChanged(out *tar.Writer, name, from, to string) error {
	same, err := sameFile(from, to)
	if err != nil || same {
		return err
	}
	f, err := os.Open(to)
	if err != nil {
		return err
	}
	return add(out, path.Join("node", name), f)
}

// add adds a file, and closes it.
func add(out *tar.Writer, as string, f fs.File) (err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: as, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.Copy(out, f)
	return err
}

// sameFile reports whether two files are the same. The first need not exist.
func sameFile(from, to string) (bool, error) {
	old, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	info, failed := os.Stat(to)
	if err := errors.Join(err, failed); err != nil || old.Size() != info.Size() || old.Mode() != info.Mode() {
		return false, err
	}
	a, err := filetree.FileDigest(from)
	b, failed := filetree.FileDigest(to)
	return a == b, errors.Join(err, failed)
}
