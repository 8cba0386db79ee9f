// SPDX-License-Identifier: Apache-2.0

package command

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
)

// UnreachableError means that the management cluster does not answer, or that
// another server does at its address. It is all that a user needs: the failed
// request makes no difference.
type UnreachableError struct {
	mgmt  Mgmt
	cause error
}

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("management cluster %s does not answer: %v: %s", e.mgmt, e.cause, e.mgmt.remedy)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.cause }

// roundTripper is a function that is a transport.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// explainUnreachable converts the error of a failed connection to an
// UnreachableError.
func (m Mgmt) explainUnreachable(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(req)
		dial, dialled := errors.AsType[*net.OpError](err)
		impostor, verified := errors.AsType[*tls.CertificateVerificationError](err)
		switch {
		case dialled && dial.Op == "dial" && req.Context().Err() == nil:
			return nil, &UnreachableError{m, err}
		case verified:
			return nil, &UnreachableError{m, impostor}
		}
		return resp, err
	})
}
