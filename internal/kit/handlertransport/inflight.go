// SPDX-License-Identifier: Apache-2.0

package handlertransport

import "net/http"

// Limit lets next serve at most n of the requests for which counts returns true at
// the same time. The others wait in the order of their arrival, or until their
// context ends.
//
// Waiting here is better than working together. The goroutines that send changes to
// the watchers are few, and each of them competes for the processor with every
// request in service: with a hundred of those, the watchers fall behind, act on
// stale state, and write even more.
func Limit(next http.Handler, n int, counts func(*http.Request) bool) http.Handler {
	slots := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !counts(r) {
			next.ServeHTTP(w, r)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			next.ServeHTTP(w, r)
		case <-r.Context().Done():
			http.Error(w, "the request ended before its turn came", http.StatusServiceUnavailable)
		}
	})
}
