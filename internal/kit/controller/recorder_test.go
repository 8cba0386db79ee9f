// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/kit/patch"
)

// notes keeps the last one.
type notes struct{ last string }

// Eventf implements events.EventRecorder.
func (n *notes) Eventf(_, _ runtime.Object, _, _, _, note string, args ...any) {
	n.last = fmt.Sprintf(note, args...)
}

func TestRecorderWritesNotesThatTheAPITakes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		note string
		args []any
		want string // "" is the start of the note
	}{
		"short":           {"create %s", []any{"m"}, "create m"},
		"a percent":       {"%s", []any{"100%d"}, "100%d"},
		"not UTF-8":       {"%s", []any{"a\xffb"}, "a\\xffb"},
		"long":            {"%s", []any{strings.Repeat("x", 5000)}, ""},
		"long, not UTF-8": {"%s", []any{strings.Repeat("\xff", 5000)}, ""},
		"long runes":      {"x%s", []any{strings.Repeat("\u00fc", 1024)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n notes
			bounded{&n}.Eventf(nil, nil, "", "", "", tc.note, tc.args...)
			if len(n.last) > maxNote || !utf8.ValidString(n.last) || tc.want != "" && n.last != tc.want || tc.want == "" && len(n.last) < maxNote-10 {
				t.Errorf("%d bytes: %q", len(n.last), n.last)
			}
		})
	}
}

// TestRejectedWritesAreEvents has a server that accepts no change of a Node.
func TestRejectedWritesAreEvents(t *testing.T) {
	t.Parallel()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	for name, tc := range map[string]struct{ answer, want string }{
		"invalid":  {"Invalid", `the API does not accept a change: patch *v1.Node /n: Node "n" is invalid: spec.providerID: Invalid value: "p": taken`},
		"conflict": {"Conflict", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientBuilder().WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					if tc.answer == "Conflict" {
						return apierrors.NewConflict(schema.GroupResource{}, "n", errors.New("changed"))
					}
					return apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "n", field.ErrorList{field.Invalid(field.NewPath("spec", "providerID"), "p", "taken")})
				},
			}).Build()
			var n notes
			w := newRunner("node", &corev1.Node{}, changing{c}, newPending(c, c, testclock.NewFakePassiveClock(time.Unix(2, 0))))
			w.recorder = &n
			_, err := w.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(node)})
			if n.last != tc.want || (err != nil) != (tc.want != "") {
				t.Errorf("event %q, error %v, want event %q", n.last, err, tc.want)
			}
		})
	}
}

// changing sets the provider ID of each Node.
type changing struct{ client.Client }

// Reconcile implements reconcile.ObjectReconciler.
func (c changing) Reconcile(ctx context.Context, n *corev1.Node) (reconcile.Result, error) {
	commit := patch.Snapshot(c, n)
	n.Spec.ProviderID = "p"
	return reconcile.Result{}, commit(ctx)
}
