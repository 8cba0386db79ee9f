// SPDX-License-Identifier: Apache-2.0

// Package repository reads the releases of providers from where they are
// published: the components of a release, its metadata, and its templates.
package repository

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/clusterctl/config"
)

const (
	// MetadataFile is the file of a release with the metadata of its provider.
	MetadataFile = "metadata.yaml"
	// LatestVersion in a URL represents the newest release.
	LatestVersion = "latest"
)

// Repository has the releases of one provider.
type Repository interface {
	// DefaultVersion is that of the provider's URL; it may be LatestVersion, which
	// Resolve turns into a version.
	DefaultVersion() string
	// ComponentsFile is the name of the file with the provider's objects.
	ComponentsFile() string
	// Versions lists the releases, the oldest first. The error is a NoListError if the
	// repository cannot list them.
	Versions(ctx context.Context) ([]string, error)
	// File reads a file of a release. The error is a NotFoundError if the release does
	// not exist or has no such file.
	File(ctx context.Context, version, name string) ([]byte, error)
}

// NotFoundError means that a release or a file of it is not found.
type NotFoundError struct {
	// Where is the repository, for people, or the requested location itself.
	Where string
	// Version and Name of the file; Name is empty if the release does not exist, and both
	// are empty for a file that belongs to no release.
	Version, Name string
	// Hint names what exists, or what to do.
	Hint string
}

func (e *NotFoundError) Error() string {
	text := e.Where + " does not exist"
	switch {
	case e.Version != "" && e.Name == "":
		text = fmt.Sprintf("%s has no release %s", e.Where, e.Version)
	case e.Version != "":
		text = fmt.Sprintf("release %s of %s has no file %s", e.Version, e.Where, e.Name)
	}
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// NoListError means that a repository cannot list its releases.
type NoListError struct {
	// Where is the repository, for people.
	Where string
}

func (e *NoListError) Error() string {
	return e.Where + " does not list its releases: name the version"
}

// Options define how repositories are reached.
type Options struct {
	// Overrides is a folder whose files <label>/<version>/<file> replace those of
	// releases. Empty means none.
	Overrides string
	// Overridden is called for each file that replaces one of a release; nil calls
	// nothing.
	Overridden func(file string)
	// Variable returns the settings: GOPROXY, GITHUB_TOKEN and the others in the
	// documentation. It is usually Config.Variable; nil means that there are none.
	Variable func(name string) (string, bool)
	// GoProxy is the default of GOPROXY: that of the Go toolchain, for programs that have
	// it. Empty means GitHub's API.
	GoProxy string
	// Cache is a folder for the files of releases, which never change. Empty means none.
	// What cannot be stored there is fetched again.
	Cache string
	// PlainHTTP allows http to other hosts, too, where what is read can be changed in
	// transit.
	PlainHTTP bool
	// Registries is a file with the mirrors and authorities of registries, registries.yaml
	// of a data directory. It need not exist. Empty means none.
	Registries string
	// Transport of requests; nil means that of net/http.
	Transport http.RoundTripper
	// Stall is how long a server may send nothing, and Timeout how long a request
	// may take with all its tries. Zero means 30 seconds and 5 minutes.
	Stall, Timeout time.Duration
	// Pause waits between tries; nil waits for the given duration.
	Pause func(ctx context.Context, d time.Duration) error
}

// setting is the value of a setting, or otherwise. A token from a file may end with a
// newline.
func (o Options) setting(name, otherwise string) string {
	if o.Variable == nil {
		return otherwise
	}
	v, _ := o.Variable(name)
	return cmp.Or(strings.TrimSpace(v), otherwise)
}

// Open returns the repository that a provider's URL names. It sends no request yet.
func Open(_ context.Context, p config.Provider, o Options) (Repository, error) {
	r, err := open(p, o)
	if err != nil {
		return nil, fmt.Errorf("provider %s: url %s: %w", p.Label(), redacted(p.URL), err)
	}
	if o.Overrides != "" {
		r = &overridden{Repository: r, used: o.Overridden, folder: folder{path: filepath.Join(o.Overrides, p.Label()), where: "overrides folder " + o.Overrides}}
	}
	return r, nil
}

func open(p config.Provider, o Options) (Repository, error) {
	if filepath.IsAbs(p.URL) {
		return newLocal(p, p.URL)
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return nil, errors.Unwrap(err) // the outer error contains the URL, and possibly a password
	}
	if steps := gitHubPath(u, o); steps != nil {
		r, err := newGitHubReleases(o, steps)
		if err != nil {
			return nil, err
		}
		return remember(&cached{r, r.onWeb(), cache{o.Cache}}), nil
	}
	switch {
	case u.Scheme == "file":
		return newLocal(p, u.Host+filepath.FromSlash(u.Path))
	case u.Scheme == config.EmbeddedScheme:
		return newEmbedded(p, u.Path)
	case u.Scheme == "oci":
		r, err := newOCI(p, o)
		if err != nil {
			return nil, err
		}
		return remember(r), nil
	case isGitLab(u):
		r, err := newGitLab(o, u)
		if err != nil {
			return nil, err
		}
		return remember(r), nil
	}
	return nil, errors.New("use https://github.com/OWNER/REPOSITORY/releases/VERSION/FILE, https://HOST/api/v4/projects/PROJECT/packages/generic/PACKAGE/VERSION/FILE, oci://HOST/REPOSITORY:VERSION/FILE, or the absolute path of FOLDER/LABEL/VERSION/FILE")
}

// redacted is a URL without its password.
func redacted(text string) string {
	if u, err := url.Parse(text); err == nil {
		return u.Redacted()
	}
	return text[strings.LastIndexByte(text, '@')+1:]
}

// overridden uses files of a folder instead of those of a repository.
type overridden struct {
	Repository
	folder folder
	used   func(file string)
}

func (r *overridden) File(ctx context.Context, version, name string) ([]byte, error) {
	data, err := r.folder.read(version, name)
	if errors.As(err, new(*NotFoundError)) {
		return r.Repository.File(ctx, version, name)
	}
	if err == nil && r.used != nil {
		r.used(filepath.Join(r.folder.path, version, name))
	}
	return data, err
}
