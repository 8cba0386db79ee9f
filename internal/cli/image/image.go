// SPDX-License-Identifier: Apache-2.0

// Package image holds the commands for node images: what container machines on this
// host start from.
package image

import (
	"cmp"
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

	"github.com/capstan-dev/capstan/internal/access/nodeimages"
	"github.com/capstan-dev/capstan/internal/cli/command"
)

// imagesDir is where the folder of container machines has the images, which "capstan
// up" takes them from.
const imagesDir = "images"

type options struct {
	env         *command.Env
	dir, output string
	verify      bool
	// remove
	cache, yes bool
	// export and import
	file, id string
	build    buildOptions
}

// New returns the command image.
func New(env *command.Env) *cobra.Command {
	o := &options{env: env}
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make, list, carry and remove node images",
		Long: `Make, list, carry and remove node images: what container machines on this host
start from. An image holds a Debian with one version of Kubernetes, and serves any
number of machines.`,
		Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&o.dir, "containers-dir", env.DefaultContainersDir(), "folder that keeps container machines and node images")
	_ = cmd.MarkPersistentFlagDirname("containers-dir")
	cmd.AddCommand(o.newBuild(), o.newList(), o.newExport(), o.newImport(), o.newRemove())
	return cmd
}

func (o *options) newList() *cobra.Command {
	list := &cobra.Command{
		Use:   "list",
		Short: "List node images, who uses them, and how large they are",
		Args:  command.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.list(cmd.Context()) },
	}
	command.OutputFlag(list, &o.output, "a table", "json", "yaml")
	list.Flags().BoolVar(&o.verify, "verify", false, "read all files of the images, and compare them with their digests")
	return list
}

func (o *options) newExport() *cobra.Command {
	export := &cobra.Command{
		Use:     "export VERSION|ID",
		Short:   "Write a node image into one file, for other hosts",
		Example: "  capstan image export v1.36.3 --file node-v1.36.3.tar.zst",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.export(cmd.Context(), args[0]) },
	}
	export.Flags().StringVarP(&o.file, "file", "f", "", "file to write: .tar, .tar.gz or .tar.zst")
	_ = export.MarkFlagRequired("file")
	return export
}

func (o *options) newImport() *cobra.Command {
	imp := &cobra.Command{
		Use:   "import FILE",
		Short: "Bring a node image from a file that export has written",
		Long: `Bring a node image from a file that export has written. What is in it is compared
with the digest that it says it has. Whether that is the image that you were promised
is told by --id alone: machines run what is in it as root.`,
		Example: "  capstan image import node-v1.36.3.tar.zst --id sha256:2c26b46b68ff...",
		Args:    cobra.ExactArgs(1),
		RunE:    func(cmd *cobra.Command, args []string) error { return o.importFile(cmd.Context(), args[0]) },
	}
	imp.Flags().StringVar(&o.id, "id", "", "the ID that it must have, in full")
	return imp
}

func (o *options) newRemove() *cobra.Command {
	remove := &cobra.Command{
		Use:   "remove VERSION|ID...",
		Short: "Remove node images that no machine uses",
		Long: `Remove node images that no machine uses. What their builds have kept, so that the
next one is faster, stays unless --cache is given; it shares its files with the images.`,
		Example: "  capstan image remove v1.35.2\n  capstan image remove --cache",
		RunE:    func(cmd *cobra.Command, args []string) error { return o.remove(cmd.Context(), args) },
	}
	remove.Flags().BoolVar(&o.cache, "cache", false, "remove what builds have kept")
	remove.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return remove
}

// listed is an image as list shows it.
type listed struct {
	ID           string            `json:"id"`
	Version      string            `json:"kubernetesVersion"`
	Architecture string            `json:"architecture"`
	Source       string            `json:"source"`
	Parts        map[string]string `json:"parts"`
	Users        []string          `json:"users"`
	Bytes        int64             `json:"bytes"`
}

func (o *options) open() (*nodeimages.Store, error) {
	if o.dir == "" {
		return nil, command.Misuse(errors.New("--containers-dir is needed: neither XDG_DATA_HOME nor HOME says where node images are kept"))
	}
	return nodeimages.Open(filepath.Join(o.dir, imagesDir))
}

func (o *options) list(ctx context.Context) error {
	if err := command.CheckOutput(o.output, "json", "yaml"); err != nil {
		return err
	}
	s, err := o.open()
	if err != nil {
		return err
	}
	images, damaged := s.List() // those that are whole are shown in any case
	all := []listed{}
	for _, i := range images {
		if o.verify {
			damaged = errors.Join(damaged, i.Verify(ctx))
		}
		users, err := i.Users()
		if err != nil {
			return err
		}
		bytes, err := i.Size()
		if err != nil {
			return err
		}
		all = append(all, listed{i.ID, i.Version, i.Architecture, i.Source, i.Parts, append([]string{}, users...), bytes})
	}
	if o.output != "" {
		return errors.Join(o.env.PrintObject(all, o.output), damaged)
	}
	t := o.env.Table("VERSION", "ID", "SOURCE", "MACHINES", "SIZE")
	for _, i := range all {
		t.Row(i.Version, short(i.ID), i.Source, fmt.Sprint(len(i.Users)), size(i.Bytes))
	}
	if err := errors.Join(t.Flush(), damaged); err != nil {
		return err
	}
	if bytes, err := s.CacheSize(); err == nil && bytes > 0 {
		o.env.Say("What builds have kept takes %s, some of it shared with images. \"capstan image remove --cache\" removes it.", size(bytes))
	}
	return nil
}

func (o *options) remove(ctx context.Context, names []string) error {
	if len(names) == 0 && !o.cache {
		return command.Misuse(errors.New("name images by version or ID, or say --cache"))
	}
	s, err := o.open()
	if err != nil {
		return err
	}
	if !o.yes {
		what := names
		if o.cache {
			what = append(slices.Clone(names), "what builds have kept")
		}
		if err := o.env.Confirm(ctx, fmt.Sprintf("Removed from %s for good: %s.", s.Dir(), strings.Join(what, ", "))); err != nil {
			return err
		}
	}
	var errs []error
	for _, name := range names {
		errs = append(errs, s.Remove(ctx, name))
	}
	if o.cache {
		errs = append(errs, s.ClearCache())
	}
	return errors.Join(errs...)
}

func (o *options) export(ctx context.Context, name string) (err error) {
	format, err := nodeimages.FormatOf(o.file)
	if err != nil {
		return command.Misuse(fmt.Errorf("--file: %w", err))
	}
	s, err := o.open()
	if err != nil {
		return err
	}
	i, err := s.Find(name)
	if err != nil {
		return err
	}
	// Half an archive never has the name of a whole one.
	f, err := os.CreateTemp(filepath.Dir(o.file), ".capstan-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it is gone if all went well
	if err := errors.Join(i.Export(ctx, f, format), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), o.file); err != nil {
		return err
	}
	o.env.Say("Node image %s of Kubernetes %s is in %s.", i.ID, i.Version, o.file)
	return nil
}

func (o *options) importFile(ctx context.Context, file string) error {
	s, err := o.open()
	if err != nil {
		return err
	}
	var r io.Reader = o.env.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // only read
		r = f
	}
	i, err := s.Import(ctx, r, o.id)
	if err != nil {
		return fmt.Errorf("import %s: %w", file, err)
	}
	o.env.Say("Node image %s of Kubernetes %s is there.", i.ID, i.Version)
	return nil
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
	for _, name := range slices.SortedFunc(maps.Keys(parts), cmp.Compare) {
		all = append(all, name+" "+parts[name])
	}
	return strings.Join(all, ", ")
}
