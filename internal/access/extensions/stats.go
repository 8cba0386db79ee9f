// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"slices"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/pure/extensions"
)

const (
	// window is how many of the last calls the latencies are of.
	window = 128
	// maxErrorLength bounds the text of an error that is kept.
	maxErrorLength = 512
)

// HandlerStats is what became of the calls to a handler in this process, since
// it was first registered. What was answered from memory is no call.
type HandlerStats struct {
	// Handler is the full name, Config the ExtensionConfig's.
	Handler string `json:"handler"`
	Config  string `json:"config"`

	// APIVersion and Hook are what the handler answers.
	APIVersion string `json:"apiVersion"`
	Hook       string `json:"hook"`
	Deprecated bool   `json:"deprecated,omitempty"`

	// Host is the server, FailurePolicy and TimeoutSeconds those in force.
	Host           string `json:"host"`
	FailurePolicy  string `json:"failurePolicy"`
	TimeoutSeconds int32  `json:"timeoutSeconds"`

	// Failures are calls without a usable answer and answers of Failure, also
	// those that the failurePolicy hides.
	Calls    uint64 `json:"calls"`
	Failures uint64 `json:"failures"`

	// LastError is cut in length; it and the times are left out until there
	// is one. It stays after calls that succeed.
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
	LastCall      time.Time `json:"lastCall,omitzero"`

	// P50Seconds and P99Seconds are latencies of the last 128 calls.
	P50Seconds float64 `json:"p50Seconds"`
	P99Seconds float64 `json:"p99Seconds"`
}

// Stats lists all handlers that are registered now, by name.
func (c *Client) Stats() []HandlerStats {
	handlers := c.registry.all()
	out := make([]HandlerStats, len(handlers))
	for i, h := range handlers {
		out[i] = h.stats.read()
		out[i].Handler, out[i].Config, out[i].Host = h.name, h.config, h.host
		out[i].APIVersion, out[i].Hook, out[i].Deprecated = h.hook.GroupVersion().String(), h.hook.Hook, h.deprecated
		out[i].FailurePolicy, out[i].TimeoutSeconds = string(h.failurePolicy), int32(h.timeout/time.Second)
	}
	return out
}

// stats counts the calls to one handler.
type stats struct {
	mu        sync.Mutex // guards all below
	calls     uint64
	failures  uint64
	failing   bool
	lastError string
	lastFail  time.Time
	lastCall  time.Time
	took      []time.Duration // a ring once it is full
}

// record counts a call and reports whether it failed and the one before it did
// not.
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
		s.lastError = extensions.Shorten(err.Error(), maxErrorLength)
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
