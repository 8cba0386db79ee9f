// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"time"
)

// ErrClosed is why calls end with Canceled once the pool is closed.
var ErrClosed = errors.New("the pool is closed")

// Reason is what kind of failure a call met.
type Reason string

// The reasons. Connection, TLS, Timeout and the statuses 429 and 5xx say that
// the server is not well and lead to Backoff when they repeat.
const (
	// Endpoint: the endpoint makes no sense; nothing was sent.
	BadEndpoint Reason = "Endpoint"
	// Connection: no connection, or it broke before the answer was complete.
	Connection Reason = "Connection"
	// TLS: the two sides do not trust or understand each other.
	TLS Reason = "TLS"
	// Timeout: the context's deadline came before the answer was complete.
	Timeout Reason = "Timeout"
	// Redirect: the server sends elsewhere, where calls do not follow.
	Redirect Reason = "Redirect"
	// Status: the server answers with another status than 200.
	Status Reason = "Status"
	// TooLarge: the answer has more bytes than are allowed.
	TooLarge Reason = "TooLarge"
	// ContentType: the answer is not JSON.
	ContentType Reason = "ContentType"
	// Backoff: the server failed before and is not called until Error.Retry.
	Backoff Reason = "Backoff"
	// Canceled: the caller gave up, or the pool was closed.
	Canceled Reason = "Canceled"
)

// Error is why a call has no answer. All errors of Post and Probe are of this
// type. Its text never holds the request.
type Error struct {
	// Host is the server, as Endpoint.Host says.
	Host string
	// Reason is the kind of failure.
	Reason Reason
	// Status is the HTTP status of the answer; 0 when there was none.
	Status int
	// Retry is when a call may be tried again, for Backoff alone.
	Retry time.Time
	// Err says what happened and what to do about it.
	Err error
}

func (e *Error) Error() string { return "server " + e.Host + ": " + e.Err.Error() }

// Unwrap is Err.
func (e *Error) Unwrap() error { return e.Err }
