// SPDX-License-Identifier: Apache-2.0

// Package inflight lets a server work on a few requests at a time, and the
// others wait for their turn.
package inflight

import "net/http"

// Limit lets next serve at most n of the requests that counts says yes to at
// the same time. The others wait in the order of their arrival, or until their
// context ends.
//
// Waiting here is better than working together. The goroutines that bring
// changes to the watchers are few, and get one share each of a processor that
// every request in service takes a share of as well: with a hundred of those,
// the watchers fall behind, act on what is long past, and write even more.
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
