// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/pure/extensionconfig"
)

const (
	// window is the number of most recent calls for latencies.
	window = 128
	// maxErrorLength is the limit of the text of a stored error.
	maxErrorLength = 512
)

// HandlerStats are the results of the calls to a handler in this process, since it
// was first registered; or of the discoveries of an extension. A response from the
// cache is no call.
type HandlerStats struct {
	// Handler is the full name, empty for discovery, Config the
	// ExtensionConfig's.
	Handler string `json:"handler"`
	Config  string `json:"config"`

	// APIVersion and Hook are the hook that the handler answers.
	APIVersion string `json:"apiVersion"`
	Hook       string `json:"hook"`
	Deprecated bool   `json:"deprecated,omitempty"`

	// Host is the server, FailurePolicy and TimeoutSeconds those in force; discovery
	// has no policy.
	Host           string `json:"host"`
	FailurePolicy  string `json:"failurePolicy"`
	TimeoutSeconds int32  `json:"timeoutSeconds"`

	// Failures are calls without a usable response and responses of Failure, including
	// those that the failurePolicy hides.
	Calls    uint64 `json:"calls"`
	Failures uint64 `json:"failures"`

	// LastError is limited in length; it and the times are omitted until there is one.
	// It stays after successful calls.
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
	LastCall      time.Time `json:"lastCall,omitzero"`

	// P50Seconds and P99Seconds are latencies of the last 128 calls.
	P50Seconds float64 `json:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
}

// Stats lists the discoveries of all extensions that were called, by config, and
// then all handlers that are registered now, by name.
func (c *Client) Stats() []HandlerStats {
	out := c.discoveries.read()
	for _, h := range c.registry.all() {
		s := h.stats.read()
		s.describe(h.target)
		s.Deprecated, s.FailurePolicy, s.TimeoutSeconds = h.deprecated, string(h.failurePolicy), int32(h.timeout/time.Second)
		out = append(out, s)
	}
	return out
}

func (s *HandlerStats) describe(t target) {
	s.Handler, s.Config, s.Host = t.name, t.config, t.host
	s.APIVersion, s.Hook = t.hook.GroupVersion().String(), t.hook.Hook
}

// discoveries counts the discovery calls to extensions. The zero value is ready to
// use.
type discoveries struct {
	mu sync.Mutex // guards of
	of map[string]discovery
}

type discovery struct {
	target
	*stats
}

// begin returns where to record a discovery.
func (d *discoveries) begin(t target) *stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[string]discovery{}
	}
	s := cmp.Or(d.of[t.config].stats, &stats{})
	d.of[t.config] = discovery{t, s}
	return s
}

func (d *discoveries) forget(config string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, config)
}

func (d *discoveries) read() (out []HandlerStats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, config := range slices.Sorted(maps.Keys(d.of)) {
		s := d.of[config].stats.read()
		s.describe(d.of[config].target)
		s.TimeoutSeconds = int32(DiscoveryTimeout / time.Second)
		out = append(out, s)
	}
	return out
}

// stats counts the calls to one handler.
type stats struct {
	mu        sync.Mutex // guards the fields below
	calls     uint64
	failures  uint64
	failing   bool
	lastError string
	lastFail  time.Time
	lastCall  time.Time
	took      []time.Duration // a ring once it is full
}

// record counts a call and reports whether it is the first failure after a success.
func (s *stats) record(started time.Time, took time.Duration, err error) (first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) < window {
		s.took = append(s.took, took)
	} else {
		s.took[s.calls%window] = took
	}
	s.calls++
	s.lastCall = started
	first = err != nil && !s.failing
	s.failing = err != nil
	if err != nil {
		s.failures++
		s.lastFail = started
		s.lastError = extensionconfig.Shorten(err.Error(), maxErrorLength)
	}
	return first
}

func (s *stats) read() HandlerStats {
	s.mu.Lock()
	out := HandlerStats{Calls: s.calls, Failures: s.failures, LastError: s.lastError, LastErrorTime: s.lastFail, LastCall: s.lastCall}
	took := slices.Clone(s.took)
	s.mu.Unlock()
	if n := len(took); n > 0 {
		slices.Sort(took)
		out.P50Seconds = took[(n-1)/2].Seconds()
		out.P99Seconds = took[(n*99+99)/100-1].Seconds()
	}
	return out
}
