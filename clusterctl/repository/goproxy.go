// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"unicode"
)

// maxMajors ends the search for major versions at a server that has any of them.
const maxMajors = 100

// goProxy is one entry of GOPROXY. The versions of a Go module are the tags of its
// repository, and requests for them have no rate limit.
type goProxy struct {
	url string
	// always is true if the next entry is used after any error of this one, and false if
	// only when this one does not have the module.
	always bool
}

// goProxies are the entries of GOPROXY up to off or direct, which both mean
// GitHub's API.
func goProxies(list string) (all []goProxy) {
	for list != "" {
		end := strings.IndexAny(list+",", ",|")
		entry := strings.TrimSpace(list[:end])
		if entry == "off" || entry == "direct" {
			break
		}
		always := strings.HasPrefix(list[end:], "|")
		if list = strings.TrimLeft(list[end:], ",|"); entry != "" {
			all = append(all, goProxy{strings.TrimSuffix(entry, "/"), always})
		}
	}
	return all
}

// versions lists the releases of a module that has the path of a repository. From the
// second major version on, each major version is a separate module.
func (p goProxy) versions(ctx context.Context, f *fetcher, module string) (all []string, err error) {
	for major := 1; major <= maxMajors; major++ {
		path := escapeModule(module)
		if major > 1 {
			path += fmt.Sprintf("/v%d", major)
		}
		names, err := p.list(ctx, f, path+"/@v/list")
		if err != nil && (major == 1 || !isNotFound(err)) {
			return nil, err
		}
		if len(names) == 0 && major > 1 {
			break
		}
		all = append(all, names...)
	}
	return sortedVersions(all), nil
}

func (p goProxy) list(ctx context.Context, f *fetcher, path string) (names []string, err error) {
	var data []byte
	u, err := url.Parse(p.url)
	if err != nil {
		return nil, fmt.Errorf("GOPROXY: %s is no URL", redacted(p.url))
	}
	if u.Scheme == "file" {
		at := filepath.FromSlash(u.Path + "/" + path)
		data, err = Read(ctx, at, nil, Options{})
	} else {
		var a answer
		a, err = f.get(ctx, request{url: p.url + "/" + path, limit: maxSource})
		data = a.data
	}
	for line := range strings.Lines(string(data)) {
		// A tag without a module in it counts as one of the first major version.
		version, _, _ := strings.Cut(strings.TrimSpace(line), "+incompatible")
		names = append(names, version)
	}
	return sortedVersions(names), err
}

// escapeModule writes capitals as !c, for file systems that know no difference.
func escapeModule(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
