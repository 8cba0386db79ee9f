// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// gitHubURL is that of components of a release of o/R.
func gitHubURL(version string) string {
	return "https://github.com/o/R/releases/" + version + "/infrastructure-components.yaml"
}

// withHeader answers with a text and a header.
func withHeader(text, name, value string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(name, value)
		_, _ = w.Write([]byte(text))
	}
}

func TestVersionsComeFromProxiesAndOtherwiseFromGitHub(t *testing.T) {
	t.Parallel()
	const (
		first   = "/p/github.com/o/!r/@v/list"
		second  = "/q/github.com/o/!r/@v/list"
		fromAPI = "/api/repos/o/R/releases?per_page=100&page=1"
	)
	for name, tc := range map[string]struct {
		goproxy string // with P and Q for two proxies
		first   http.HandlerFunc
		want    string
		asked   string
	}{
		"a proxy":                             {"P", say("v1.10.0\nv1.9.0\n\nnonsense\nv1.10.0-rc.1\n"), "v1.9.0 v1.10.0-rc.1 v1.10.0", first + " /p/github.com/o/!r/v2/@v/list"},
		"one with CRLF":                       {"P", say("v1.10.0\r\nv1.9.0"), "v1.9.0 v1.10.0", first + " /p/github.com/o/!r/v2/@v/list"},
		"tags without a module":               {"P", say("v2.0.0+incompatible"), "v2.0.0", first + " /p/github.com/o/!r/v2/@v/list"},
		"off":                                 {"off", nil, "v0.1.0 v0.2.0", fromAPI},
		"direct":                              {"direct", nil, "v0.1.0 v0.2.0", fromAPI},
		"none":                                {"", nil, "v0.1.0 v0.2.0", fromAPI},
		"one that does not know":              {"P,direct", answerWith(404), "v0.1.0 v0.2.0", first + " " + fromAPI},
		"one that knows no version":           {"P", say(""), "v0.1.0 v0.2.0", first + " /p/github.com/o/!r/v2/@v/list " + fromAPI},
		"the next, of one that is not there":  {"P, Q,off", answerWith(410), "v3.0.0", first + " " + second + " /q/github.com/o/!r/v2/@v/list"},
		"not the next, of one that is broken": {"P,Q", answerWith(403), "v0.1.0 v0.2.0", first + " " + fromAPI},
		"the next, of one that may break":     {"P|Q", answerWith(403), "v3.0.0", first + " " + second + " /q/github.com/o/!r/v2/@v/list"},
		"not what follows off":                {"off,P", nil, "v0.1.0 v0.2.0", fromAPI},
		"a page of a login":                   {"P", say("<html>"), "v0.1.0 v0.2.0", first + " " + fromAPI},
		"a server that is not to be asked":    {"http://example.com|Q", nil, "v3.0.0", second + " /q/github.com/o/!r/v2/@v/list"},
		"no URL":                              {"%zz", nil, "v0.1.0 v0.2.0", fromAPI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.on(first, tc.first)
			s.text(second, "v3.0.0")
			s.text(fromAPI, `[{"tag_name":"v0.2.0"},{"tag_name":"v0.3.0","draft":true},{"tag_name":"nightly"},{"tag_name":"v0.1.0"}]`)
			r := open1(t, gitHubURL("latest"), at(s, "GOPROXY", strings.NewReplacer("P", s.URL+"/p/", "Q", s.URL+"/q").Replace(tc.goproxy)))
			for range 2 { // the second time from memory
				got, err := r.Versions(t.Context())
				if diff := cmp.Diff(strings.Fields(tc.want), got); err != nil || diff != "" {
					t.Errorf("error %v, versions (-want +got):\n%s", err, diff)
				}
			}
			if diff := cmp.Diff(strings.Fields(tc.asked), s.takeAsked()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMajorVersionsAreModulesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.text("/github.com/o/!r/@v/list", "v0.9.0\nv1.0.0")
	s.text("/github.com/o/!r/v2/@v/list", "v2.11.1")
	s.text("/github.com/o/!r/v3/@v/list", "v3.0.0-alpha.1")
	o := at(s)
	o.GoProxy = s.URL
	got, err := open1(t, gitHubURL("latest"), o).Versions(t.Context())
	if want := []string{"v0.9.0", "v1.0.0", "v2.11.1", "v3.0.0-alpha.1"}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	o = at(s, "GOPROXY", s.URL)
	s.on("/github.com/o/!r/v2/@v/list", answerWith(403))
	s.text("/api/repos/o/R/releases?per_page=100&page=1", `[{"tag_name":"v9.0.0"}]`)
	if got, err := open1(t, gitHubURL("latest"), o).Versions(t.Context()); err != nil || len(got) != 1 {
		t.Errorf("%v, %v, want those of GitHub: a list with a hole is none", got, err)
	}
}

func TestAProxyMayBeAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "github.com/o/!r/@v/list"), "v1.0.0\n")
	got, err := open1(t, gitHubURL("latest"), at(newServer(t), "GOPROXY", "file://"+dir)).Versions(t.Context())
	if err != nil || !cmp.Equal(got, []string{"v1.0.0"}) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestGitHubListsItsReleasesInPages(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for page := 1; page <= 3; page++ {
		link := `<https://elsewhere.example/?page=9>; rel="next", <x>; rel="last"`
		if page == 3 {
			link = `<x>; rel="prev"`
		}
		s.on(fmt.Sprintf("/api/repos/o/R/releases?per_page=100&page=%d", page), withHeader(fmt.Sprintf(`[{"tag_name":"v1.%d.0"}]`, page), "Link", link))
	}
	got, err := open1(t, gitHubURL("latest"), at(s)).Versions(t.Context())
	if want := []string{"v1.1.0", "v1.2.0", "v1.3.0"}; err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
}

func TestWhatGitHubRefusesIsExplained(t *testing.T) {
	t.Parallel()
	const at1 = "/api/repos/o/R/releases?per_page=100&page=1"
	for name, tc := range map[string]struct {
		handle http.HandlerFunc
		token  string
		want   string
	}{
		"the limit of a guest":  {answerWith(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795384800"), "", "GitHub's rate limit is used up until 2026-11-22 22:00:00 UTC: wait until then, or set GITHUB_TOKEN to a token of yours"},
		"the limit of a user":   {answerWith(429, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795384800"), "secret", "is used up until 2026-11-22 22:00:00 UTC: wait until then: "},
		"the second limit":      {answerWith(403, "Retry-After", "60"), "secret", "GitHub's rate limit is used up for 60 seconds: wait until then: "},
		"a token of yesterday":  {answerWith(401), "secret", "GitHub does not accept GITHUB_TOKEN: has it expired?"},
		"another refusal":       {answerWith(403), "secret", "the server answers 403 Forbidden: answer 403"},
		"no repository":         {answerWith(404), "", "github.com/o/R does not exist: or it is private: set GITHUB_TOKEN"},
		"one that is not seen":  {answerWith(404), "secret", "github.com/o/R does not exist: or GITHUB_TOKEN may not see it"},
		"something else":        {say("{}"), "", "list releases of github.com/o/R: the answer is not that of GitHub"},
		"a server that is down": {answerWith(503), "", "503 Service Unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.on(at1, tc.handle)
			_, err := open1(t, gitHubURL("latest"), at(s, "GITHUB_TOKEN", tc.token)).Versions(t.Context())
			wantError(t, err, tc.want)
			if err == nil || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want one without the token", err)
			}
		})
	}
}

func TestFilesOfReleasesOfGitHub(t *testing.T) {
	t.Parallel()
	const download = "/web/o/R/releases/download/v1.0.0/"
	assets := fmt.Sprintf(`{"tag_name":"v1.0.0","assets":[{"id":1,"name":"a.yaml","size":3,"digest":"sha256:%s"},{"id":2,"name":"short.yaml","size":9},{"id":3,"name":"wrong.yaml","size":3,"digest":"sha256:%s"},{"id":4,"name":"gone.yaml"}]}`, sha256Of([]byte("abc")), sha256Of([]byte("xyz")))
	private := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			http.NotFound(w, r)
		case strings.HasSuffix(r.URL.Path, "/tags/v1.0.0"):
			_, _ = w.Write([]byte(assets))
		case r.Header.Get("Accept") == "application/octet-stream":
			_, _ = w.Write([]byte("abc"))
		}
	}
	for name, tc := range map[string]struct {
		file, token string
		api         http.HandlerFunc
		want, err   string
		absent      bool
	}{
		"public":                       {"public.yaml", "", nil, "public", "", false},
		"public, with a token":         {"public.yaml", "secret", private, "public", "", false},
		"private":                      {"a.yaml", "secret", private, "abc", "", false},
		"private, without a token":     {"a.yaml", "", private, "", "github.com/o/R has no release v1.0.0: or it is private: set GITHUB_TOKEN", true},
		"not there":                    {"b.yaml", "secret", private, "", "release v1.0.0 of github.com/o/R has no file b.yaml: it has a.yaml, short.yaml, wrong.yaml, gone.yaml", true},
		"less than it should be":       {"short.yaml", "secret", private, "", "short.yaml of github.com/o/R has 3 bytes, not the 9 of the release", false},
		"other than it should be":      {"wrong.yaml", "secret", private, "", "wrong.yaml of github.com/o/R is not what was released", false},
		"the limit, without a token":   {"a.yaml", "", answerWith(403, "X-RateLimit-Remaining", "0"), "", "has no file a.yaml: the releases are unknown: GitHub's rate limit is used up", true},
		"the limit, with a token":      {"a.yaml", "secret", answerWith(403, "X-RateLimit-Remaining", "0"), "", "GitHub's rate limit is used up", false},
		"a name of another folder":     {"../a.yaml", "secret", private, "", "is no name of a file of a release", false},
		"a page instead of the file":   {"page.yaml", "", nil, "", "is a web page", false},
		"a server without a file":      {"down.yaml", "secret", private, "", "503 Service Unavailable", false},
		"a redirect to where files is": {"moved.yaml", "secret", private, "public", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.text(download+"public.yaml", "public")
			s.text(download+"page.yaml", "<!doctype html>")
			s.on(download+"down.yaml", answerWith(503))
			s.on(download+"moved.yaml", func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, download+"public.yaml", http.StatusFound)
			})
			for _, at := range []string{"tags/v1.0.0", "assets/1", "assets/2", "assets/3", "assets/4"} {
				s.on("/api/repos/o/R/releases/"+at, tc.api)
			}
			r := open1(t, gitHubURL("v1.0.0"), at(s, "GITHUB_TOKEN", tc.token))
			for range 2 {
				got, err := r.File(t.Context(), "v1.0.0", tc.file)
				if tc.err != "" {
					wantError(t, err, tc.err)
				} else if err != nil || string(got) != tc.want {
					t.Errorf("%q, %v, want %q", got, err, tc.want)
				}
				if errors.As(err, new(*NotFoundError)) != tc.absent {
					t.Errorf("error %v, want a NotFoundError: %v", err, tc.absent)
				}
			}
			if n := len(s.takeAsked()); (tc.err == "" || tc.absent) && n > 3 {
				t.Errorf("%d requests: the second answer comes from memory", n)
			}
		})
	}
}

func TestTheNewestReleaseOfGitHubCostsFewRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.text("/github.com/o/!r/@v/list", "v1.0.0\nv1.1.0\nv1.2.0\n")
	s.text("/web/o/R/releases/download/v1.1.0/metadata.yaml", metadataFor("1.0 v1beta1", "1.1 v1beta2"))
	o := at(s, "GOPROXY", s.URL)
	r := open1(t, gitHubURL("latest"), o)
	if got, err := Resolve(t.Context(), r, ""); err != nil || got != "v1.1.0" {
		t.Errorf("%s, %v, want v1.1.0: v1.2.0 is only tagged", got, err)
	}
	if _, err := Metadata(t.Context(), r, "v1.1.0"); err != nil {
		t.Error(err)
	}
	want := []string{"/github.com/o/!r/@v/list", "/github.com/o/!r/v2/@v/list", "/web/o/R/releases/download/v1.2.0/metadata.yaml", "/api/repos/o/R/releases/tags/v1.2.0", "/web/o/R/releases/download/v1.1.0/metadata.yaml"}
	if diff := cmp.Diff(want, s.takeAsked()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAnInterruptionIsNotTakenForAnAnswer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	s.on("/p/github.com/o/!r/@v/list", func(w http.ResponseWriter, r *http.Request) {
		cancel(errors.New("interrupted"))
		<-r.Context().Done()
	})
	_, err := open1(t, gitHubURL("latest"), at(s, "GOPROXY", s.URL+"/p|"+s.URL+"/q")).Versions(ctx)
	wantError(t, err, "interrupted")
	if n := len(s.takeAsked()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestURLsOfGitHub(t *testing.T) {
	t.Parallel()
	o := at(newServer(t))
	for url, want := range map[string]string{
		"https://github.com/o/R/releases/download/v1.2.0/c.yaml": "v1.2.0 c.yaml",
		"https://github.com/o/R/releases/latest/c.yaml":          "latest c.yaml",
		"https://github.com/o/R/releases/1.2.0-rc.0/c.yaml":      "1.2.0-rc.0 c.yaml",
		"https://github.com/o/R/releases/v1/c.yaml":              `"v1" is no semantic version`,
		"https://github.com/o/R/releases/c.yaml":                 "use https://github.com/OWNER/REPOSITORY/releases/VERSION/FILE",
		"https://github.com/o/R/releases/v1.0.0/d/c.yaml":        "use https://github.com/OWNER",
		"https://github.com/o/R/blob/v1.0.0/c.yaml":              "use https://github.com/OWNER",
		"https://github.com":                                     "use https://github.com/OWNER",
		"http://github.com/o/R/releases/latest/c.yaml":           "use https://github.com/OWNER",
		"https://github.com.example/o/R/releases/latest/c.yaml":  "use https://github.com/OWNER",
	} {
		r, err := Open(t.Context(), aws(url), o)
		if strings.HasSuffix(want, ".yaml") {
			if err != nil || r.DefaultVersion()+" "+r.ComponentsFile() != want {
				t.Errorf("%s: %v, %v, want %s", url, r, err, want)
			}
			continue
		}
		wantError(t, err, want)
	}
}
