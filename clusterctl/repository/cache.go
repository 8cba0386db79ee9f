// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxCache limits the size of the stored files: those of a hundred releases.
	maxCache = 256 << 20

	// abandoned is the age from which an incomplete file is that of a process that has
	// exited.
	abandoned = time.Hour

	// unfinished is the prefix of the names of files that are being written.
	unfinished = ".new-"
)

// remembered caches the result of each request to a repository.
type remembered struct {
	Repository
	mu       sync.Mutex // guards the following fields
	versions []string
	files    map[[2]string]remembrance
}

type remembrance struct {
	data []byte
	err  error // a NotFoundError, or nil
}

func remember(r Repository) Repository {
	return &remembered{Repository: r, files: map[[2]string]remembrance{}}
}

// known implements shelf.
func (r *remembered) known(version string) []string { return known(r.Repository, version) }

func (r *remembered) Versions(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	known := slices.Clone(r.versions)
	r.mu.Unlock()
	if known != nil {
		return known, nil
	}
	versions, err := r.Repository.Versions(ctx)
	if err == nil {
		r.mu.Lock()
		r.versions = slices.Clone(versions)
		r.mu.Unlock()
	}
	return versions, err
}

func (r *remembered) File(ctx context.Context, version, name string) ([]byte, error) {
	key := [2]string{version, name}
	r.mu.Lock()
	known, ok := r.files[key]
	r.mu.Unlock()
	if ok {
		return bytes.Clone(known.data), known.err
	}
	data, err := r.Repository.File(ctx, version, name)
	if err == nil || errors.As(err, new(*NotFoundError)) {
		r.mu.Lock()
		r.files[key] = remembrance{bytes.Clone(data), err}
		r.mu.Unlock()
	}
	return data, err
}

// cached stores the files of a repository whose releases never change.
type cached struct {
	Repository
	identity string // of the repository
	cache    cache
}

func (r *cached) File(ctx context.Context, version, name string) ([]byte, error) {
	key := r.key(version, name)
	if data, ok := r.cache.get(key); ok {
		return data, nil
	}
	data, err := r.Repository.File(ctx, version, name)
	if err == nil {
		r.cache.put(key, data)
	}
	return data, err
}

func (r *cached) key(version, name string) string {
	return strings.Join([]string{r.identity, version, name}, "\n")
}

// known implements shelf.
func (r *cached) known(version string) (names []string) {
	for _, key := range r.cache.keys() {
		steps := strings.Split(key, "\n")
		if len(steps) == 3 && steps[0] == r.identity && (version == "" || steps[1] == version) {
			names = append(names, steps[2])
		}
	}
	return names
}

// cache is a folder of files, each with its size, its digest and its key in the first
// line. It only saves time: a failed operation has the effect of an empty cache.
type cache struct{ folder string }

const (
	headerForm = "%d sha256:%s %q\n"
	// maxHeader limits the length of the first line.
	maxHeader = 4 << 10
)

// header is the first line of the file of some content.
func header(key string, data []byte) []byte {
	return fmt.Appendf(nil, headerForm, len(data), sha256Of(data), key)
}

// keys returns the keys of all stored files. It skips files that another user may have
// written, and files of another form.
func (c cache) keys() (keys []string) {
	root, err := c.open()
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	entries, _ := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
			continue
		}
		if key := keyOf(root, e.Name()); sha256Of([]byte(key)) == e.Name() {
			keys = append(keys, key)
		}
	}
	return keys
}

// keyOf reads the first line of a file; empty if it has another form.
func keyOf(root *os.Root, name string) (key string) {
	f, err := root.Open(name)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	line, err := bufio.NewReader(io.LimitReader(f, maxHeader)).ReadString('\n')
	if err != nil {
		return ""
	}
	var size int
	var digest string
	if _, err := fmt.Sscanf(line, headerForm, &size, &digest, &key); err != nil {
		return ""
	}
	return key
}

// get returns a stored file, if it is complete and no other user can have written it.
func (c cache) get(key string) ([]byte, bool) {
	root, err := c.open()
	if err != nil {
		return nil, false
	}
	defer func() { _ = root.Close() }()
	name := sha256Of([]byte(key))
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return nil, false
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }()
	all, err := io.ReadAll(io.LimitReader(f, maxFile+maxHeader))
	if err != nil {
		return nil, false
	}
	line, data, _ := bytes.Cut(all, []byte("\n"))
	if !bytes.Equal(append(line, '\n'), header(key, data)) {
		_ = root.Remove(name)
		return nil, false
	}
	_ = root.Chtimes(name, time.Time{}, time.Now()) // so that files in use are evicted last
	return data, true
}

// open opens the folder, unless other users may write to it.
func (c cache) open() (*os.Root, error) {
	if c.folder == "" {
		return nil, fs.ErrNotExist
	}
	info, err := os.Stat(c.folder)
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		err = fs.ErrPermission
	}
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(c.folder)
}

// put stores a file, and evicts others if needed.
func (c cache) put(key string, data []byte) {
	if c.folder == "" || os.MkdirAll(c.folder, 0o700) != nil {
		return
	}
	root, err := c.open()
	if err != nil {
		return
	}
	defer func() { _ = root.Close() }()
	f, err := os.CreateTemp(c.folder, unfinished) // of mode 0600
	if err != nil {
		return
	}
	_, err = f.Write(append(header(key, data), data...))
	name := filepath.Base(f.Name())
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(name, sha256Of([]byte(key)))
	}
	if err != nil {
		_ = root.Remove(name)
		return
	}
	c.prune(root)
}

// prune removes incomplete files, and then the least recently used ones, until the rest
// is small enough.
func (c cache) prune(root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	var files []fs.FileInfo
	total := int64(0)
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !info.Mode().IsRegular():
		case strings.HasPrefix(e.Name(), unfinished):
			if time.Since(info.ModTime()) > abandoned {
				_ = root.Remove(e.Name())
			}
		default:
			files, total = append(files, info), total+info.Size()
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if total <= maxCache {
			return
		}
		if root.Remove(f.Name()) == nil {
			total -= f.Size()
		}
	}
}
