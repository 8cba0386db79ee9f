// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/kit/registry"
)

// Import imports the images of a file: a folder or an archive in the OCI layout, or
// an archive of docker save. names are for a file of one image, and are required if
// the image has no name in the file. Of an image for several platforms it imports
// that for the store's.
func (s *Store) Import(ctx context.Context, file string, names ...string) ([]Image, error) {
	return s.ImportTo(ctx, file, func([]string, string) (*Store, error) { return s, nil }, names...)
}

// ImportTo is Import into the stores that to returns for images, by their names in the
// file and their digests.
func (s *Store) ImportTo(ctx context.Context, file string, to func(names []string, digest string) (*Store, error), names ...string) ([]Image, error) {
	all, err := s.importFile(ctx, file, to, names)
	if err != nil {
		return nil, fmt.Errorf("import %s: %w", file, s.full(ctx, err))
	}
	return all, nil
}

func (s *Store) importFile(ctx context.Context, file string, to func([]string, string) (*Store, error), names []string) (all []Image, err error) {
	tmp, done, err := s.dir.Temp()
	if err != nil {
		return nil, err
	}
	defer done()
	a, err := openArchive(ctx, file, tmp, s.limits.Bytes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	images, err := a.images()
	if err != nil {
		return nil, err
	}
	switch {
	case len(images) == 0:
		return nil, ErrNoImages
	case len(images) > 1 && len(names) > 0:
		return nil, fmt.Errorf("it holds %d images, which cannot have the same name: import it without one", len(images))
	}
	for _, i := range images {
		store, err := to(i.names, i.manifest.String())
		if err != nil {
			return nil, err
		}
		if len(names) > 0 {
			i.names = names
		}
		var full []string
		for _, name := range i.names {
			f, err := registry.Name(name)
			if err != nil {
				return nil, err
			}
			full = append(full, f)
		}
		if len(full) == 0 {
			return nil, fmt.Errorf("it does not say how its image %s is named: give it a name", i.manifest)
		}
		raw, err := a.Manifest(ctx, i.manifest)
		if err != nil {
			return nil, err
		}
		if err := compare("the manifest of "+full[0], raw, i.manifest); err != nil {
			return nil, err
		}
		m, err := store.take(ctx, a, raw, true, func(Progress) {}, full...)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", full[0], err)
		}
		all = append(all, m)
	}
	return all, nil
}
