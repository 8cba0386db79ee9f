// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	healthPath  = "/healthz"
	readyPath   = "/readyz"
	metricsPath = "/metrics"
)

// serveHealth reports whether the process works, and whether it accepts calls: no longer
// once it stops.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "health is asked for with GET", http.StatusMethodNotAllowed)
		return
	}
	if r.URL.Path == readyPath && s.stopping.Load() {
		http.Error(w, "stopping", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // the client has disconnected
}

// operations serves health and metrics.
func (s *Server) operations() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc(healthPath, s.serveHealth)
	mux.HandleFunc(readyPath, s.serveHealth)
	mux.Handle("GET "+metricsPath, promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	return mux
}
