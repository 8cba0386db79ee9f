// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestAllowed asks a server that answers in all the ways that there are.
func TestAllowed(t *testing.T) {
	t.Parallel()
	const unanswered = "ask for your rights: the management cluster does not say what you may do: "
	for name, tc := range map[string]struct {
		status map[string]any
		err    error
		want   bool
		// wantErr is "" if there is an answer.
		wantErr string
	}{
		"may":                   {status: map[string]any{"allowed": true}, want: true},
		"may not":               {status: map[string]any{"allowed": false}},
		"no answer":             {status: map[string]any{}, wantErr: unanswered + "its answer has no status"},
		"may not even ask":      {err: apierrors.NewForbidden(schema.GroupResource{}, "", nil), wantErr: unanswered},
		"no server answers":     {err: apierrors.NewNotFound(schema.GroupResource{}, ""), wantErr: unanswered},
		"an unknown kind":       {err: &meta.NoKindMatchError{}, wantErr: unanswered},
		"the connection breaks": {err: errors.New("connection reset by peer"), wantErr: "ask for your rights: connection reset by peer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked any
			c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
					review := obj.(*unstructured.Unstructured)
					asked = review.Object["spec"].(map[string]any)["resourceAttributes"].(map[string]any)["resource"]
					review.Object["status"] = tc.status
					return tc.err
				},
			}).Build()
			got, err := Allowed(t.Context(), c, Right{Verb: "get", GroupResource: schema.GroupResource{Resource: "secrets"}, Namespace: "ns"})
			_, noAnswer := errors.AsType[*UnansweredError](err)
			if got != tc.want || (err != nil) != (tc.wantErr != "") || err != nil && !strings.HasPrefix(err.Error(), tc.wantErr) || noAnswer != strings.HasPrefix(tc.wantErr, unanswered) || asked != "secrets" {
				t.Errorf("got %t, %v, asked for %v; want %t, %v", got, err, asked, tc.want, tc.wantErr)
			}
		})
	}
}

func TestARightIsNamedInWords(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Right{
		"create clusters.cluster.x-k8s.io in namespace ns": {"create", schema.GroupResource{Group: "cluster.x-k8s.io", Resource: "clusters"}, "ns"},
		"get namespaces": {"get", schema.GroupResource{Resource: "namespaces"}, ""},
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
