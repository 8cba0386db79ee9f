// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
)

// reached is a server that records its last request.
type reached struct{ last *http.Request }

// RoundTrip implements http.RoundTripper.
func (r *reached) RoundTrip(req *http.Request) (*http.Response, error) {
	r.last = req
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// TestWhoMayNotActReadsAndWritesNothing has a plane deposed between two requests,
// and within one.
func TestWhoMayNotActReadsAndWritesNothing(t *testing.T) {
	t.Parallel()
	var deposed error
	server := &reached{}
	f := fence{server, func() error { return deposed }}
	send := func(method string) (passes bool, err error) {
		t.Helper()
		server.last = nil
		req, err := http.NewRequestWithContext(t.Context(), method, "http://in-process/api/v1/namespaces", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := f.RoundTrip(req)
		if err == nil {
			err = res.Body.Close()
		}
		return server.last != nil, err
	}
	create := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "ns", "m1", schema.GroupVersionResource{Resource: "machines"}, "", admission.Create, nil, false, nil)
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		writes := method != http.MethodGet && method != http.MethodHead
		deposed = nil
		if passes, err := send(method); !passes || err != nil {
			t.Fatalf("%s before: passes %t, error %v", method, passes, err)
		}
		ctx := server.last.Context()
		if err := (gate{}).Validate(ctx, create, nil); err != nil {
			t.Errorf("%s before, at the gate: %v", method, err)
		}
		deposed = lifecycle.ErrDeposed
		err := gate{}.Validate(ctx, create, nil)
		if writes != apierrors.IsServiceUnavailable(err) || writes && !strings.Contains(err.Error(), "CREATE machines ns/m1 for a controller: this plane heard nothing of etcd") {
			t.Errorf("%s deposed meanwhile, at the gate: %v", method, err)
		}
		if passes, err := send(method); passes == writes || writes != (err != nil) {
			t.Errorf("%s after: passes %t, error %v", method, passes, err)
		}
	}
	var made lifecycle.Stack
	made.Push("creation", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://in-process/api/v1/namespaces/n", nil)
		if err != nil {
			return err
		}
		res, err := f.RoundTrip(req)
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
	if err := made.Unwind(t.Context()); err != nil {
		t.Errorf("what came late cannot be taken back: %v", err)
	}
	if err := (gate{}).Validate(t.Context(), create, nil); err != nil {
		t.Errorf("a user is refused: %v", err)
	}
}
