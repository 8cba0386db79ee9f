// SPDX-License-Identifier: Apache-2.0

package modules

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
)

// filesOf returns the files of an image with programs of a system: the programs, by
// their paths in the image, with all libraries that they load. The values of tools are
// their paths in the root of the system.
func filesOf(root string, tools map[string]string) ([]programs.File, error) {
	found := map[string]programs.File{}
	for _, link := range []string{"bin", "lib", "lib64", "sbin"} { // as in all Debian releases
		found["/"+link] = programs.File{Path: "/" + link, Link: "usr/" + link}
	}
	for _, at := range slices.Sorted(maps.Keys(tools)) {
		real, err := resolve(root, tools[at])
		if err != nil {
			return nil, err
		}
		if err := libraries(root, real, found); err != nil {
			return nil, err
		}
		found[real] = programs.File{Path: real, From: filepath.Join(root, real)}
		if at != real {
			found[at] = programs.File{Path: at, Link: real}
		}
	}
	// iptables loads its matches and targets by name when rules need them.
	extensions, err := filepath.Glob(filepath.Join(root, "usr/lib/*/xtables/*.so"))
	if err != nil {
		return nil, err
	}
	for _, e := range extensions {
		in := strings.TrimPrefix(e, root)
		real, err := resolve(root, in)
		if err != nil {
			return nil, err
		}
		found[in] = programs.File{Path: in, From: filepath.Join(root, real)}
		if err := libraries(root, real, found); err != nil {
			return nil, err
		}
	}
	return slices.Collect(maps.Values(found)), nil
}

// libraries adds the libraries that a program or library loads, recursively.
func libraries(root, file string, found map[string]programs.File) error {
	f, err := elf.Open(filepath.Join(root, file))
	if err != nil {
		return fmt.Errorf("read program %s: %w", file, err)
	}
	defer func() { _ = f.Close() }() // only read
	needed, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("libraries of %s: %w", file, err)
	}
	if loader := interpreter(f); loader != "" {
		needed = append(needed, loader)
	}
	for _, name := range needed {
		at, real, err := library(root, name)
		if err != nil {
			return fmt.Errorf("%s needs %s: %w", file, name, err)
		}
		if _, ok := found[at]; ok {
			continue
		}
		found[at] = programs.File{Path: at, From: filepath.Join(root, real)}
		if err := libraries(root, real, found); err != nil {
			return err
		}
	}
	return nil
}

// interpreter returns the loader of a program; empty for a library.
func interpreter(f *elf.File) string {
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz <= 4096 { // PATH_MAX
			text := make([]byte, p.Filesz)
			if _, err := p.ReadAt(text, 0); err == nil {
				return strings.TrimRight(string(text), "\x00")
			}
		}
	}
	return ""
}

// library finds a library by its name or path, and returns the requested and the
// real path.
func library(root, name string) (at, real string, err error) {
	candidates := []string{name}
	if !path.IsAbs(name) {
		dirs, err := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-*"))
		if err != nil {
			return "", "", err
		}
		candidates = nil
		for _, d := range append(dirs, filepath.Join(root, "usr/lib")) {
			candidates = append(candidates, path.Join(strings.TrimPrefix(d, root), name))
		}
	}
	for _, c := range candidates {
		dir, err := resolve(root, path.Dir(c))
		if err != nil {
			continue
		}
		if real, err = resolve(root, c); err == nil {
			return path.Join(dir, path.Base(c)), real, nil
		}
	}
	return "", "", fs.ErrNotExist
}

// resolve is like layers.Resolve, with an absolute path.
func resolve(root, name string) (string, error) {
	at, err := layers.Resolve(root, name)
	return path.Join("/", at), err
}
