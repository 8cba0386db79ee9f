// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"errors"
	"net/http"
	"strings"
	"testing"
)

func TestPackagesOfGitLab(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	private := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte("private"))
	}
	const group, number = "/api/v4/projects/my%2Fgroup/packages/generic/aws/", "/git/api/v4/projects/42/packages/generic/aws/"
	s.text(group+"v1.0.0/metadata.yaml", "of a path")
	s.text(number+"v1.1.0/metadata.yaml", "of a number")
	s.on(number+"v1.1.0/private.yaml", private)
	s.on(number+"v1.1.0/login.yaml", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/users/sign_in", http.StatusFound) })
	s.text("/users/sign_in", "<!DOCTYPE html><html>")
	for _, tc := range []struct{ base, version, file, token, want, err string }{
		{group, "v1.0.0", "metadata.yaml", "", "of a path", ""},
		{number, "v1.1.0", "metadata.yaml", "", "of a number", ""},
		{number, "v1.1.0", "private.yaml", "secret", "private", ""},
		{number, "v1.1.0", "private.yaml", "", "", "401 Unauthorized: if it is private, set gitlab-access-token in the configuration file, or GITLAB_ACCESS_TOKEN"},
		{number, "v1.1.0", "private.yaml", "wrong", "", "401 Unauthorized: gitlab-access-token may not see it, or has expired"},
		{number, "v1.1.0", "login.yaml", "", "", "is a web page: does a proxy or a login stand before it?"},
		{number, "v1.1.0", "none.yaml", "", "", "/git/api/v4/projects/42/packages/generic/aws has no file none.yaml: if it is private"},
		{number, "v9.0.0", "none.yaml", "", "", "release v9.0.0 of http://"},
		{number, "v9.0.0", "../none.yaml", "", "", "is no name of a file"},
	} {
		r := open1(t, s.URL+tc.base+"v1.0.0/infrastructure-components.yaml", at(s, "gitlab-access-token", tc.token+"\n"))
		if r.DefaultVersion() != "v1.0.0" || r.ComponentsFile() != "infrastructure-components.yaml" {
			t.Errorf("version %s, file %s", r.DefaultVersion(), r.ComponentsFile())
		}
		got, err := r.File(t.Context(), tc.version, tc.file)
		if tc.err != "" {
			wantError(t, err, tc.err)
			if errors.As(err, new(*NotFoundError)) != strings.HasPrefix(tc.file, "none") {
				t.Errorf("%s: error %v", tc.file, err)
			}
		} else if err != nil || string(got) != tc.want {
			t.Errorf("%q, %v, want %q", got, err, tc.want)
		}
		if got, err := Resolve(t.Context(), r, ""); err != nil || got != "v1.0.0" {
			t.Errorf("version %s, %v, want that of the URL", got, err)
		}
		_, err = Resolve(t.Context(), r, LatestVersion)
		wantError(t, err, "aws does not list its releases: name the version")
		if !errors.As(err, new(*NoListError)) {
			t.Errorf("error %v, want a NoListError", err)
		}
	}
}

func TestGitLabSendsUserOnlyToServer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const path = "/api/v4/projects/42/packages/generic/aws/"
	s.on(path+"v1.0.0/metadata.yaml", func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		_, _ = w.Write([]byte(user + " " + password))
	})
	r := open1(t, strings.Replace(s.URL, "://", "://me:secret@", 1)+path+"v1.0.0/c.yaml", at(s))
	if got, err := r.File(t.Context(), "v1.0.0", "metadata.yaml"); err != nil || string(got) != "me secret" {
		t.Errorf("%q, %v", got, err)
	}
	_, listed := r.Versions(t.Context())
	_, read := r.File(t.Context(), "v1.0.0", "none.yaml")
	for _, err := range []error{listed, read} {
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("error %v, want one without the password", err)
		}
	}
}

func TestURLsOfGitLab(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://gitlab.com/api/v4/projects/42/packages/generic/p/latest/c.yaml":       "GitLab does not list the versions of a package: name one in place of latest",
		"https://gitlab.com/api/v4/projects/42/packages/generic/p/v1/c.yaml":           `"v1" is no semantic version`,
		"https://gitlab.com/api/v4/projects/my/group/packages/generic/p/v1.0.0/c.yaml": "whose slashes are written %2F",
		"https://gitlab.com/api/v4/projects/42/packages/maven/p/v1.0.0/c.yaml":         "use https://HOST/api/v4/projects",
		"https://gitlab.com/api/v4/projects/42/packages/generic/p/v1.0.0":              "use https://HOST/api/v4/projects",
		"https://gitlab.com/api/v4/projects/42/packages/generic/p/v1.0.0/":             "use https://HOST/api/v4/projects",
		"http://gitlab.com/api/v4/projects/42/packages/generic/p/v1.0.0/c.yaml":        "use https; http is for this host alone",
	} {
		_, err := Open(t.Context(), aws(url), Options{})
		wantError(t, err, want)
	}
}
