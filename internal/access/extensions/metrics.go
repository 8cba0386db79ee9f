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
	"github.com/capstan-dev/capstan/internal/pure/extensions"
)

// metrics measures calls. Series of a host go when its last ExtensionConfig
// does.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	outdated *prometheus.GaugeVec

	mu    sync.Mutex       // guards hosts, and that no series is made for a host that is in none
	hosts map[string]hosts // by config
}

// hosts are where the extension of a config is called, and where it was last
// asked what it can do. They differ after its address was changed until the
// new one has answered.
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

// registered registers a collector, or takes the one that is registered
// already by another client of this process.
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

// at says where a config's extension is; the zero value is nowhere any more.
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

// known needs the lock.
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
		return // gone or moved while the call was under way
	}
	m.requests.WithLabelValues(t.host, t.hook.Group, t.hook.Version, t.hook.Hook, code).Inc()
	m.duration.WithLabelValues(t.host, t.hook.Group, t.hook.Version, t.hook.Hook).Observe(took.Seconds())
}

// deprecated says how many handlers of deprecated hook versions there are.
func (m *metrics) deprecated(counts map[catalog.GroupVersionHook]int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.outdated.Reset()
	for hook, n := range counts {
		m.outdated.WithLabelValues(hook.Group, hook.Version, hook.Hook).Set(float64(n))
	}
}

// codeOf is the HTTP status, or a word for why there is no usable answer.
func codeOf(err error) string {
	if err == nil {
		return "200"
	}
	if _, ok := errors.AsType[*extensions.FailureError](err); ok {
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
