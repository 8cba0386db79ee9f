// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/capstan-dev/capstan/clusterctl/config"
)

// maxFile limits a file of a release. The largest known ones have 3 MiB.
const maxFile = 32 << 20

// local is a folder <label>/<version>/ with the files of each release.
type local struct {
	folder
	version, components string
}

func newLocal(p config.Provider, path string) (*local, error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("a local repository needs an absolute path")
	}
	version, components := filepath.Split(filepath.Clean(path))
	label, version := filepath.Split(filepath.Clean(version))
	if filepath.Base(label) != p.Label() {
		return nil, fmt.Errorf("the files of a local repository lie in FOLDER/%s/VERSION/", p.Label())
	}
	if err := checkDefault(version); err != nil {
		return nil, err
	}
	label = filepath.Clean(label)
	return &local{folder: folder{path: label, where: "local repository " + label}, version: version, components: components}, nil
}

func (r *local) DefaultVersion() string { return r.version }

func (r *local) ComponentsFile() string { return r.components }

// Versions lists the folders whose names are versions; other entries are ignored.
func (r *local) Versions(context.Context) ([]string, error) {
	entries, err := os.ReadDir(r.path)
	if err != nil {
		return nil, fmt.Errorf("list releases: %w", err)
	}
	var names []string
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(r.path, e.Name())) // which follows a link
		if err == nil && info.IsDir() {
			names = append(names, e.Name())
		}
	}
	return sortedVersions(names), nil
}

func (r *local) File(_ context.Context, version, name string) ([]byte, error) {
	return r.read(version, name)
}

// folder has a folder for each release.
type folder struct{ path, where string }

// read reads a regular file of a release. Links may not leave the folder: otherwise the
// author of the repository could choose which of the user's files are read.
func (f folder) read(version, name string) ([]byte, error) {
	if err := checkFile(version, name); err != nil {
		return nil, err
	}
	absent := &NotFoundError{Where: f.where, Version: version, Name: name}
	root, err := os.OpenRoot(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, absent
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.where, err)
	}
	defer func() { _ = root.Close() }()
	path := filepath.Join(version, name)
	info, err := root.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := root.Stat(version); errors.Is(err, fs.ErrNotExist) {
			absent.Name = ""
		} else {
			absent.Hint = templates(root, version, name)
		}
		return nil, absent
	case err != nil && strings.Contains(err.Error(), "escapes"):
		return nil, fmt.Errorf("%s: %s is a link that leads out of it: put the file there", f.where, path)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", f.where, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: %s is no file", f.where, path)
	}
	file, err := root.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.where, err)
	}
	defer func() { _ = file.Close() }()
	return readBounded(file, maxFile, f.where+": "+path)
}

// templates lists the templates of a release, for an error about a missing one.
func templates(root *os.Root, version, name string) string {
	if !strings.HasPrefix(name, templatePrefix) {
		return ""
	}
	entries, _ := fs.ReadDir(root.FS(), version) // a failure adds no hint
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), templatePrefix) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return "it has no templates of clusters"
	}
	return "it has " + strings.Join(names, ", ")
}

// readBounded reads all of r, which is named for errors.
func readBounded(r io.Reader, limit int64, what string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s is larger than %d MiB: is it the right file?", what, limit>>20)
	}
	return data, nil
}
