// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestWhatMayPassIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		handle http.HandlerFunc
		want   string
		asked  int
		err    string
	}{
		"at once":                {say("text"), "text", 1, ""},
		"a server that recovers": {inTurn(answerWith(503), answerWith(500), say("text")), "text", 3, ""},
		"one that does not":      {answerWith(502), "", 4, "the server answers 502 Bad Gateway: answer 502"},
		"a body that is cut off": {inTurn(cutOff, say("text")), "text", 2, ""},
		"one that always is":     {cutOff, "", 4, "unexpected EOF"},
		"a pause of its own":     {inTurn(answerWith(429, "Retry-After", "20"), say("text")), "text", 2, ""},
		"a long pause":           {answerWith(429, "Retry-After", "21"), "", 1, "429 Too Many Requests"},
		"nothing there":          {answerWith(404), "", 1, "does not exist"},
		"no access":              {answerWith(403), "", 1, "403 Forbidden"},
		"never":                  {answerWith(501), "", 1, "501 Not Implemented"},
		"an endless body":        {endless, "", 1, "is larger than 4 MiB: is it the right file?"},
		"a page":                 {say("\n<!DOCTYPE HTML><html>login"), "", 1, "is a web page: does a proxy or a login stand before it?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.on("/f", tc.handle)
			got, err := Read(t.Context(), s.URL+"/f", nil, at(s))
			if tc.err != "" {
				wantError(t, err, tc.err)
				wantError(t, err, s.URL+"/f")
			} else if err != nil || string(got) != tc.want {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
			if n := len(s.takeAsked()); n != tc.asked {
				t.Errorf("%d requests, want %d", n, tc.asked)
			}
		})
	}
}

func TestTriesKeepApartAndTheServerMayAskForMore(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.on("/f", inTurn(answerWith(503), answerWith(503, "Retry-After", "7"), answerWith(503), say("text")))
	o := at(s)
	var pauses []time.Duration
	o.Pause = func(_ context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return nil
	}
	_, err := Read(t.Context(), s.URL+"/f", nil, o)
	if diff := cmp.Diff([]time.Duration{time.Second / 2, 7 * time.Second, 2 * time.Second}, pauses); err != nil || diff != "" {
		t.Errorf("error %v, pauses (-want +got):\n%s", err, diff)
	}
}

func TestFetchTimesOut(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options, context.CancelCauseFunc)
		want   string
	}{
		"a server that falls silent": {func(o *Options, _ context.CancelCauseFunc) { o.Stall = 10 * time.Millisecond }, "the server sent nothing for 10ms"},
		"a request without an end":   {func(o *Options, _ context.CancelCauseFunc) { o.Timeout = 10 * time.Millisecond }, "it took longer than 10ms"},
		"an interruption":            {func(_ *Options, cancel context.CancelCauseFunc) { cancel(errors.New("interrupted")) }, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.on("/f", silent)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			o := at(s)
			tc.change(&o, cancel)
			_, err := Read(ctx, s.URL+"/f", nil, o)
			wantError(t, err, tc.want)
			if n := len(s.takeAsked()); n > 1 {
				t.Errorf("%d requests, want one: who waited that long waits no longer", n)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	s, other := newServer(t), newServer(t)
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
	}
	token := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "token %q", r.Header.Get("Authorization"))
	}
	s.on("/token", token)
	other.on("/token", token)
	other.on("/back", redirect(s.URL+"/token"))
	for from, to := range map[string]string{
		"/here": "/token", "/there": other.URL + "/token", "/back": other.URL + "/back", "/loop": "/loop", "/plain": "http://example.com/", "/file": "file:///etc/passwd",
	} {
		s.on(from, redirect(to))
	}
	f := newFetcher(at(s))
	for from, want := range map[string]string{
		"/here": `token "Bearer secret"`, "/there": `token ""`, "/back": `token ""`,
	} {
		a, err := f.get(t.Context(), request{url: s.URL + from, token: "secret", limit: 100})
		if err != nil || string(a.data) != want {
			t.Errorf("%s: %s, %v, want %s", from, a.data, err, want)
		}
	}
	s.takeAsked()
	for from, want := range map[string]string{
		"/loop": "more than 10 redirects", "/plain": "it leads on to http://example.com: only https is followed", "/file": "it leads on to file://: only https is followed",
	} {
		_, err := f.get(t.Context(), request{url: s.URL + from, token: "secret", limit: 100})
		wantError(t, err, want)
	}
	if n := len(s.takeAsked()); n != 12 {
		t.Errorf("%d requests, want 10 of the loop and one each", n)
	}
	for _, to := range []string{"http://127.0.0.1:1/", "http://example.com/"} { // from https
		req, via := mustRequest(t, to), mustRequest(t, "https://example.com/")
		wantError(t, f.checkRedirect(req, []*http.Request{via}), "only https is followed")
	}
}

func mustRequest(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestSourcesOfTemplates(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.text("/dir/template.yaml?x=y", "of a server")
	s.text("/web/o/r/raw/main/a%20b/template.yaml", "of a branch")
	s.text("/api/repos/o/secret/contents/template.yaml?ref=main", "of a private branch")
	s.text("/web/o/r/releases/download/v1.0.0/template.yaml", "of a release")
	dir := t.TempDir()
	path := filepath.Join(dir, "template.yaml")
	writeFile(t, path, "of a file")
	for from, want := range map[string]string{
		"-": "of stdin", path: "of a file", "file://" + path: "of a file",
		s.URL + "/dir/template.yaml?x=y": "of a server",
	} {
		got, err := Read(t.Context(), from, strings.NewReader("of stdin"), at(s))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", from, got, err, want)
		}
		if sibling := Sibling(from, "template.yaml"); from != Stdin && sibling != from {
			t.Errorf("the sibling of %s is %s", from, sibling)
		}
	}
	for from, want := range map[string]string{
		"https://github.com/o/r/blob/main/a%20b/template.yaml":          "of a branch",
		"https://github.com/o/secret/blob/main/template.yaml":           "of a private branch",
		s.URL + "/web/o/r/blob/main/a%20b/template.yaml":                "of a branch",
		"https://github.com/o/r/releases/download/v1.0.0/template.yaml": "of a release",
	} {
		if got, err := Read(t.Context(), from, nil, at(s)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", from, got, err, want)
		}
	}
	for from, want := range map[string]string{
		dir + "/nothing":                                          "file " + dir + "/nothing does not exist",
		s.URL + "/nothing":                                        s.URL + "/nothing does not exist",
		"https://github.com/o/r/blob/main/nothing":                "nothing of branch main of github.com/o/r does not exist: or it is private: set GITHUB_TOKEN",
		"https://github.com/o/r/releases/download/v1.0.0/nothing": "github.com/o/r has no release v1.0.0",
	} {
		_, err := Read(t.Context(), from, nil, at(s))
		wantError(t, err, want)
		if !errors.As(err, new(*NotFoundError)) {
			t.Errorf("%s: error %v, want a NotFoundError", from, err)
		}
	}
	large := filepath.Join(dir, "large")
	writeFile(t, large, "")
	if err := os.Truncate(large, 100<<20); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{
		dir: "is a folder: name a file", large: "larger than 4 MiB", "http://example.com/x": "use https; http is for this host alone", "https://u:secret@example.com/%zz": "example.com/%zz: use https",
	} {
		_, err := Read(t.Context(), from, nil, at(s))
		wantError(t, err, want)
	}
}
