// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"time"
)

// ErrClosed is the reason why calls end with Canceled once the pool is closed.
var ErrClosed = errors.New("the pool is closed")

// Reason is the kind of failure of a call.
type Reason string

// The reasons. Connection, TLS, Timeout and the statuses 429 and 5xx mean that the
// server has a problem, and cause Backoff when they repeat.
const (
	// Endpoint: the endpoint is invalid; nothing was sent.
	BadEndpoint Reason = "Endpoint"
	// Connection: no connection, or it broke before the response was complete.
	Connection Reason = "Connection"
	// TLS: the two sides do not trust or understand each other.
	TLS Reason = "TLS"
	// Timeout: the context's deadline passed before the response was complete.
	Timeout Reason = "Timeout"
	// Redirect: the server redirects, which calls do not follow.
	Redirect Reason = "Redirect"
	// Status: the server responds with another status than 200.
	Status Reason = "Status"
	// TooLarge: the response exceeds the size limit.
	TooLarge Reason = "TooLarge"
	// ContentType: the response is not JSON.
	ContentType Reason = "ContentType"
	// Backoff: the server failed before and is not called until Error.Retry.
	Backoff Reason = "Backoff"
	// Canceled: the caller canceled the call, or the pool was closed.
	Canceled Reason = "Canceled"
)

// Error is the reason why a call has no response. All errors of Post and Probe are
// of this type. Its text never contains the request.
type Error struct {
	// Host is the name of the server, as in Endpoint.Host.
	Host string
	// Reason is the kind of failure.
	Reason Reason
	// Status is the HTTP status of the response; 0 if there was none.
	Status int
	// Retry is when a call may be retried, only for Backoff.
	Retry time.Time
	// Err has the cause and the remedy.
	Err error
}

func (e *Error) Error() string { return "server " + e.Host + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
