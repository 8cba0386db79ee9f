// SPDX-License-Identifier: Apache-2.0

package nodeimages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/nodeimages/buildcache"
	"github.com/capstan-dev/capstan/internal/host/ociimages"
	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
	"github.com/capstan-dev/capstan/internal/kit/diskspace"
	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

// Source builds the programs and container images of a node. It stores results in
// the cache that it receives.
type Source interface {
	// Name is the origin of the parts, which images record.
	Name() string
	// Check returns an error that names what is missing on this host.
	Check() error
	// Programs builds the executables for a node's path, and its CNI plugins.
	Programs(ctx context.Context, c *buildcache.Cache, v nodecomponents.Versions) (executables, plugins []string, err error)
	// Image builds the archive of an image that kubeadm names. Its files may be taken
	// from the root of a node.
	Image(ctx context.Context, c *buildcache.Cache, v nodecomponents.Versions, image nodecomponents.Image, root buildcache.Outcome) (archive string, err error)
}

// BuildOptions configure a build.
type BuildOptions struct {
	// Version is that of Kubernetes, such as v1.36.3.
	Version string
	// Source builds the parts.
	Source Source
	// Debian configures the system that contains the parts.
	Debian Debian
	// Network is the statically linked program capstan-network.
	Network string
	// Progress is called for each step; it may be nil.
	Progress func(string)
}

// imageBuild is a build in progress.
type imageBuild struct {
	BuildOptions
	versions nodecomponents.Versions
	cache    *buildcache.Cache
}

// Build builds an image and adds it to the store. It needs root. An interrupted
// build continues where it stopped; if another one runs, the error is
// buildcache.ErrBusy.
func (s *Store) Build(ctx context.Context, o BuildOptions) (Image, error) {
	i, err := s.build(ctx, o)
	if err != nil {
		return Image{}, fmt.Errorf("build a node image of Kubernetes %s: %w", o.Version, diskspace.Explain(err, s.Dir(), ociimages.Remedy))
	}
	return i, nil
}

func (s *Store) build(ctx context.Context, o BuildOptions) (_ Image, err error) {
	v, err := nodecomponents.Defaults(o.Version)
	if err != nil {
		return Image{}, err
	}
	if err := o.check(); err != nil {
		return Image{}, err
	}
	cache, err := buildcache.Open(s.cache(), o.Progress)
	if err != nil {
		return Image{}, err
	}
	defer func() { err = errors.Join(err, cache.Close()) }()
	b := &imageBuild{BuildOptions: o, versions: v, cache: cache}
	root, err := b.root(ctx)
	if err != nil {
		return Image{}, err
	}
	executables, plugins, err := o.Source.Programs(ctx, cache, v)
	if err != nil {
		return Image{}, err
	}
	images, archives, err := b.images(ctx, executables, root)
	if err != nil {
		return Image{}, err
	}
	node, err := b.node(ctx, executables, plugins, images)
	if err != nil {
		return Image{}, err
	}
	store, err := b.bake(ctx, executables, archives)
	if err != nil {
		return Image{}, err
	}
	m, err := s.images.Add(ctx, optionsFor(b.Version, runtime.GOARCH, b.Source.Name(), b.parts(images)),
		ociimages.Folder{Dir: root.Dir, Name: "."}, ociimages.Folder{Dir: node.Dir, Name: "."}, ociimages.Folder{Dir: store.Dir, Name: "var/lib/containerd"})
	if err != nil {
		return Image{}, err
	}
	return s.imageOf(m), nil
}

// check checks the requirements before an hour is spent.
func (o BuildOptions) check() error {
	var errs []error
	if os.Geteuid() != 0 {
		errs = append(errs, errors.New("only root can: files of an image have many owners"))
	}
	if _, _, err := debianTool(exec.LookPath); err != nil {
		errs = append(errs, err)
	}
	if err := programs.Check(o.Network, runtime.GOARCH); err != nil {
		errs = append(errs, fmt.Errorf("program capstan-network: %w: build it with \"make build\", and name it with --network-program", err))
	}
	return errors.Join(append(errs, o.Source.Check())...)
}

func (b *imageBuild) root(ctx context.Context) (buildcache.Outcome, error) {
	tool, _, err := debianTool(exec.LookPath)
	if err != nil {
		return buildcache.Outcome{}, err
	}
	return b.cache.Do(ctx, buildcache.Step{Name: "debian", Inputs: b.Debian.inputs(tool), Make: func(ctx context.Context, dir string) error {
		return b.Debian.make(ctx, dir)
	}})
}

// images builds the archives of all images that a node needs, and returns the
// images: kubeadm lists them.
func (b *imageBuild) images(ctx context.Context, executables []string, root buildcache.Outcome) (images []nodecomponents.Image, archives []string, err error) {
	cmd := exec.CommandContext(ctx, named(executables, "kubeadm"), "config", "images", "list", "--kubernetes-version", b.Version)
	text, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("ask kubeadm for its images: %w", err)
	}
	if images, err = nodecomponents.ParseImages(string(text)); err != nil {
		return nil, nil, err
	}
	for _, i := range images {
		archive, err := b.Source.Image(ctx, b.cache, b.versions, i, root)
		if err != nil {
			return nil, nil, err
		}
		archives = append(archives, archive)
	}
	digest, err := filetree.FileDigest(b.Network)
	if err != nil {
		return nil, nil, err
	}
	o, err := b.cache.Do(ctx, buildcache.Step{Name: "image-network", Inputs: []string{nodecomponents.NetworkImage, digest}, Make: func(_ context.Context, dir string) error {
		const in = "/usr/local/bin/capstan-network"
		return programs.Save(filepath.Join(dir, "network.tar"), nodecomponents.NetworkImage, []string{in}, []programs.File{{Path: in, From: b.Network}})
	}})
	return images, append(archives, filepath.Join(o.Dir, "network.tar")), err
}

func (b *imageBuild) node(ctx context.Context, executables, plugins []string, images []nodecomponents.Image) (buildcache.Outcome, error) {
	sandbox, err := nodecomponents.Sandbox(images)
	if err != nil {
		return buildcache.Outcome{}, err
	}
	c := nodeLayer{Sandbox: sandbox.Ref, Programs: executables, Plugins: plugins}
	inputs, err := c.inputs()
	if err != nil {
		return buildcache.Outcome{}, err
	}
	if inputs, err = withDigests(inputs, executables, plugins); err != nil {
		return buildcache.Outcome{}, err
	}
	return b.cache.Do(ctx, buildcache.Step{Name: "node", Inputs: inputs, Make: func(_ context.Context, dir string) error { return c.make(dir) }})
}

func (b *imageBuild) bake(ctx context.Context, executables, archives []string) (buildcache.Outcome, error) {
	containerd, ctr := named(executables, "containerd"), named(executables, "ctr")
	inputs, err := withDigests([]string{preloadRecipe}, []string{containerd}, archives)
	if err != nil {
		return buildcache.Outcome{}, err
	}
	return b.cache.Do(ctx, buildcache.Step{Name: "store", Inputs: inputs, Make: func(ctx context.Context, dir string) error {
		return preload{Containerd: containerd, Ctr: ctr, Archives: archives, Progress: b.Progress}.make(ctx, dir)
	}})
}

// withDigests adds files to the inputs of a step: their names and contents.
func withDigests(inputs []string, files ...[]string) ([]string, error) {
	for _, file := range slices.Concat(files...) {
		digest, err := filetree.FileDigest(file)
		if err != nil {
			return nil, err
		}
		inputs = append(inputs, filepath.Base(file), digest)
	}
	return inputs, nil
}

// named returns the file that has a name.
func named(files []string, name string) string {
	i := slices.IndexFunc(files, func(f string) bool { return filepath.Base(f) == name })
	if i < 0 {
		return name // running it fails with not found
	}
	return files[i]
}

func (b *imageBuild) parts(images []nodecomponents.Image) map[string]string {
	all := map[string]string{"cni-plugins": b.versions.Plugins, "containerd": b.versions.Containerd, "runc": b.versions.Runc}
	for _, i := range images {
		all[i.Name] = i.Tag
	}
	_, all["network"], _ = strings.Cut(nodecomponents.NetworkImage, ":")
	return all
}
