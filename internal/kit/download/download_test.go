// SPDX-License-Identifier: Apache-2.0

package download

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var content = bytes.Repeat([]byte("capstan "), 1000)

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// half sends the first half of the content, and breaks the connection.
func half(w http.ResponseWriter) {
	w.Header().Set("Content-Length", fmt.Sprint(len(content)))
	_, _ = w.Write(content[:len(content)/2])
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func whole(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func TestFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		before  string // left by an earlier attempt
		answers []func(http.ResponseWriter, *http.Request)
		ranges  string // of the requests, in order
		want    string // of the error
	}{
		"it is there": {
			answers: []func(http.ResponseWriter, *http.Request){whole}, ranges: "all",
		},
		"the connection breaks": {
			answers: []func(http.ResponseWriter, *http.Request){func(w http.ResponseWriter, _ *http.Request) { half(w) }, whole},
			ranges:  "all,bytes=4000-",
		},
		"an earlier attempt was interrupted": {
			before:  string(content[:100]),
			answers: []func(http.ResponseWriter, *http.Request){whole}, ranges: "bytes=100-",
		},
		"it was interrupted at the very end": {
			before:  string(content),
			answers: []func(http.ResponseWriter, *http.Request){whole}, ranges: "bytes=8000-",
		},
		"what is there already is of another file": {
			before:  strings.Repeat("x", 100),
			answers: []func(http.ResponseWriter, *http.Request){whole, whole}, ranges: "bytes=100-,all",
		},
		"the server knows no ranges": {
			before:  string(content[:100]),
			answers: []func(http.ResponseWriter, *http.Request){func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(content) }}, ranges: "bytes=100-",
		},
		"it is moved": {
			answers: []func(http.ResponseWriter, *http.Request){
				func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, whole,
			},
			ranges: "all,all",
		},
		"it is moved for ever": {
			answers: []func(http.ResponseWriter, *http.Request){func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }},
			ranges:  strings.TrimSuffix(strings.Repeat("all,", maxRedirects), ","),
			want:    "more than 10 redirects",
		},
		"the server is unhealthy for a while": {
			answers: []func(http.ResponseWriter, *http.Request){status(503), status(429), whole}, ranges: "all,all,all",
		},
		"the server is unhealthy for long": {
			answers: []func(http.ResponseWriter, *http.Request){status(500)}, ranges: "all,all,all",
			want: "500 Internal Server Error",
		},
		"there is no such file": {
			answers: []func(http.ResponseWriter, *http.Request){status(404)}, ranges: "all",
			want: "404 Not Found",
		},
		"it is another file than was promised": {
			answers: []func(http.ResponseWriter, *http.Request){func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("evil")) }},
			ranges:  "all,all,all",
			want:    "it has digest sha256:" + sha([]byte("evil")) + ", want sha256:" + sha(content),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ranges []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer := tc.answers[min(len(ranges), len(tc.answers)-1)]
				asked := r.Header.Get("Range")
				if asked == "" {
					asked = "all"
				}
				ranges = append(ranges, asked)
				answer(w, r)
			}))
			defer server.Close()
			file := filepath.Join(t.TempDir(), "file")
			if tc.before != "" {
				if err := os.WriteFile(file+".part", []byte(tc.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c := &Client{HTTP: *server.Client(), Attempts: 3, Pause: 1}
			err := c.File(t.Context(), server.URL, file, sha(content))
			if got := strings.Join(ranges, ","); got != tc.ranges {
				t.Errorf("asked for %s, want %s", got, tc.ranges)
			}
			if tc.want == "" {
				if have, _ := os.ReadFile(file); err != nil || !bytes.Equal(have, content) {
					t.Errorf("got %d bytes, %v", len(have), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "get "+server.URL) {
				t.Errorf("got %v, want %q about %s", err, tc.want, server.URL)
			}
			if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a file is in place: %v", err)
			}
		})
	}
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestWhatIsThereIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&Client{}).File(t.Context(), "http://127.0.0.1:0", file, sha(content)); err != nil {
		t.Error(err)
	}
}

func TestARequestThatStandsStillFails(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	c := &Client{HTTP: *server.Client(), Attempts: 2, Pause: 1, Idle: time.Millisecond}
	err := c.File(t.Context(), server.URL, filepath.Join(t.TempDir(), "file"), sha(content))
	if err == nil || !strings.Contains(err.Error(), "the server sent nothing for 1ms") {
		t.Errorf("got %v, want that nothing came", err)
	}
}

func TestWhoIsInterruptedStopsAtOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		cancel()
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	c := &Client{HTTP: *server.Client(), Attempts: 100, Pause: time.Hour}
	if err := c.File(ctx, server.URL, filepath.Join(t.TempDir(), "file"), sha(content)); err == nil || asked != 1 {
		t.Errorf("asked %d times, %v; want once and an error", asked, err)
	}
}

func TestEncryptionIsNotGivenUp(t *testing.T) {
	t.Parallel()
	plain := httptest.NewServer(http.HandlerFunc(whole))
	defer plain.Close()
	server := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	defer server.Close()
	c := &Client{HTTP: *server.Client(), Attempts: 3, Pause: 1}
	_, err := c.Text(t.Context(), server.URL)
	if err == nil || !strings.Contains(err.Error(), "which is not encrypted") {
		t.Errorf("got %v, want a refusal", err)
	}
}

func TestChecksum(t *testing.T) {
	t.Parallel()
	a, b := sha([]byte("a")), sha([]byte("b"))
	for name, tc := range map[string]struct{ text, want string }{
		"alone":              {a + "\n", a},
		"in capitals":        {strings.ToUpper(a), a},
		"of several":         {b + "  other\n" + a + "  file\n", a},
		"of a binary file":   {a + " *file\n", a},
		"in a folder":        {a + "  ./dist/file\n", a},
		"of others alone":    {b + "  other\n", ""},
		"not one":            {"<html>not found</html>", ""},
		"one that is cut":    {a[:63] + "\n", ""},
		"of SHA-512 instead": {a + b + "  file\n", ""},
	} {
		got, err := Checksum(tc.text, "file")
		if got != tc.want || (err == nil) != (tc.want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tc.want)
		}
	}
}
