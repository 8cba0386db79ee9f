// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// gitLabAPI is in the path of every generic package.
const gitLabAPI = "/api/v4/projects/"

// gitLab is a generic package of GitLab, whose versions are releases.
type gitLab struct {
	fetch               *fetcher
	base                string // URL of the package
	version, components string
	token               string
}

func isGitLab(u *url.URL) bool {
	return (u.Scheme == "https" || u.Scheme == "http") && strings.Contains(u.EscapedPath(), gitLabAPI)
}

// newGitLab opens the package of a URL
// https://HOST/api/v4/projects/PROJECT/packages/generic/PACKAGE/VERSION/FILE, where
// PROJECT is a number or the escaped path of a project.
func newGitLab(o Options, u *url.URL) (*gitLab, error) {
	before, rest, _ := strings.Cut(u.EscapedPath(), gitLabAPI)
	steps := strings.Split(rest, "/")
	if len(steps) != 6 || steps[1] != "packages" || steps[2] != "generic" || steps[0] == "" || steps[3] == "" || steps[5] == "" {
		return nil, errors.New("use https://HOST/api/v4/projects/PROJECT/packages/generic/PACKAGE/VERSION/FILE, where PROJECT is a number or a path whose slashes are written %2F")
	}
	version, err := url.PathUnescape(steps[4])
	if version == LatestVersion {
		return nil, errors.New("GitLab does not list the versions of a package: name one in place of latest")
	}
	if err == nil {
		_, err = parseVersion(version)
	}
	if err != nil {
		return nil, err
	}
	components, err := url.PathUnescape(steps[5])
	if err != nil {
		return nil, err
	}
	f := newFetcher(o)
	if !f.mayFetch(u) {
		return nil, errors.New("use https; http is for this host alone")
	}
	server := url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}
	base := server.String() + before + gitLabAPI + strings.Join(steps[:4], "/")
	return &gitLab{fetch: f, base: base, version: version, components: components, token: o.setting("gitlab-access-token", "")}, nil
}

func (r *gitLab) DefaultVersion() string { return r.version }

func (r *gitLab) ComponentsFile() string { return r.components }

// Versions is not supported: GitLab does not list the versions of a package by its name.
func (r *gitLab) Versions(context.Context) ([]string, error) {
	return nil, &NoListError{Where: "GitLab package " + redacted(r.base)}
}

func (r *gitLab) File(ctx context.Context, version, name string) ([]byte, error) {
	if err := checkFile(version, name); err != nil {
		return nil, err
	}
	a, err := r.fetch.get(ctx, request{url: r.base + "/" + url.PathEscape(version) + "/" + url.PathEscape(name), token: r.token, limit: maxFile})
	status, refused := errors.AsType[*StatusError](err)
	switch {
	case isNotFound(err):
		return nil, &NotFoundError{Where: redacted(r.base), Version: version, Name: name, Hint: r.hidden()}
	case refused && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden):
		return nil, fmt.Errorf("%w: %s", err, r.hidden())
	}
	return a.data, err
}

// hidden is the reason why a file that was not found may exist.
func (r *gitLab) hidden() string {
	if r.token != "" {
		return "gitlab-access-token may not see it, or has expired"
	}
	return "if it is private, set gitlab-access-token in the configuration file, or GITLAB_ACCESS_TOKEN"
}
