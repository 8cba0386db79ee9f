// SPDX-License-Identifier: Apache-2.0

package ociimages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"

	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/lockfile"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
	"github.com/capstan-dev/capstan/internal/kit/registry"
)

// PullOptions configure how one image is fetched. The zero value is valid.
type PullOptions struct {
	// Keychain has credentials that take precedence over those of the store; nil is
	// none.
	Keychain authn.Keychain
	// Registries is a file with more configuration of registries, for
	// registry.Options.Read; "" is none. It is read for each image.
	Registries string
	// Progress is called with how much of each layer has been received; it may be nil.
	// It may be called concurrently.
	Progress func(Progress)
}

// Progress is the progress of a layer. Total is 0 for a layer that existed already.
type Progress struct {
	Layer       string
	Have, Total int64
}

// Pull fetches an image by its name, or its missing parts, and gives it that name.
// It always sends requests to the registry: the caller decides with Find whether to
// call it. If the registry has no such image, the error is a
// registry.NotFoundError; if it requires authentication, a registry.DeniedError; if
// the image is for other platforms, a PlatformError.
func (s *Store) Pull(ctx context.Context, ref string, o PullOptions) (Image, error) {
	full, err := registry.Name(ref)
	if err != nil {
		return Image{}, err
	}
	m, err := s.pull(ctx, full, o)
	if err != nil {
		return Image{}, fmt.Errorf("pull image %s: %w", full, s.full(ctx, err))
	}
	return m, nil
}

func (s *Store) pull(ctx context.Context, full string, o PullOptions) (Image, error) {
	client := s.registry
	if o.Registries != "" {
		with, err := s.asked.Read(o.Registries)
		if err != nil {
			return Image{}, err
		}
		if client, err = registry.New(with); err != nil {
			return Image{}, fmt.Errorf("%s: %w", o.Registries, err)
		}
	}
	repo, err := client.Open(full, o.Keychain)
	if err != nil {
		return Image{}, err
	}
	top, err := repo.Manifest(ctx, "")
	if err != nil {
		return Image{}, err
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	return s.take(ctx, &upstream{store: s, repo: repo, progress: o.Progress}, top.Manifest, false, o.Progress, full)
}

// upstream is an image in a registry.
type upstream struct {
	store    *Store
	repo     *registry.Repository
	progress func(Progress)
}

func (r *upstream) Manifest(ctx context.Context, h v1.Hash) ([]byte, error) {
	found, err := r.repo.Manifest(ctx, h.String())
	if err != nil {
		return nil, err
	}
	return found.Manifest, nil
}

func (r *upstream) Config(ctx context.Context, d v1.Descriptor) ([]byte, error) {
	tmp, done, err := r.store.dir.Temp()
	if err != nil {
		return nil, err
	}
	defer done()
	file := filepath.Join(tmp, "config")
	if err := r.repo.Blob(ctx, d.Digest, d.Size, file, func(int64) {}); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}

// Layer fetches a layer into the folder of parts, where the next attempt can resume
// this one.
func (r *upstream) Layer(ctx context.Context, d v1.Descriptor) (io.ReadCloser, error) {
	file := r.store.dir.Join(partsDir, d.Digest.Hex)
	err := r.repo.Blob(ctx, d.Digest, d.Size, file, func(have int64) { r.progress(Progress{d.Digest.String(), have, d.Size}) })
	if diskspace.Full(err) {
		err = errors.Join(err, os.Remove(file+".part")) // it would take the space of all others
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	return part{f, func() bool { return ctx.Err() != nil && !diskspace.Full(context.Cause(ctx)) }}, err
}

// part is a file that is removed after it was read, unless reading was interrupted
// for a reason other than a full disk, where it would only take space.
type part struct {
	*os.File
	again func() bool
}

func (p part) Close() error {
	err := p.File.Close()
	if p.again() {
		return err
	}
	return errors.Join(err, os.Remove(p.Name()))
}

// take stores an image of a source under names.
func (s *Store) take(ctx context.Context, src source, raw []byte, imported bool, tell func(Progress), names ...string) (Image, error) {
	d, err := describe(ctx, src, raw, s.platform)
	if err != nil {
		return Image{}, err
	}
	if err := d.check(s.limits); err != nil {
		return Image{}, err
	}
	m := s.recordOf(d)
	m.Imported = imported
	if err := s.check(m); err != nil {
		return Image{}, err
	}
	// This prevents the removal of layers that belong to no image yet.
	busy, err := s.holdLayers()
	if err != nil {
		return Image{}, err
	}
	defer func() { _ = lockfile.Unlock(busy) }() // it was only locked
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(cap(s.tokens))
	var sum atomic.Int64
	for n, layer := range d.manifest.Layers {
		group.Go(func() error {
			return recovery.Call(inner, func() error {
				if err := s.layer(inner, src, layer, m.Layers[n], tell); err != nil {
					return err
				}
				bytes, _ := s.sizeOf(m.Layers[n])
				return s.fits(sum.Add(bytes))
			})
		})
	}
	if err := group.Wait(); err != nil {
		return Image{}, err
	}
	return s.finish(ctx, m, names)
}

// recordOf returns the record of an image.
func (s *Store) recordOf(d described) Image {
	m := d.image()
	if s.whole {
		m.Manifest, m.ConfigFile = d.raw, d.text
	}
	return m
}

// finish adds an image whose layers exist.
func (s *Store) finish(ctx context.Context, m Image, names []string) (Image, error) {
	for _, digest := range m.Layers {
		bytes, _ := s.sizeOf(digest)
		m.Size += bytes
	}
	if err := s.fits(m.Size); err != nil {
		return Image{}, err
	}
	if s.whole { // root in a machine may have written to a layer that other images have, too
		if err := s.verifyLayers(ctx, m); err != nil {
			return Image{}, err
		}
	}
	if err := s.compose(ctx, m); err != nil {
		return Image{}, err
	}
	if s.whole {
		var err error
		if m.Root, err = layers.Digest(ctx, s.RootDir(m.Digest)); err != nil {
			return Image{}, err
		}
	}
	return s.put(m, names...)
}

// fits returns an error if the layers of an image have too many bytes.
func (s *Store) fits(bytes int64) error {
	if bytes > s.limits.Bytes {
		return fmt.Errorf("its layers unfold to more than %d bytes: make the image smaller", s.limits.Bytes)
	}
	return nil
}

// layer fetches and unpacks a layer unless it exists. If another call fetches the
// same layer, it waits for that.
func (s *Store) layer(ctx context.Context, src source, d v1.Descriptor, diff string, tell func(Progress)) error {
	lock, err := lockWhile(ctx, s.dir.Join(partsDir, hexOf(diff)+".lock"))
	if err != nil {
		return err
	}
	defer func() { _ = lockfile.Unlock(lock) }() // it was only locked
	if _, there := s.sizeOf(diff); there {
		tell(Progress{Layer: d.Digest.String()})
		return nil
	}
	r, err := src.Layer(ctx, d)
	if err == nil {
		err = errors.Join(s.unpack(ctx, r, diff), r.Close())
	}
	if err != nil {
		return fmt.Errorf("layer %s: %w", d.Digest, err)
	}
	return nil
}

// unpack moves a layer to its place if it matches its digest.
func (s *Store) unpack(ctx context.Context, r io.Reader, diff string) error {
	select {
	case s.tokens <- struct{}{}:
		defer func() { <-s.tokens }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	plain, err := layers.Decompress(r)
	if err != nil {
		return err
	}
	defer func() { _ = plain.Close() }() // only read
	tmp, done, err := s.dir.Temp()
	if err != nil {
		return err
	}
	defer done()
	dir := filepath.Join(tmp, "layer")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	l, err := layers.Unpack(ctx, plain, dir, layers.Limits{Files: s.limits.Files, Bytes: s.limits.Bytes, Privileged: s.whole})
	if err != nil {
		return err
	}
	if l.Digest != diff {
		return fmt.Errorf("its content has digest %s, and the configuration of the image has %s: build the image again", l.Digest, diff)
	}
	return s.publish(dir, l)
}

// publish moves an unpacked layer to its place.
func (s *Store) publish(dir string, l layers.Layer) error {
	text, err := json.Marshal(layerInfo{l.Bytes})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, infoFile), text); err != nil {
		return err
	}
	return s.dir.Publish(dir, s.layerOf(l.Digest))
}

// lockWhile locks a file, waiting as long as the context lasts.
func lockWhile(ctx context.Context, file string) (*os.File, error) {
	type outcome struct {
		lock *os.File
		err  error
	}
	got := make(chan outcome, 1)
	var o outcome
	go recovery.Func(ctx, func() {
		o.err = recovery.Call(ctx, func() (err error) {
			o.lock, err = lockfile.Lock(file)
			return err
		})
		got <- o
	})()
	select {
	case o := <-got:
		return o.lock, o.err
	case <-ctx.Done():
		go recovery.Func(ctx, func() { // it is unlocked when it arrives, and no caller waits for that
			if o := <-got; o.err == nil {
				_ = lockfile.Unlock(o.lock)
			}
		})()
		return nil, context.Cause(ctx)
	}
}

const layersLock = "layers.lock"

// holdLayers prevents the removal of layers until the file that it returns is
// unlocked.
func (s *Store) holdLayers() (*os.File, error) {
	var f *os.File
	err := s.dir.Locked(func() (err error) { // layers are removed under this lock
		if f, err = os.OpenFile(s.dir.Join(layersLock), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return err
		}
		return lockfile.WaitShared(f)
	})
	if err != nil && f != nil {
		_ = lockfile.Unlock(f)
	}
	return f, err
}
