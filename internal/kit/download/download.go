// SPDX-License-Identifier: Apache-2.0

// Package download fetches files over HTTP and verifies their digest. It resumes a
// partial download, and never leaves a file in place that does not match its
// digest.
package download

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/filetree"
	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// Client fetches files.
type Client struct {
	// HTTP sends the requests. It needs no timeout for a whole request: Idle ends a
	// stalled one.
	HTTP http.Client
	// Attempts is how often a file is requested; 0 is 5. Pause is the time between the
	// first and the second attempt, and doubles each time after; 0 is a second. So a
	// server that fails for a quarter of a minute does no harm.
	Attempts int
	Pause    time.Duration
	// Idle is how long a server may send nothing before a request fails; 0 is a minute.
	Idle time.Duration
	// Limit is how many bytes a file may have; 0 is no limit.
	Limit int64
	// Progress is called with how much of a file has been received; it may be nil.
	Progress func(url string, have, total int64)
}

// maxChecksums is far more than the size of a checksum file.
const maxChecksums = 1 << 20

// progressEvery is the number of bytes between two reports, a percent of the larger
// files.
const progressEvery = 1 << 20

// maxRedirects is the limit of Go's default client.
const maxRedirects = 10

// permanent is an error that a retry would not change.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Text fetches a small file, such as one of checksums.
func (c *Client) Text(ctx context.Context, url string) (string, error) {
	var text bytes.Buffer
	err := c.retry(ctx, url, func() error {
		text.Reset()
		resp, err := c.get(ctx, url, 0)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }() // only read
		if _, err := io.Copy(&text, io.LimitReader(resp.Body, maxChecksums+1)); err != nil {
			return err
		}
		if text.Len() > maxChecksums {
			return permanent{fmt.Errorf("it has more than %d bytes", maxChecksums)}
		}
		return nil
	})
	return text.String(), err
}

// File fetches a file that has a SHA-256 digest, as hexadecimal digits. An existing
// file is kept if it has that digest; a partial file of an earlier attempt is
// completed.
func (c *Client) File(ctx context.Context, url, file, sha256 string) error {
	if digits, err := hex.DecodeString(sha256); err != nil || len(digits) != 32 {
		return fmt.Errorf("get %s: %q is no SHA-256 digest", url, sha256)
	}
	if check(file, sha256) == nil {
		return nil
	}
	part := file + ".part"
	return c.retry(ctx, url, func() error {
		if err := c.complete(ctx, url, part); err != nil {
			return err
		}
		if err := check(part, sha256); err != nil {
			// It is of no use for the next attempt.
			return errors.Join(err, os.Remove(part))
		}
		return os.Rename(part, file)
	})
}

// check compares the digest of a file.
func check(file, sha256 string) error {
	have, err := filetree.FileDigest(file)
	if err != nil {
		return err
	}
	if want := "sha256:" + strings.ToLower(sha256); have != want {
		return fmt.Errorf("it has digest %s, want %s", have, want)
	}
	return nil
}

// complete requests the rest of a file.
func (c *Client) complete(ctx context.Context, url, part string) (err error) {
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return permanent{err}
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return permanent{err}
	}
	have := info.Size()
	resp, err := c.get(ctx, url, have)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // only read
	switch {
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return nil // all of it was received, or too much: the digest decides
	case resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)):
		// The server sends the whole file despite the range.
		if have = 0; f.Truncate(0) != nil {
			return permanent{fmt.Errorf("truncate %s", part)}
		}
	}
	total := int64(-1)
	if resp.ContentLength >= 0 {
		total = have + resp.ContentLength
	}
	if _, err := io.Copy(&counter{w: f, tell: c.Progress, url: url, have: have, total: total, limit: c.Limit}, resp.Body); err != nil {
		if _, ofDisk := errors.AsType[*fs.PathError](err); ofDisk {
			return permanent{err} // a retry does not free space
		}
		return err
	}
	return nil
}

// get requests a URL from an offset on.
func (c *Client) get(ctx context.Context, url string, from int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, permanent{err}
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	asks := c.HTTP
	asks.Transport = Impatient(asks.Transport, cmp.Or(c.Idle, time.Minute))
	asks.CheckRedirect = func(to *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return permanent{fmt.Errorf("more than %d redirects", maxRedirects)}
		}
		if via[0].URL.Scheme == "https" && to.URL.Scheme != "https" {
			return permanent{fmt.Errorf("it redirects to %s, which is not encrypted", to.URL.Redacted())}
		}
		return nil
	}
	resp, err := asks.Do(req)
	if err != nil {
		return nil, err
	}
	switch code := resp.StatusCode; {
	case code == http.StatusOK, from > 0 && (code == http.StatusPartialContent || code == http.StatusRequestedRangeNotSatisfiable):
		return resp, nil
	case code >= 500, code == http.StatusTooManyRequests, code == http.StatusRequestTimeout:
		err = errors.New(resp.Status)
	default:
		err = permanent{errors.New(resp.Status)}
	}
	return nil, errors.Join(err, resp.Body.Close())
}

// retry tries until it succeeds, no attempt is left, or a retry would not help.
func (c *Client) retry(ctx context.Context, url string, try func() error) error {
	pause, attempts := cmp.Or(c.Pause, time.Second), cmp.Or(c.Attempts, 5)
	for attempt := 1; ; attempt++ {
		err := try()
		if err == nil {
			return nil
		}
		if _, final := errors.AsType[permanent](err); final || attempt >= attempts || ctx.Err() != nil {
			return fmt.Errorf("get %s: %w", url, err)
		}
		_ = lifecycle.Sleep(ctx, pause) // the next attempt reports its end
		pause *= 2
	}
}

// counter reports the progress of a file.
type counter struct {
	w                 io.Writer
	tell              func(string, int64, int64)
	url               string
	have, total, told int64
	limit             int64
}

func (c *counter) Write(p []byte) (int, error) {
	if c.limit > 0 && c.have+int64(len(p)) > c.limit {
		return 0, permanent{fmt.Errorf("it has more than %d bytes", c.limit)}
	}
	n, err := c.w.Write(p)
	c.have += int64(n)
	if c.tell != nil && (c.have-c.told >= progressEvery || c.have == c.total) {
		c.told = c.have
		c.tell(c.url, c.have, c.total)
	}
	return n, err
}
