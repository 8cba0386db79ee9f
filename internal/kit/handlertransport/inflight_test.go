// SPDX-License-Identifier: Apache-2.0

package handlertransport

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

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
