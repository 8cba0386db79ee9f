// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// allowedAllocations is how many more allocations than plain net/http a call
// through the whole client may have, as the project has decided; transport must
// leave room.
const allowedAllocations = 60

// echoServer responds with the request, since a typical response has about its
// length.
func echoServer(t testing.TB, edit func(*httptest.Server, *authority)) (Endpoint, *http.Client) {
	t.Helper()
	e := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
	}, edit)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(e.CABundle)
	plain := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}
	t.Cleanup(plain.CloseIdleConnections)
	return e, &http.Client{Transport: plain, Timeout: time.Minute}
}

func plainPost(c *http.Client, url string, body []byte) error {
	resp, err := c.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	answer, err := io.ReadAll(resp.Body)
	if len(answer) != len(body) {
		err = io.ErrShortWrite
	}
	return errors.Join(err, resp.Body.Close())
}

func TestACallAllocatesNoMoreThanPlainHTTP(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 4<<10)
	for name, edit := range map[string]func(*httptest.Server, *authority){"HTTP1": http1, "HTTP2": nil} {
		e, client := echoServer(t, edit)
		p := newPool(t, Options{})
		ctx := within(t)
		plain := testing.AllocsPerRun(200, func() {
			if err := plainPost(client, e.URL+path, body); err != nil {
				t.Fatal(err)
			}
		})
		post := testing.AllocsPerRun(200, func() {
			if _, err := p.Post(ctx, e, path, body); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%s: %.0f allocations, plain net/http has %.0f", name, post, plain)
		if post > plain+allowedAllocations/4 {
			t.Errorf("%s: %.0f allocations, plain net/http has %.0f", name, post, plain)
		}
	}
}

func BenchmarkPost(b *testing.B) {
	for name, edit := range map[string]func(*httptest.Server, *authority){"HTTP1": http1, "HTTP2": nil} {
		for size, body := range map[string][]byte{"4KiB": bytes.Repeat([]byte("x"), 4<<10), "256KiB": bytes.Repeat([]byte("x"), 256<<10)} {
			b.Run(name+"/"+size, func(b *testing.B) { benchmarkPost(b, edit, body) })
		}
	}
}

func benchmarkPost(b *testing.B, edit func(*httptest.Server, *authority), body []byte) {
	e, client := echoServer(b, edit)
	p := newPool(b, Options{})
	ctx := within(b)
	b.Run("plain", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := plainPost(client, e.URL+path, body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("transport", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if answer, err := p.Post(ctx, e, path, body); err != nil || len(answer) != len(body) {
				b.Fatal(err)
			}
		}
	})
}
