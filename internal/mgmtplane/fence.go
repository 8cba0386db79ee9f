// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// fence keeps the controllers of this process from writing once they have led and
// another plane may: also those that go on, between two instructions, after the
// process was stopped for a while. It asks before a request is made, and again when
// all else that may take time is behind it: its turn, webhooks, a conflict. What is
// left is the time between that and etcd.
//
// What was made by a write that came late has to be taken back, and may be: nobody
// else knows of it. Who comes by a socket writes for himself, at any plane.
type fence struct {
	http.RoundTripper
	mayAct func() error
}

// fenced is the key of the function of a fence in the context of a request.
type fenced struct{}

// RoundTrip implements http.RoundTripper.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead || lifecycle.TakesBack(r.Context()) {
		return f.RoundTripper.RoundTrip(r)
	}
	if err := f.mayAct(); err != nil {
		return nil, err
	}
	return f.RoundTripper.RoundTrip(r.WithContext(context.WithValue(r.Context(), fenced{}, f.mayAct)))
}

// gate is where a fence asks again. It has to be the last of the admission.
type gate struct{}

// Handles implements admission.Interface.
func (gate) Handles(admission.Operation) bool { return true }

// Validate implements admission.ValidationInterface.
func (gate) Validate(ctx context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	mayAct, ok := ctx.Value(fenced{}).(func() error)
	if !ok {
		return nil
	}
	if err := mayAct(); err != nil {
		return apierrors.NewServiceUnavailable(fmt.Sprintf("%s %s %s/%s for a controller: %v", a.GetOperation(), a.GetResource().Resource, a.GetNamespace(), a.GetName(), err))
	}
	return nil
}
