// SPDX-License-Identifier: Apache-2.0

// Package release gets the parts of a node from the releases of their projects:
// programs with their published checksums, and images from their registry.
package release

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/host/nodeimages/buildcache"
	"github.com/capstan-dev/capstan/internal/host/ociimages/layers"
	"github.com/capstan-dev/capstan/internal/host/ociimages/programs"
	"github.com/capstan-dev/capstan/internal/kit/download"
	"github.com/capstan-dev/capstan/internal/kit/registry"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

// Source fetches parts.
type Source struct {
	Client *download.Client
	// Registry fetches images.
	Registry *registry.Client
	// Kubernetes and GitHub are the servers of releases, by default dl.k8s.io and
	// github.com.
	Kubernetes, GitHub string
}

// recipe is incremented when the same inputs give another result.
const recipe = "release 2"

// Name is the origin of the parts, which images record.
func (s *Source) Name() string { return "release" }

// Check always returns nil: fetching shows whether releases can be reached.
func (s *Source) Check() error { return nil }

// artifact is a file of a release.
type artifact struct {
	url, checksums string
	// members are the files to extract from an archive; without any, the file is the
	// program itself.
	members []string
	program string
}

// artifacts returns all files that a node needs, for an architecture as Go names
// it.
func (s *Source) artifacts(v nodecomponents.Versions, arch string) map[string]artifact {
	kubernetes, github := s.Kubernetes, s.GitHub
	if kubernetes == "" {
		kubernetes = "https://dl.k8s.io"
	}
	if github == "" {
		github = "https://github.com"
	}
	all := map[string]artifact{}
	for _, program := range []string{"kubeadm", "kubectl", "kubelet"} {
		url := fmt.Sprintf("%s/%s/bin/linux/%s/%s", kubernetes, v.Kubernetes, arch, program)
		all[program] = artifact{url: url, checksums: url + ".sha256", program: program}
	}
	at := func(project, version, file string) string {
		return fmt.Sprintf("%s/%s/releases/download/%s/%s", github, project, version, file)
	}
	containerd := at("containerd/containerd", v.Containerd, fmt.Sprintf("containerd-%s-linux-%s.tar.gz", strings.TrimPrefix(v.Containerd, "v"), arch))
	all["containerd"] = artifact{url: containerd, checksums: containerd + ".sha256sum", members: []string{"containerd", "containerd-shim-runc-v2", "ctr"}}
	plugins := at("containernetworking/plugins", v.Plugins, fmt.Sprintf("cni-plugins-linux-%s-%s.tgz", arch, v.Plugins))
	all["cni-plugins"] = artifact{url: plugins, checksums: plugins + ".sha256", members: nodecomponents.Plugins()}
	all["runc"] = artifact{url: at("opencontainers/runc", v.Runc, "runc."+arch), checksums: at("opencontainers/runc", v.Runc, "runc.sha256sum"), program: "runc"}
	return all
}

// Programs fetches the executables of a node, and its CNI plugins.
func (s *Source) Programs(ctx context.Context, c *buildcache.Cache, v nodecomponents.Versions) (executables, plugins []string, err error) {
	all := s.artifacts(v, runtime.GOARCH)
	for _, n := range []string{"kubeadm", "kubectl", "kubelet", "containerd", "runc", "cni-plugins"} {
		a := all[n]
		dir, err := s.fetch(ctx, c, n, a)
		if err != nil {
			return nil, nil, err
		}
		for _, m := range append(slices.Clone(a.members), a.program) {
			switch file := filepath.Join(dir, m); {
			case m == "":
			case n == "cni-plugins":
				plugins = append(plugins, file)
			default:
				executables = append(executables, file)
			}
		}
	}
	return executables, plugins, nil
}

// fetch fetches a file of a release and extracts its members.
func (s *Source) fetch(ctx context.Context, c *buildcache.Cache, n string, a artifact) (string, error) {
	file := path.Base(a.url)
	got, err := c.Do(ctx, buildcache.Step{Name: "download-" + n, Inputs: []string{recipe, a.url}, Resumes: true, Make: func(ctx context.Context, dir string) error {
		text, err := s.Client.Text(ctx, a.checksums)
		if err != nil {
			return err
		}
		sum, err := download.Checksum(text, file)
		if err != nil {
			return fmt.Errorf("%s: %w", a.checksums, err)
		}
		if err := s.Client.File(ctx, a.url, filepath.Join(dir, file), sum); err != nil {
			return err
		}
		return os.Chmod(filepath.Join(dir, file), 0o755) // here, because later steps link it
	}})
	if err != nil {
		return "", err
	}
	o, err := c.Do(ctx, buildcache.Step{Name: "unpack-" + n, Inputs: append([]string{recipe, got.Digest}, a.members...), Make: func(ctx context.Context, dir string) error {
		from := filepath.Join(got.Dir, file)
		if a.program != "" {
			return os.Link(from, filepath.Join(dir, a.program))
		}
		return extract(ctx, from, dir, a.members)
	}})
	return o.Dir, err
}

// Image fetches an image from its registry. Its tag is resolved to digests, by
// which its layers are fetched like files: a partial download is resumed.
func (s *Source) Image(ctx context.Context, c *buildcache.Cache, _ nodecomponents.Versions, image nodecomponents.Image, _ buildcache.Outcome) (string, error) {
	file := image.Name + ".tar"
	o, err := c.Do(ctx, buildcache.Step{Name: "pull-" + image.Name, Inputs: []string{recipe, image.Ref, runtime.GOARCH}, Resumes: true, Make: func(ctx context.Context, dir string) error {
		parts := filepath.Join(dir, "layers")
		if err := os.MkdirAll(parts, 0o700); err != nil {
			return err
		}
		repo, err := s.Registry.Open(image.Ref, nil)
		if err != nil {
			return err
		}
		got, err := repo.Image(ctx, parts)
		if err != nil {
			return fmt.Errorf("pull %s: %w", image.Ref, err)
		}
		if err := programs.WriteArchive(filepath.Join(dir, file), image.Ref, got); err != nil {
			return err
		}
		return os.RemoveAll(parts)
	}})
	return filepath.Join(o.Dir, file), err
}

// limits are more than ten times the size of released archives.
var limits = layers.Limits{Files: 1000, Bytes: 4 << 30}

// extract extracts files from a compressed archive by their base names.
func extract(ctx context.Context, archive, dir string, members []string) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	if err := layers.Extract(ctx, f, dir, members, limits); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(archive), err)
	}
	return nil
}
