// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"errors"
)

// gitHubReleases are the releases of a repository of GitHub.
type gitHubReleases struct {
	*github
	proxies             []goProxy
	version, components string
}

// newGitHubReleases opens the repository of a URL with a path
// OWNER/REPOSITORY/releases/VERSION/FILE.
func newGitHubReleases(o Options, steps []string) (*gitHubReleases, error) {
	if len(steps) == 6 && steps[3] == "download" { // as GitHub itself shows the file
		steps = append(steps[:3:3], steps[4:]...)
	}
	if len(steps) != 5 || steps[2] != "releases" || steps[0] == "" || steps[1] == "" {
		return nil, errors.New("use https://github.com/OWNER/REPOSITORY/releases/VERSION/FILE, with a version or latest")
	}
	if err := checkDefault(steps[3]); err != nil {
		return nil, err
	}
	return &gitHubReleases{
		github: newGitHub(o, steps[0], steps[1]), proxies: goProxies(o.setting("GOPROXY", o.GoProxy)),
		version: steps[3], components: steps[4],
	}, nil
}

func (r *gitHubReleases) DefaultVersion() string { return r.version }

func (r *gitHubReleases) ComponentsFile() string { return r.components }

// Versions asks the Go module proxies, and GitHub itself if none of them has the module.
func (r *gitHubReleases) Versions(ctx context.Context) ([]string, error) {
	var errs []error
	for _, p := range r.proxies {
		versions, err := p.versions(ctx, r.fetch, r.where())
		switch {
		case ctx.Err() != nil:
			return nil, err
		case err == nil && len(versions) > 0:
			return versions, nil
		case err == nil:
			err = &NotFoundError{Where: "module " + r.where() + " of " + redacted(p.url)}
		}
		errs = append(errs, err)
		if !p.always && !isNotFound(err) {
			break
		}
	}
	tags, err := r.tags(ctx)
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	return sortedVersions(tags), nil
}

func (r *gitHubReleases) File(ctx context.Context, version, name string) ([]byte, error) {
	if err := checkFile(version, name); err != nil {
		return nil, err
	}
	return r.file(ctx, version, name)
}
