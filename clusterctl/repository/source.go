// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
)

const (
	// Stdin is the source that is standard input.
	Stdin = "-"

	// maxSource limits what is read as a template or a configuration of a user: it is for
	// one cluster, or one user.
	maxSource = 4 << 20
)

// Read reads a text from where a user specifies: a file, an https URL, or - for stdin.
// URLs of GitHub, /OWNER/REPOSITORY/blob/BRANCH/PATH and
// /OWNER/REPOSITORY/releases/download/TAG/FILE, represent the files that they show, also
// in private repositories. The error is a NotFoundError if the text does not exist.
func Read(ctx context.Context, from string, stdin io.Reader, o Options) ([]byte, error) {
	if from == Stdin {
		return readBounded(stdin, maxSource, "standard input")
	}
	if isURL(from) {
		return fetch(ctx, from, o)
	}
	path := strings.TrimPrefix(from, "file://")
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &NotFoundError{Where: "file " + path}
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a folder: name a file", path)
	}
	return readBounded(f, maxSource, path)
}

func isURL(from string) bool {
	return strings.HasPrefix(from, "https://") || strings.HasPrefix(from, "http://")
}

// Sibling is the location of a file in the same folder as a source; empty for standard
// input, which has none.
func Sibling(from, name string) string {
	switch {
	case from == Stdin:
		return ""
	case isURL(from):
		u, err := url.Parse(from)
		if err != nil {
			return ""
		}
		return u.ResolveReference(&url.URL{Path: name, RawQuery: u.RawQuery}).String()
	}
	return from[:strings.LastIndexByte(from, '/')+1] + name
}

// fetch reads a text from a URL.
func fetch(ctx context.Context, from string, o Options) ([]byte, error) {
	if u, err := url.Parse(from); err == nil {
		if data, shown, err := fromGitHub(ctx, u, o); shown {
			return data, err
		}
	}
	a, err := newFetcher(o).get(ctx, request{url: from, limit: maxSource})
	if isNotFound(err) {
		return nil, &NotFoundError{Where: redacted(from)}
	}
	return a.data, err
}
