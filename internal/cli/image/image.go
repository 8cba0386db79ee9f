// SPDX-License-Identifier: Apache-2.0

// Package image holds the commands for images: node images, which container machines
// on this host start from, and container images, which a plane runs for providers.
package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-dev/capstan/internal/cli/command"
	"github.com/capstan-dev/capstan/internal/host/nodeimages"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/kit/atomicfile"
)

// imagesDir is where the folder of container machines has the images, which "capstan
// up" takes them from.
const imagesDir = "images"

type options struct {
	env                  *command.Env
	dir, dataDir, output string
	verify               bool
	// remove
	cache, yes bool
	// export and import
	file, id string
	names    []string
	build    buildOptions
	pull     pullOptions
}

// New returns the command image.
func New(env *command.Env) *cobra.Command {
	o := &options{env: env}
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make, fetch, list, carry and remove images",
		Long: `Make, fetch, list, carry and remove images, which are of two kinds. What container
machines on this host start from are node images: each holds a Debian with one version of
Kubernetes, and serves any number of machines. What a plane runs for providers are container
images, from registries or from files of "docker save" or in the layout of OCI.`,
	}
	f := cmd.PersistentFlags()
	f.StringVar(&o.dir, "containers-dir", env.DefaultContainersDir(), "folder that keeps container machines and node images")
	f.StringVar(&o.dataDir, "data-dir", env.DefaultDataDir(), "data directory of the plane that keeps container images")
	_ = cmd.MarkPersistentFlagDirname("containers-dir")
	_ = cmd.MarkPersistentFlagDirname("data-dir")
	cmd.AddCommand(o.newBuild(), o.newList(), o.newPull(), o.newExport(), o.newImport(), o.newRemove(), o.newPrune())
	return cmd
}

func (o *options) newExport() *cobra.Command {
	export := &cobra.Command{
		Use:     "export VERSION|ID",
		Short:   "Write a node image into one file, for other hosts",
		Example: "  capstan image export v1.36.3 --file node-v1.36.3.tar.zst",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.export(cmd.Context(), args[0]) },

		ValidArgsFunction: o.completeNodes,
	}
	export.Flags().StringVarP(&o.file, "file", "f", "", "file to write: .tar, .tar.gz or .tar.zst")
	_ = export.MarkFlagRequired("file")
	return export
}

func (o *options) newImport() *cobra.Command {
	imp := &cobra.Command{
		Use:   "import FILE",
		Short: "Import images from a file",
		Long: `Import a node image from a file that export has written, or container images from an
archive that "docker save" has written, or from a folder or archive in the OCI layout. The
content of the file determines its kind.

The content is compared with the digest in the file. Only --id verifies that a node image is
the expected one: machines run its programs as root.`,
		Example: `  capstan image import node-v1.36.3.tar.zst --id sha256:2c26b46b68ff...
  capstan image import manager.tar
  capstan image import dist/manager/layout --name example.com/manager:v1`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.importFile(cmd.Context(), args[0]) },
	}
	imp.Flags().StringVar(&o.id, "id", "", "the ID that a node image must have, in full")
	imp.Flags().StringArrayVar(&o.names, "name", nil, "name for a container image, instead of those that the file gives it; may be given several times")
	return imp
}

func (o *options) newRemove() *cobra.Command {
	remove := &cobra.Command{
		Use:   "remove VERSION|NAME|ID...",
		Short: "Remove unused images",
		Long: `Remove images that no machine or Pod uses. What builds of node images have kept, so that
the next one is faster, stays unless --cache is given; it shares its files with the images.`,
		Example:           "  capstan image remove v1.35.2\n  capstan image remove example.com/manager:v1\n  capstan image remove --cache",
		RunE:              func(cmd *cobra.Command, args []string) error { return o.remove(cmd.Context(), args) },
		ValidArgsFunction: o.complete,
	}
	remove.Flags().BoolVar(&o.cache, "cache", false, "remove what builds have kept")
	remove.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return remove
}

func (o *options) open(ctx context.Context) (*nodeimages.Store, error) {
	if o.dir == "" {
		return nil, command.Misuse(errors.New("--containers-dir is needed: neither XDG_DATA_HOME nor HOME says where node images are kept"))
	}
	return nodeimages.Open(ctx, filepath.Join(o.dir, imagesDir))
}

func (o *options) export(ctx context.Context, name string) error {
	if _, err := nodeimages.Compress(io.Discard, o.file); err != nil {
		return command.Misuse(fmt.Errorf("--file: %w", err))
	}
	s, err := o.open(ctx)
	if err != nil {
		return err
	}
	i, err := s.Find(name)
	if err != nil {
		return err
	}
	if atomicfile.Stays(o.file) {
		f, err := os.OpenFile(o.file, os.O_WRONLY, 0)
		if err == nil {
			err = errors.Join(pack(ctx, i, f, o.file), f.Close())
		}
		return err
	}
	// Half an archive never has the name of a whole one.
	f, err := os.CreateTemp(filepath.Dir(o.file), ".capstan-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is already removed after a success
	if err := errors.Join(pack(ctx, i, f, o.file), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), o.file); err != nil {
		return err
	}
	o.env.Say("Node image %s of Kubernetes %s is in %s.", i.ID, i.Version, o.file)
	return nil
}

// pack writes an image in the format of the name of a file.
func pack(ctx context.Context, i nodeimages.Image, f io.Writer, name string) error {
	w, err := nodeimages.Compress(f, name)
	if err != nil {
		return err
	}
	return errors.Join(i.Export(ctx, w), w.Close())
}

func (o *options) importFile(ctx context.Context, file string) error {
	nodes, err := o.open(ctx)
	if err != nil {
		return err
	}
	containers, err := o.openContainers(ociimages.Options{})
	if err != nil {
		return err
	}
	if file == "-" {
		file = "/dev/stdin"
	}
	all, err := containers.ImportTo(ctx, file, func(names []string, id string) (*ociimages.Store, error) {
		_, isNode := nodeimages.VersionIn(names)
		switch {
		case !isNode && o.id != "":
			return nil, command.Misuse(errors.New("--id is for node images, and this is none"))
		case !isNode:
			return containers, nil
		case len(o.names) > 0:
			return nil, command.Misuse(errors.New("--name is for container images: this is a node image, which goes by its version"))
		case o.id != "" && o.id != id:
			return nil, fmt.Errorf("this is node image %s, not %s", id, o.id)
		}
		return nodes.Images(), nil
	}, o.names...)
	for _, i := range all {
		if version, isNode := nodeimages.VersionIn(i.Names); isNode {
			o.env.Say("Node image %s of Kubernetes %s is there.", i.Digest, version)
		} else {
			o.env.Say("Container image %s is there: %s, %s.", strings.Join(i.Names, ", "), i.Digest, size(i.Size))
		}
	}
	return err
}

// short is an ID that can be read, and used.
func short(id string) string {
	digits := strings.TrimPrefix(id, "sha256:")
	return digits[:min(12, len(digits))]
}

func size(bytes int64) string { return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20) }

// partsOf lists parts and versions in order.
func partsOf(parts map[string]string) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		all = append(all, name+" "+parts[name])
	}
	return strings.Join(all, ", ")
}
