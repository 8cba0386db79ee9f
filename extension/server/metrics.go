// SPDX-License-Identifier: Apache-2.0

package server

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics are those of one server. Handlers are known from the start, so the
// labels are few; a call to nothing that is served has empty ones.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight *prometheus.GaugeVec
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capi_extension_server_requests_total",
			Help: "Calls by hook, handler, HTTP code and status of the response. A rise with status Failure or a code other than 200 means that callers do not get what they ask for; 499 are callers that gave up.",
		}, []string{"hook", "handler", "code", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "capi_extension_server_request_duration_seconds",
			Help:    "Time from a call to its answer. A rise towards the timeout of the handler means that calls will fail.",
			Buckets: []float64{.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30},
		}, []string{"hook", "handler"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capi_extension_server_requests_in_flight",
			Help: "Calls that are worked on, with those whose caller no longer waits. A rise without end means that handlers do not end with their context.",
		}, []string{"hook", "handler"}),
	}
	m.registry.MustRegister(m.requests, m.duration, m.inFlight,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) begin(r *route) { m.inFlight.WithLabelValues(r.hook.Hook, r.name).Inc() }

func (m *metrics) end(r *route) { m.inFlight.WithLabelValues(r.hook.Hook, r.name).Dec() }

func (m *metrics) observe(r *route, a answer, took time.Duration) {
	var hook, handler string
	if r != nil { // something is served there
		hook, handler = r.hook.Hook, r.name
	}
	m.requests.WithLabelValues(hook, handler, strconv.Itoa(a.code), string(a.status)).Inc()
	m.duration.WithLabelValues(hook, handler).Observe(took.Seconds())
}
