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

// fence prevents writes of the controllers of this process after it has led and
// another plane may lead: also of those that continue, between two instructions,
// after the process was stopped for a while. It checks before a request is sent,
// and again after everything else that may take time: the write limit, webhooks, a
// conflict. What remains is the time from that check to etcd.
//
// Undo steps are exempt (see lifecycle.TakesBack): what a late write has created
// must be deleted, and can be, because no other plane uses it. Clients that connect
// by a socket write in their own name, at any plane.
type fence struct {
	http.RoundTripper
	mayAct func() error
}

// fenced is the context key of a fence's function in a request.
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

// gate is the second check of a fence. It must be the last admission plugin.
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
