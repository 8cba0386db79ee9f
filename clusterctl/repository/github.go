// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	gitHubHost = "github.com"

	// pageSize is the largest page that GitHub returns, and maxPages the most pages: ten
	// thousand releases.
	pageSize = 100
	maxPages = 100

	// maxList limits a page of releases, each with its notes.
	maxList = 32 << 20
)

// github is one repository of GitHub. Public content is read as a browser reads it, which
// has no rate limit; the rest through the API, which allows few requests an hour without
// a token.
type github struct {
	fetch       *fetcher
	owner, name string
	web, api    string // their base URLs
	token       string
}

func newGitHub(o Options, owner, name string) *github {
	return &github{
		fetch: newFetcher(o), owner: owner, name: name,
		web:   strings.TrimSuffix(o.setting("capstan-github-url", "https://"+gitHubHost), "/"),
		api:   strings.TrimSuffix(o.setting("capstan-github-api-url", "https://api."+gitHubHost), "/"),
		token: o.setting("GITHUB_TOKEN", ""),
	}
}

// gitHubPath is the path of a URL of GitHub, or of its replacement, in steps; nil if the
// URL is none.
func gitHubPath(u *url.URL, o Options) []string {
	path := u.Path
	if u.Scheme != "https" || u.Host != gitHubHost {
		web, err := url.Parse(o.setting("capstan-github-url", ""))
		if err != nil || web.Host == "" || u.Scheme != web.Scheme || u.Host != web.Host || !strings.HasPrefix(path, web.Path) {
			return nil
		}
		path = strings.TrimPrefix(path, web.Path)
	}
	return strings.Split(strings.Trim(path, "/"), "/")
}

// where names the repository.
func (g *github) where() string { return gitHubHost + "/" + g.owner + "/" + g.name }

// onWeb and onAPI are URLs of the repository.
func (g *github) onWeb(path ...string) string { return join(g.web, g.owner, g.name, path) }
func (g *github) onAPI(path ...string) string { return join(g.api+"/repos", g.owner, g.name, path) }

func join(base, owner, name string, path []string) string {
	all := append([]string{owner, name}, path...)
	for i := range all {
		all[i] = url.PathEscape(all[i])
	}
	return base + "/" + strings.Join(all, "/")
}

// ask reads from the API.
func (g *github) ask(ctx context.Context, at, accept string, limit int64) (answer, error) {
	a, err := g.fetch.get(ctx, request{url: at, accept: accept, token: g.token, limit: limit})
	return a, g.explain(err)
}

// forPeople are the media types of the API.
const (
	asJSON  = "application/vnd.github+json"
	asRaw   = "application/vnd.github.raw+json"
	asBytes = "application/octet-stream"
)

// explain adds what to do when the API refuses a request.
func (g *github) explain(err error) error {
	status, ok := errors.AsType[*StatusError](err)
	if !ok {
		return err
	}
	switch code, h := status.Status, status.header; {
	case code == http.StatusUnauthorized:
		return fmt.Errorf("GitHub does not accept GITHUB_TOKEN: has it expired? %w", err)
	case (code == http.StatusForbidden || code == http.StatusTooManyRequests) && (h.Get("X-Ratelimit-Remaining") == "0" || h.Get("Retry-After") != ""):
		remedy := "wait until then, or set GITHUB_TOKEN to a token of yours, which has a larger one"
		if g.token != "" {
			remedy = "wait until then"
		}
		return fmt.Errorf("GitHub's rate limit is used up%s: %s: %w", until(h), remedy, err)
	}
	return err
}

// until is the time when the limit is lifted, if the server reports it.
func until(h http.Header) string {
	if reset, err := strconv.ParseInt(h.Get("X-Ratelimit-Reset"), 10, 64); err == nil && h.Get("X-Ratelimit-Remaining") == "0" {
		return " until " + time.Unix(reset, 0).UTC().Format("2006-01-02 15:04:05 MST")
	}
	if after := h.Get("Retry-After"); after != "" {
		return " for " + after + " seconds"
	}
	return ""
}

func isNotFound(err error) bool {
	status, ok := errors.AsType[*StatusError](err)
	return ok && status.notFound() || errors.As(err, new(*NotFoundError))
}

// hidden is the reason why a file that was not found may exist.
func (g *github) hidden() string {
	if g.token != "" {
		return "or GITHUB_TOKEN may not see it"
	}
	return "or it is private: set GITHUB_TOKEN to see it"
}

// release is what the API returns about one.
type release struct {
	Tag    string  `json:"tag_name"`
	Draft  bool    `json:"draft"`
	Assets []asset `json:"assets"`
}

type asset struct {
	ID     int64  `json:"id"`
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	Digest string `json:"digest"` // sha256:…, for assets since June 2025
}

// tags lists the releases that the API returns.
func (g *github) tags(ctx context.Context) (tags []string, err error) {
	for page := 1; page <= maxPages; page++ {
		a, err := g.ask(ctx, fmt.Sprintf("%s?per_page=%d&page=%d", g.onAPI("releases"), pageSize, page), asJSON, maxList)
		if isNotFound(err) {
			return nil, &NotFoundError{Where: g.where(), Hint: g.hidden()}
		}
		if err != nil {
			return nil, err
		}
		var all []release
		if err := json.Unmarshal(a.data, &all); err != nil {
			return nil, fmt.Errorf("list releases of %s: the answer is not that of GitHub: %w", g.where(), err)
		}
		for _, r := range all {
			if !r.Draft {
				tags = append(tags, r.Tag)
			}
		}
		if !strings.Contains(a.header.Get("Link"), `rel="next"`) {
			return tags, nil
		}
	}
	return nil, fmt.Errorf("list releases of %s: there are more than %d pages", g.where(), maxPages)
}

// file reads a file of a release.
func (g *github) file(ctx context.Context, tag, name string) ([]byte, error) {
	a, err := g.fetch.get(ctx, request{url: g.onWeb("releases", "download", tag, name), limit: maxFile})
	if !isNotFound(err) {
		return a.data, g.explain(err)
	}
	absent := &NotFoundError{Where: g.where(), Version: tag, Name: name}
	r, err := g.release(ctx, tag)
	switch {
	case isNotFound(err):
		absent.Name, absent.Hint = "", g.hidden()
		return nil, absent
	case err != nil && g.token == "": // which sees only public content, and the file was not among it
		absent.Hint = fmt.Sprintf("the releases are unknown: %v", err)
		return nil, absent
	case err != nil:
		return nil, err
	}
	var there []string
	for _, f := range r.Assets {
		if f.Name == name {
			return g.download(ctx, f)
		}
		there = append(there, f.Name)
	}
	absent.Hint = "it has " + cmp.Or(strings.Join(there, ", "), "none")
	return nil, absent
}

func (g *github) release(ctx context.Context, tag string) (r release, err error) {
	a, err := g.ask(ctx, g.onAPI("releases", "tags", tag), asJSON, maxList)
	if err == nil {
		err = json.Unmarshal(a.data, &r)
	}
	return r, err
}

// download reads a file through the API, which returns its size and digest.
func (g *github) download(ctx context.Context, f asset) ([]byte, error) {
	at := g.onAPI("releases", "assets", strconv.FormatInt(f.ID, 10))
	a, err := g.ask(ctx, at, asBytes, maxFile)
	if err != nil {
		return nil, err
	}
	if want := int64(len(a.data)); f.Size != 0 && f.Size != want {
		return nil, fmt.Errorf("%s of %s has %d bytes, not the %d of the release: try again", f.Name, g.where(), want, f.Size)
	}
	if want, ok := strings.CutPrefix(f.Digest, "sha256:"); ok && want != sha256Of(a.data) {
		return nil, fmt.Errorf("%s of %s is not what was released: its digest is sha256:%s, not %s", f.Name, g.where(), sha256Of(a.data), f.Digest)
	}
	return a.data, nil
}

func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// blob reads a file of a branch.
func (g *github) blob(ctx context.Context, branch, path string) ([]byte, error) {
	steps := strings.Split(path, "/")
	a, err := g.fetch.get(ctx, request{url: g.onWeb(append([]string{"raw", branch}, steps...)...), limit: maxSource})
	if !isNotFound(err) {
		return a.data, g.explain(err)
	}
	a, err = g.ask(ctx, g.onAPI(append([]string{"contents"}, steps...)...)+"?ref="+url.QueryEscape(branch), asRaw, maxSource)
	if isNotFound(err) || err != nil && g.token == "" {
		return nil, &NotFoundError{Where: fmt.Sprintf("%s of branch %s of %s", path, branch, g.where()), Hint: g.hidden()}
	}
	return a.data, err
}

// fromGitHub reads the file that a URL of GitHub shows; false if the URL is none of
// a branch or release.
func fromGitHub(ctx context.Context, u *url.URL, o Options) ([]byte, bool, error) {
	steps := gitHubPath(u, o)
	if len(steps) < 5 {
		return nil, false, nil
	}
	g := newGitHub(o, steps[0], steps[1])
	switch rest := steps[2:]; {
	case rest[0] == "blob":
		data, err := g.blob(ctx, rest[1], strings.Join(rest[2:], "/"))
		return data, true, err
	case rest[0] == "releases" && rest[1] == "download" && len(rest) == 4:
		data, err := g.file(ctx, rest[2], rest[3])
		return data, true, err
	}
	return nil, false, nil
}
