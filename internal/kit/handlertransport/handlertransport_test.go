// SPDX-License-Identifier: Apache-2.0

package handlertransport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func get(ctx context.Context, t *testing.T, h http.Handler, body io.Reader) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://in-process/a/b?c=d", body)
	if err != nil {
		t.Fatal(err)
	}
	return (&http.Client{Transport: Transport(h)}).Do(req)
}

func TestTransportCarriesRequestAndAnswer(t *testing.T) {
	t.Parallel()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.RequestURI != "/a/b?c=d" || r.Host != "in-process" || r.RemoteAddr == "" {
			t.Errorf("request is for %q at %q from %q", r.RequestURI, r.Host, r.RemoteAddr)
		}
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Late", "no") // after the header was sent
		_, _ = w.Write(append([]byte("got "), b...))
	})
	res, err := get(t.Context(), t, h, strings.NewReader("question"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil || string(b) != "got question" {
		t.Errorf("body %q, %v", b, err)
	}
	if res.StatusCode != http.StatusTeapot || res.Header.Get("X-Answer") != "yes" || res.Header.Get("X-Late") != "" {
		t.Errorf("status %d, header %v", res.StatusCode, res.Header)
	}
}

func TestTransportStreamsWhatAHandlerFlushes(t *testing.T) {
	t.Parallel()
	next, left := make(chan string), make(chan struct{})
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(left)
		w.(http.Flusher).Flush() // the client gets its response before there is a body
		for {
			select {
			case line := <-next:
				_, _ = io.WriteString(w, line+"\n")
			case <-r.Context().Done():
				return
			}
		}
	})
	res, err := get(t.Context(), t, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(res.Body)
	for _, want := range []string{"one", "two"} {
		next <- want
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("read %q, want %q: %v", lines.Text(), want, lines.Err())
		}
	}
	_ = res.Body.Close()
	<-left // a handler learns that the response is no longer read
}

func TestTransportReturnsWhenTheCallerGivesUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	if _, err := get(ctx, t, h, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
}

func TestTransportBreaksOffWithTheHandler(t *testing.T) {
	t.Parallel()
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	})
	res, err := get(t.Context(), t, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(res.Body); string(b) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %q, %v: want half and an error", b, err)
	}
	for name, why := range map[string]any{"on purpose": http.ErrAbortHandler, "by mistake": "index out of range"} { // which ends no process
		silent := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(why) })
		if _, err := get(t.Context(), t, silent, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: error %v, want unexpected end", name, err)
		}
	}
}

func TestTransportHoldsAHandlerThatWritesFarAhead(t *testing.T) {
	t.Parallel()
	const chunk, chunks = 256 << 10, 40
	wrote := make(chan int, chunks)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range chunks {
			if _, err := w.Write(bytes.Repeat([]byte{'x'}, chunk)); err != nil {
				t.Error(err)
			}
			wrote <- i
		}
	})
	res, err := get(t.Context(), t, h, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // one more than fits
		<-wrote
	}
	if n := unread(res); n > maxUnread+chunk {
		t.Errorf("%d bytes wait for the reader, limit %d", n, maxUnread+chunk)
	}
	n, err := io.Copy(io.Discard, res.Body)
	if err != nil || n != chunk*chunks {
		t.Errorf("read %d bytes, %v: want %d", n, err, chunk*chunks)
	}
}

// TestWhatIsReadMakesRoomForWhatComes is about watches and lists: each event of a
// watch and each object of a list is a separate write.
func TestWhatIsReadMakesRoomForWhatComes(t *testing.T) {
	r := &response{header: http.Header{}, started: make(chan struct{}), ctx: t.Context()}
	r.changed.L = &r.mu
	event, read := make([]byte, 4<<10), make([]byte, 3<<10)
	pass := func(event []byte) {
		if _, err := r.Write(event); err != nil {
			t.Error(err)
		}
		for left := len(event); left > 0; {
			n, err := r.Read(read)
			if left -= n; err != nil || n == 0 {
				t.Fatalf("read %d bytes, %v", n, err)
			}
		}
	}
	pass(event)
	if got := testing.AllocsPerRun(10, func() { pass(event) }); got > 0 {
		t.Errorf("%v allocations an event, want none", got)
	}
	pass(make([]byte, 2*maxKept))
	if got := r.unread.Cap(); got > maxKept {
		t.Errorf("keeps %d bytes when all is read, want at most %d", got, maxKept)
	}
}

func unread(res *http.Response) int {
	r := res.Body.(*response)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unread.Len()
}

func request(ctx context.Context, h http.Handler, method string) int {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "/", nil))
	return w.Code
}

func isWrite(r *http.Request) bool { return r.Method == http.MethodPost }

func TestLimitHoldsWhatComesAfterTheFirstFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var arrived atomic.Int32
		leave := make(chan struct{})
		h := Limit(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if isWrite(r) {
				arrived.Add(1)
				<-leave
			}
		}), 2, isWrite)
		for range 5 {
			go request(t.Context(), h, http.MethodPost)
		}
		for _, want := range []int32{2, 3, 4, 5} {
			synctest.Wait()
			if got := arrived.Load(); got != want {
				t.Errorf("%d requests are being served, want %d", got, want)
			}
			if code := request(t.Context(), h, http.MethodGet); code != http.StatusOK {
				t.Errorf("a request that does not count has status %d", code)
			}
			leave <- struct{}{}
		}
		close(leave)
	})
}

func TestLimitReleasesEndedRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		h := Limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }), 1, isWrite)
		go request(t.Context(), h, http.MethodPost)
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if code := request(ctx, h, http.MethodPost); code != http.StatusServiceUnavailable {
			t.Errorf("status %d, want %d", code, http.StatusServiceUnavailable)
		}
		close(leave)
	})
}

func TestLimitYAMLRefusesLargeAliases(t *testing.T) {
	t.Parallel()
	const maxBody = 200 << 10
	h := LimitYAML(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), maxBody)
	bomb := "a: &a " + strings.Repeat("x", 100<<10) + "\nb: [" + strings.Repeat("*a,", 1000) + "]"
	tests := map[string]struct {
		media, body string
		code        int
	}{
		"YAML":         {"application/yaml", "a: '&*'", http.StatusOK},
		"a large body": {"application/yaml", strings.Repeat("&*", maxBody), http.StatusOK},
		"JSON":         {"application/json", bomb, http.StatusOK},
		"aliases":      {"Application/Apply-Patch+YAML", bomb, http.StatusBadRequest},
	}
	for name, tc := range tests {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tc.body))
		r.Header.Set("Content-Type", tc.media)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Body.String(); w.Code != tc.code || (got == tc.body) != (tc.code == http.StatusOK) {
			t.Errorf("%s: code %d, body %.200s", name, w.Code, got)
		}
	}
}
