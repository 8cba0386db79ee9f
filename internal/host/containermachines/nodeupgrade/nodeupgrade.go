// SPDX-License-Identifier: Apache-2.0

// Package nodeupgrade replaces the Kubernetes in a machine by that of another node
// image while the machine runs: what is sent to it, and what is run there.
package nodeupgrade

import (
	"archive/tar"
	"bytes"
	_ "embed" // for the script
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
)

// Dir is where all files of a renewal are in a machine, for as long as it takes.
const Dir = "/var/lib/capstan/renewal"

// lock is held in a machine by a running renewal.
const lock = "/run/capstan-renewal.lock"

//go:embed receive.sh
var receive string

//go:embed renew.sh
var renew string

// Receive is the command that takes what Send writes.
func Receive() []string { return []string{"/bin/sh", "-c", receive, "receive", Dir, lock} }

// Renew is the command that does it. All of it may be repeated, also after an
// interruption anywhere. ignore are the names of checks that kubeadm must skip,
// separated by commas.
func Renew(ignore string) []string {
	return []string{"/bin/sh", "-c", renew, "renew", Dir, lock, ignore}
}

// Image is an unpacked node image.
type Image struct {
	Node string // the topmost layer of its root, with the parts of a node
	Var  string // the template of /var
}

// store is what containerd keeps of images: their contents, and its metadata of
// them. What it has unpacked is left out, which is three quarters.
var store = []string{"lib/containerd/io.containerd.content.v1.content", "lib/containerd/io.containerd.metadata.v1.bolt"}

// Send writes an archive with all that a machine of image from needs to become one of
// image to: container images, and the files that differ.
func Send(w io.Writer, from, to Image) error {
	out := tar.NewWriter(w)
	for _, dir := range store {
		err := walk(to.Var, dir, func(name string, info fs.FileInfo) error {
			return add(out, path.Join("store", path.Base(dir), name[len(dir):]), to.Var, name, info)
		})
		if err != nil {
			return fmt.Errorf("read the container images of the node image: %w", err)
		}
	}
	err := walk(to.Node, ".", func(name string, info fs.FileInfo) error {
		same, err := same(from.Node, to.Node, name, info)
		if err != nil || same {
			return err
		}
		return add(out, path.Join("node", name), to.Node, name, info)
	})
	if err != nil {
		return fmt.Errorf("read the programs of the node image: %w", err)
	}
	return out.Close()
}

// walk visits the regular files below a folder of a folder, by their names in that.
func walk(root, dir string, visit func(string, fs.FileInfo) error) error {
	return fs.WalkDir(os.DirFS(root), dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		return visit(name, info)
	})
}

func add(out *tar.Writer, as, root, name string, info fs.FileInfo) (err error) {
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: as, Size: info.Size(), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime()}); err != nil {
		return err
	}
	f, err := os.Open(path.Join(root, name))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(out, f)
	return err
}

// same reports whether a file is the same in two folders.
func same(from, to, name string, info fs.FileInfo) (bool, error) {
	old, err := os.Stat(path.Join(from, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || old.Size() != info.Size() || old.Mode() != info.Mode() {
		return false, err
	}
	a, err := os.ReadFile(path.Join(from, name))
	if err != nil {
		return false, err
	}
	b, err := os.ReadFile(path.Join(to, name))
	return bytes.Equal(a, b), err
}
