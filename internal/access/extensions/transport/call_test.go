// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/capstan-dev/capstan/internal/builder"
)

func TestPostSendsJSONAndTheTimeLeft(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*httptest.Server, *authority){"over HTTP/1.1": http1, "over HTTP/2.0": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got *http.Request
			var body []byte
			e := serve(t, func(w http.ResponseWriter, r *http.Request) {
				got = r
				body, _ = io.ReadAll(r.Body)
				answer(`{"status":"Success"}`)(w, r)
			}, edit)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled}))
			reply, err := newPool(t, Options{}).Post(ctx, e, path, []byte(`{"a":1}`))
			if err != nil {
				t.Fatal(err)
			}
			if string(reply) != `{"status":"Success"}` || string(body) != `{"a":1}` {
				t.Errorf("sent %s, got %s", body, reply)
			}
			if got.Method != http.MethodPost || got.URL.Path != path || got.Proto != strings.TrimPrefix(name, "over ") || got.ContentLength != 7 {
				t.Errorf("got %s %s %s with %d bytes", got.Method, got.URL.Path, got.Proto, got.ContentLength)
			}
			left, err := time.ParseDuration(got.URL.Query().Get("timeout"))
			if err != nil || left <= 0 || left > 10*time.Second {
				t.Errorf("timeout is %v, %v", left, err)
			}
			got.Header.Del("Content-Length")
			want := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"capstan"}, "Traceparent": {"00-01000000000000000000000000000000-0200000000000000-01"}}
			if diff := cmp.Diff(want, got.Header); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
			if header.Get("Traceparent") != "" {
				t.Error("the shared header was written to")
			}
		})
	}
}

func TestTimeLeftIsRoundedUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // virtual time stands still
		for left, want := range map[time.Duration]string{10*time.Second - 50*time.Microsecond: "10s", 1500 * time.Millisecond: "1.5s", -time.Second: "10ms"} {
			ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(left))
			if got := timeLeft(ctx); got != want {
				t.Errorf("%v left reads %s, want %s", left, got, want)
			}
			cancel()
		}
	})
}

func TestACallWithoutADeadlineGetsOne(t *testing.T) {
	t.Parallel()
	var query string
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.RawQuery
		answer(`{}`)(w, r)
	}, nil)
	if _, err := newPool(t, Options{}).Post(t.Context(), e, path, nil); err != nil {
		t.Fatal(err)
	}
	if left, err := time.ParseDuration(strings.TrimPrefix(query, "timeout=")); err != nil || left > defaultTimeout {
		t.Errorf("got query %s", query)
	}
}

// manyHeaders exceed maxHeaderBytes.
var manyHeaders = func() map[string]string {
	all := map[string]string{}
	for i := range maxHeaderBytes / 1000 {
		all[fmt.Sprint("X-", i)] = strings.Repeat("x", 1000)
	}
	return all
}()

func TestAnswersAreChecked(t *testing.T) {
	t.Parallel()
	const limit = 1000
	big := strings.Repeat("x", limit)
	tests := map[string]struct {
		status     int
		header     map[string]string
		body       string
		wantReason Reason // empty: no error
		wantTexts  []string
	}{
		"JSON":                           {header: map[string]string{"Content-Type": "application/json"}, body: `{}`},
		"JSON with a parameter":          {header: map[string]string{"Content-Type": "Application/JSON; charset=utf-8"}, body: `{}`},
		"no type at all":                 {header: map[string]string{"Content-Type": ""}, body: `{}`},
		"what net/http makes of none":    {body: `{}`},
		"answer of just the limit":       {body: big},
		"HTML":                           {header: map[string]string{"Content-Type": "text/html"}, body: `<p>`, wantReason: ContentType, wantTexts: []string{"text/html, not application/json"}},
		"malformed type":                 {header: map[string]string{"Content-Type": "application json"}, body: `{}`, wantReason: ContentType, wantTexts: []string{"malformed"}},
		"compressed without being asked": {header: map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}, body: "\x1f", wantReason: ContentType, wantTexts: []string{"encoded as gzip"}},
		"one byte too many":              {body: big + "x", wantReason: TooLarge, wantTexts: []string{"more than the 1000 allowed"}},
		"headers without end":            {header: manyHeaders, wantReason: TooLarge, wantTexts: []string{"headers"}},
		"no content":                     {status: 204, wantReason: Status, wantTexts: []string{"answers POST " + path + " with 204 No Content"}},
		"not found":                      {status: 404, body: "no such\x1b[31m\n\n handler", wantReason: Status, wantTexts: []string{"404 Not Found: no such\\x1b[31m handler"}},
		"server error with a long text":  {status: 500, body: strings.Repeat("é", 10000), wantReason: Status, wantTexts: []string{"500 Internal Server Error: éé"}},
		"unknown status":                 {status: 599, wantReason: Status, wantTexts: []string{"with 599"}},
		"redirect":                       {status: 307, header: map[string]string{"Location": "https://user:secret@elsewhere.example:1/x?token=secret"}, wantReason: Redirect, wantTexts: []string{"307 Temporary Redirect to elsewhere.example:1: redirects are not followed"}},
		"redirect within the server":     {status: 308, header: map[string]string{"Location": "/x"}, wantReason: Redirect, wantTexts: []string{"to 127.0.0.1:"}},
		"redirect to nowhere":            {status: 302, wantReason: Redirect, wantTexts: []string{"302 Found to 127.0.0.1:"}},
		"not modified":                   {status: 304, wantReason: Status, wantTexts: []string{"304 Not Modified"}},
	}
	for name, tc := range tests {
		for proto, edit := range map[string]func(*httptest.Server, *authority){"HTTP1": http1, "HTTP2": nil} {
			t.Run(name+"/"+proto, func(t *testing.T) {
				t.Parallel()
				e := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					for k, v := range tc.header {
						w.Header()[k] = []string{v}
						if v == "" {
							w.Header()[k] = nil
						}
					}
					if tc.status != 0 {
						w.WriteHeader(tc.status)
					}
					_, _ = io.WriteString(w, tc.body)
				}, edit)
				got, err := newPool(t, Options{MaxResponseBytes: limit}).Post(within(t), e, path, []byte(`{}`))
				if tc.wantReason == "" {
					if err != nil || string(got) != tc.body {
						t.Errorf("got %q, %v", got, err)
					}
					return
				}
				failure := wantError(t, err, tc.wantReason, tc.wantTexts...)
				if tc.status != 0 && failure.Status != tc.status {
					t.Errorf("status %d, want %d", failure.Status, tc.status)
				}
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("reveals a secret: %v", err)
				}
			})
		}
	}
}

// TestAnAnswerWithoutEndIsReadToItsLimit uses responses whose length is missing or
// wrong: they are not read to their end.
func TestAnAnswerWithoutEndIsReadToItsLimit(t *testing.T) {
	t.Parallel()
	for name, headers := range map[string]string{
		"length not told":         "",
		"length much too small":   "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
		"length of five gigabyte": "Content-Length: 5368709120\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sent atomic.Int64
			e := serveRaw(t, false, func(c net.Conn) {
				if !hear(c) {
					return
				}
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n%s\r\n", headers)
				chunk := "1000\r\n" + strings.Repeat("x", 0x1000) + "\r\n"
				for {
					n, err := io.WriteString(c, chunk)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			})
			p := newPool(t, Options{MaxResponseBytes: 100_000})
			_, err := p.Post(within(t), e, path, []byte(`{}`))
			wantError(t, err, TooLarge, "100000")
			p.Close()
			if sent.Load() > 100<<20 {
				t.Errorf("%d bytes were taken", sent.Load())
			}
		})
	}
}

func TestALargeAnswerArrivesWhole(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*httptest.Server, *authority){"HTTP1": http1, "HTTP2": nil} {
		for _, told := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, length told %t", name, told), func(t *testing.T) {
				t.Parallel()
				want := bytes.Repeat([]byte("0123456789"), 500_000)
				e := serve(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "application/json")
					if told {
						w.Header().Set("Content-Length", fmt.Sprint(len(want)))
					}
					_, _ = w.Write(want)
				}, edit)
				got, err := newPool(t, Options{}).Post(within(t), e, path, want)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("got %d bytes, %v", len(got), err)
				}
			})
		}
	}
}

func TestTheRequestIsNotQuotedWhenItIsSentBack(t *testing.T) {
	t.Parallel()
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, "cannot read: ")
		_, _ = io.Copy(w, r.Body)
	}, nil)
	p := newPool(t, Options{})
	body := `{"cluster":{"metadata":{"name":"prod"}},"variables":[{"name":"registryPassword","value":"hunter2"}]}`
	_, err := p.Post(within(t), e, path, []byte(body))
	if e := wantError(t, err, Status, "400 Bad Request, and its text, which repeats the request, is left out"); strings.Contains(e.Error(), "hunter2") {
		t.Errorf("the request is quoted: %v", err)
	}
}

func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	for name, http2 := range map[string]bool{"HTTP1": false, "HTTP2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int32
			e := serve(t, answer(`{}`), func(s *httptest.Server, _ *authority) {
				s.EnableHTTP2 = http2
				s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
					if state == http.StateNew {
						conns.Add(1)
					}
				}
			})
			p := newPool(t, Options{})
			for range 10 {
				if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
					t.Fatal(err)
				}
			}
			if n := conns.Load(); n != 1 {
				t.Errorf("%d connections for ten calls", n)
			}
			p.Forget(e)
			if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
				t.Fatal(err)
			}
			if n := conns.Load(); n != 2 {
				t.Errorf("%d connections after Forget, want 2", n)
			}
		})
	}
}

func TestACallSurvivesAServerThatClosesIdleConnections(t *testing.T) {
	t.Parallel()
	var served atomic.Int32
	e := serveRaw(t, false, func(c net.Conn) { // one response per connection, and a close at the next request
		if hear(c) {
			served.Add(1)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
			hear(c)
		}
	})
	p := newPool(t, Options{})
	for range 5 {
		if _, err := p.Post(within(t), e, path, []byte(`{"a":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	if n := served.Load(); n != 5 {
		t.Errorf("%d answers, want 5", n)
	}
}

func TestAnAddressIsDialledAsTheOptionsSay(t *testing.T) {
	t.Parallel()
	e := serve(t, answer(`{}`), func(*httptest.Server, *authority) {})
	at, _ := url.Parse(e.URL)
	var dialled []string
	p := newPool(t, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled = append(dialled, address)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}})
	if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if len(dialled) != 1 || dialled[0] != at.Host {
		t.Errorf("dialled %v, want %s", dialled, at.Host)
	}
}

type resolver func(namespace, name string, port int32) (string, error)

func (r resolver) Resolve(_ context.Context, namespace, name string, port int32) (string, error) {
	return r(namespace, name, port)
}

// TestAServiceIsReachedWhereTheResolverSaysAndUnderItsOwnName sets a proxy that
// does not exist in the environment: a call through it would fail. The host is not
// one that is never proxied.
func TestAServiceIsReachedWhereTheResolverSaysAndUnderItsOwnName(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("https_proxy", "http://127.0.0.1:1")
	var got *http.Request
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		answer(`{}`)(w, r)
	}, func(s *httptest.Server, a *authority) {
		s.TLS.Certificates[0] = a.issue(func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"ext.tools.svc"} })
	})
	address := strings.TrimPrefix(e.URL, "https://")
	asked := 0
	p := newPool(t, Options{Services: resolver(func(namespace, name string, port int32) (string, error) {
		asked++
		if namespace != "tools" || name != "ext" || port != 8443 {
			t.Errorf("asked for %s/%s port %d", namespace, name, port)
		}
		return address, nil
	})})
	e = Endpoint{Service: &Service{Namespace: "tools", Name: "ext", Path: "base", Port: 8443}, CABundle: e.CABundle}
	for range 3 {
		if _, err := p.Post(within(t), e, path, []byte(`{}`)); err != nil {
			t.Fatal(err)
		}
	}
	if got.URL.Path != "/base"+path || got.Host != "ext.tools.svc:8443" || got.TLS.ServerName != "ext.tools.svc" {
		t.Errorf("got path %s, host %s, server name %s", got.URL.Path, got.Host, got.TLS.ServerName)
	}
	if asked != 1 {
		t.Errorf("the resolver was asked %d times for one connection", asked)
	}
}

func TestAServiceThatIsNotFoundIsNamed(t *testing.T) {
	t.Parallel()
	p := newPool(t, Options{Services: resolver(func(string, string, int32) (string, error) { return "", errors.New("it has no ready endpoint") })})
	_, err := p.Post(within(t), Endpoint{Service: &Service{Namespace: "tools", Name: "ext"}}, path, []byte(`{}`))
	wantError(t, err, Connection, "server ext.tools.svc:443: connect: find Service tools/ext: it has no ready endpoint")
}

func TestServerWithFramesOfNoSizeEndsCalls(t *testing.T) {
	t.Parallel()
	s := builder.ZeroFrames(t)
	e := Endpoint{URL: s.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a client that accepts the value waits as long
	defer cancel()
	if answer, err := newPool(t, Options{}).Post(ctx, e, path, make([]byte, 1<<20)); err == nil || ctx.Err() != nil {
		t.Errorf("got %q, %v, want an error before the deadline", answer, err)
	}
}
