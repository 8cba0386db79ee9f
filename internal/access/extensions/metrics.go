// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

// metrics measures calls. The series of a host are deleted with its last
// ExtensionConfig.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	outdated *prometheus.GaugeVec

	mu    sync.Mutex       // guards hosts, and ensures that series are only created for hosts in it
	hosts map[string]hosts // by config
}

// hosts are the host on which the extension of a config is called, and that of its
// last discovery. They differ after a change of the address until discovery
// succeeds at the new one.
type hosts struct{ called, asked string }

func (h hosts) have(host string) bool { return h.called == host || h.asked == host }

func newMetrics(into prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "capi_runtime_sdk_requests_total",
			Help: "Requests to runtime extensions by host, hook and HTTP status, or why there is no usable answer; other codes than 200 mean hooks that go unanswered.",
		}, []string{"host", "group", "version", "hook", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "capi_runtime_sdk_request_duration_seconds",
			Help:    "Time of a request to a runtime extension by host and hook; growth means a slow extension, which holds up what the hook is for.",
			Buckets: []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30},
		}, []string{"host", "group", "version", "hook"}),
		outdated: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "capi_runtime_sdk_deprecated_handlers",
			Help: "Registered handlers of deprecated hook versions; while it is not zero, an upgrade that drops the version breaks them.",
		}, []string{"group", "version", "hook"}),
		hosts: map[string]hosts{},
	}
	return m, errors.Join(registered(into, &m.requests), registered(into, &m.duration), registered(into, &m.outdated))
}

// registered registers a collector, or returns the one that another client of this
// process has already registered.
func registered[C prometheus.Collector](into prometheus.Registerer, c *C) error {
	err := into.Register(*c)
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if same, ok := already.ExistingCollector.(C); ok {
			*c = same
			return nil
		}
	}
	return err
}

// at updates the hosts of a config's extension; the zero value removes them.
func (m *metrics) at(config string, is func(was hosts) hosts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.hosts[config]
	now := is(was)
	if now == was {
		return
	}
	m.hosts[config] = now
	if now == (hosts{}) {
		delete(m.hosts, config)
	}
	for _, host := range []string{was.called, was.asked} {
		if host != "" && !m.known(host) {
			m.requests.DeletePartialMatch(prometheus.Labels{"host": host})
			m.duration.DeletePartialMatch(prometheus.Labels{"host": host})
		}
	}
}

// known reports whether an extension has this host. The caller must hold the lock.
func (m *metrics) known(host string) bool {
	for _, h := range m.hosts {
		if h.have(host) {
			return true
		}
	}
	return false
}

func (m *metrics) record(t *target, code string, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.hosts[t.config].have(t.host) {
		return // it was removed or moved during the call
	}
	m.requests.WithLabelValues(t.host, t.hook.Group, t.hook.Version, t.hook.Hook, code).Inc()
	m.duration.WithLabelValues(t.host, t.hook.Group, t.hook.Version, t.hook.Hook).Observe(took.Seconds())
}

// deprecated sets the numbers of handlers of deprecated hook versions.
func (m *metrics) deprecated(counts map[catalog.GroupVersionHook]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outdated.Reset()
	for hook, n := range counts {
		m.outdated.WithLabelValues(hook.Group, hook.Version, hook.Hook).Set(float64(n))
	}
}

// codeOf returns the HTTP status, or a word for why there is no usable response.
func codeOf(err error) string {
	if err == nil {
		return "200"
	}
	if _, ok := errors.AsType[*extensionconfig.FailureError](err); ok {
		return "200"
	}
	if _, ok := errors.AsType[unusableError](err); ok {
		return "Unusable"
	}
	if e, ok := errors.AsType[*transport.Error](err); ok {
		if e.Status != 0 && e.Status != 200 {
			return strconv.Itoa(e.Status)
		}
		return string(e.Reason)
	}
	return "Internal"
}
