// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/manifests"
)

const (
	templatePrefix = "cluster-template"
	templateSuffix = ".yaml"
)

// shelf is a repository that can list files of a release without a request to a server.
type shelf interface {
	// known lists the files of a version, or of all versions if it is empty.
	known(version string) []string
}

func known(r Repository, version string) []string {
	if s, ok := r.(shelf); ok {
		return s.known(version)
	}
	return nil
}

// Flavors returns the flavors of the cluster templates that a release has, or all
// releases if version is empty, sorted and without the default one. It returns those that
// are available without a request: all of a folder, and those that were fetched from a
// server before.
func Flavors(r Repository, version string) (flavors []string) {
	for _, name := range known(r, version) {
		flavor, yaml := strings.CutSuffix(name, templateSuffix)
		if flavor, ok := strings.CutPrefix(flavor, templatePrefix+"-"); ok && yaml {
			flavors = append(flavors, flavor)
		}
	}
	slices.Sort(flavors)
	return slices.Compact(flavors)
}

// known implements shelf.
func (f folder) known(version string) (names []string) {
	root, err := os.OpenRoot(f.path)
	if err != nil {
		return nil
	}
	defer func() { _ = root.Close() }()
	pattern := "*/*"
	if version != "" {
		if checkFile(version, MetadataFile) != nil {
			return nil
		}
		pattern = version + "/*"
	}
	paths, _ := fs.Glob(root.FS(), pattern) // the pattern is well formed
	for _, path := range paths {
		_, name, _ := strings.Cut(path, "/")
		names = append(names, name)
	}
	return names
}

// known implements shelf.
func (r *embedded) known(version string) []string {
	if version != "" && version != manifests.Release {
		return nil
	}
	return []string{"cluster-template.yaml", "cluster-template-machine-pool.yaml", "cluster-template-topology.yaml"}
}

// known implements shelf.
func (r *overridden) known(version string) []string {
	return append(r.folder.known(version), known(r.Repository, version)...)
}
