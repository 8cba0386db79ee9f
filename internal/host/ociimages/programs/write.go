// SPDX-License-Identifier: Apache-2.0

package programs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Write writes the images of one name, one for each architecture, into a folder
// that must not exist: layout, which has all of them as one index, and an archive
// ARCHITECTURE.tar for each, which "docker load" and "ctr images import" read.
func Write(dir, ref string, images ...v1.Image) error {
	if err := write(dir, ref, images); err != nil {
		return fmt.Errorf("write image %s: %w", ref, err)
	}
	return nil
}

func write(dir, ref string, images []v1.Image) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: config.OS, Architecture: config.Architecture}}})
		if err := tarball.WriteToFile(filepath.Join(dir, config.Architecture+".tar"), tag, image); err != nil {
			return err
		}
	}
	l, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err != nil {
		return err
	}
	return l.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": ref, "org.opencontainers.image.ref.name": tag.TagStr(),
	}))
}

// Save writes an image of one layer into an archive. All its files belong to root and
// are executable, unless they say otherwise; it is for Linux on the processor of this
// program.
func Save(archive, ref string, entrypoint []string, files []File) error {
	image, err := ofFiles(entrypoint, files)
	if err != nil {
		return fmt.Errorf("write image %s: %w", ref, err)
	}
	return WriteArchive(archive, ref, image)
}

func ofFiles(entrypoint []string, files []File) (v1.Image, error) {
	layer, err := layerOf(files, time.Unix(0, 0))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, &v1.ConfigFile{
		Architecture: runtime.GOARCH, OS: "linux", RootFS: config.RootFS,
		Config: v1.Config{Entrypoint: entrypoint, Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}},
	})
}

// WriteArchive writes an image under a reference with a tag into an archive, which
// "docker load" and "ctr images import" read.
func WriteArchive(archive, ref string, image v1.Image) error {
	tag, err := name.NewTag(ref)
	if err == nil {
		err = tarball.WriteToFile(archive, tag, image)
	}
	if err != nil {
		return fmt.Errorf("write image %s: %w", ref, err)
	}
	return nil
}
