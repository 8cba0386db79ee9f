// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"

	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
)

// Earlier versions of Capstan had one folder for each image, by the digits of its ID,
// with a manifest, the users, and three trees.
const (
	earlierDir      = "images"
	earlierManifest = "image.json"
	earlierUsers    = "users"
)

// migrate adds the images of earlier versions, whose files it links. The folder of an
// image stays until no machine uses it that was created before: the root of such a
// machine is in it. All of it may be repeated, also after an interruption anywhere, and
// while a plane of an earlier version uses the folders.
func (s *Store) migrate(ctx context.Context) error {
	dirs, err := filepath.Glob(s.earlierPath(strings.Repeat("[0-9a-f]", 64)))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		err := s.adopt(ctx, dir)
		if err == nil {
			err = s.images.Discard(dir, func() (bool, error) {
				users, err := s.earlierUsers(filepath.Base(dir))
				return len(users) > 0, err
			})
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			klog.ErrorS(err, "Leaving a node image of an earlier version of Capstan: build or import it again, and remove the folder when no machine uses it", "path", dir)
		}
	}
	return nil
}

// earlierPath is a path in the folders of images of earlier versions.
func (s *Store) earlierPath(names ...string) string {
	return filepath.Join(s.Dir(), earlierDir, filepath.Join(names...))
}

// earlierUsers returns the machines that were created from the folder of an image.
func (s *Store) earlierUsers(digits string) (users []string, err error) {
	if digits == "" {
		return nil, nil
	}
	entries, err := os.ReadDir(s.earlierPath(digits, earlierUsers))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		users = append(users, e.Name())
	}
	return users, nil
}

// adopt adds the image of a folder unless the store has it.
func (s *Store) adopt(ctx context.Context, dir string) error {
	id := filepath.Base(dir)
	if _, err := s.Find(id); !errors.As(err, new(*MissingError)) {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, earlierManifest))
	if err != nil {
		return err
	}
	var m struct {
		Version      string            `json:"kubernetesVersion"`
		Architecture string            `json:"architecture"`
		Source       string            `json:"source"`
		Parts        map[string]string `json:"parts"`
	}
	if err := json.Unmarshal(text, &m); err != nil || filetree.Digest(text) != "sha256:"+id {
		return errors.Join(fmt.Errorf("%s has not the digest of the image", earlierManifest), err)
	}
	o := optionsFor(m.Version, m.Architecture, m.Source, m.Parts)
	o.Labels[earlierLabel] = id
	i, err := s.images.Add(ctx, o, earlierFolders(dir)...)
	if err == nil {
		klog.InfoS("Took over a node image of an earlier version of Capstan", "version", m.Version, "earlierID", id, "id", i.Digest)
	}
	return err
}

// earlierFolders are the layers of an image: a Debian without /var, the parts of a node,
// and /var.
func earlierFolders(dir string) []ociimages.Folder {
	return []ociimages.Folder{{Dir: filepath.Join(dir, "root"), Name: "."}, {Dir: filepath.Join(dir, "node"), Name: "."}, {Dir: filepath.Join(dir, "var"), Name: "var"}}
}
