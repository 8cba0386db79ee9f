// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/contract"
)

// allow has the user have all rights but some.
func (w *world) allow(t *testing.T, but ...string) {
	t.Helper()
	inner := w.mgmt.(client.WithWatch)
	w.mgmt = interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			review, ok := obj.(*unstructured.Unstructured)
			if !ok || review.GetKind() != "SelfSubjectAccessReview" {
				return c.Create(ctx, obj, opts...)
			}
			r := Right{}
			for field, to := range map[string]*string{"verb": &r.Verb, "group": &r.Group, "resource": &r.Resource, "namespace": &r.Namespace} {
				*to, _, _ = contract.At[string]("spec.resourceAttributes." + field).Get(review)
			}
			allowed := true
			for _, denied := range but {
				allowed = allowed && r.String() != denied
			}
			return contract.At[bool]("status.allowed").Set(review, allowed)
		},
	})
}

func refused(kind, name, why string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, name, errors.New(why))
}

func TestAllIsCheckedBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	const (
		thing    = "{apiVersion: x.io/v1, kind: Thing, metadata: {name: t, namespace: a}}"
		stranger = "{apiVersion: y.io/v1, kind: Unserved, metadata: {name: s, namespace: a}}"
		binding  = "{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: a}}"
	)
	noRole := apierrors.NewNotFound(schema.GroupResource{Resource: "roles"}, "r")
	noRole.ErrStatus.Details.Kind = "roles"
	for name, tc := range map[string]struct {
		there   []string
		plan    Plan
		objects []string
		refuse  map[string]error
		done    []string // in any order
		want    []string // errors
	}{
		"a new provider, in a namespace that every cluster has": {
			nil, Plan{}, []string{namespace, account, manager}, nil,
			[]string{"try create Namespace a", "try create ServiceAccount default/one", "try create Deployment default/m"}, nil,
		},
		"an object that is there, as a change": {
			[]string{namespace, account}, Plan{}, []string{namespace, account}, nil,
			[]string{"try create Namespace a", "try patch Namespace a", "try create ServiceAccount a/one", "try patch ServiceAccount a/one"}, nil,
		},
		"one that is deleted before, as a new one": {
			[]string{namespace, account}, Plan{Replaced: true}, []string{namespace, account}, nil,
			[]string{"try create Namespace a", "try patch Namespace a", "try create ServiceAccount a/one"}, nil,
		},
		"one that waits for other parts, not at all": {
			[]string{namespace}, Plan{Later: func(obj *unstructured.Unstructured) bool { return obj.GetName() == "one" }}, []string{account, manager}, nil,
			[]string{"try create Deployment a/m"}, nil,
		},
		"kinds that come with it, or before it": {
			[]string{namespace}, Plan{Coming: []string{"y.io"}}, []string{definition, thing, stranger},
			map[string]error{
				"try create Thing a/t":    &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "x.io", Kind: "Thing"}},
				"try create Unserved a/s": &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "y.io", Kind: "Unserved"}},
			}, nil, nil,
		},
		"a binding before its role": {[]string{namespace}, Plan{}, []string{binding}, map[string]error{"try create RoleBinding a/b": noRole}, nil, nil},
		"a webhook that cannot be asked": {
			[]string{namespace}, Plan{}, []string{account},
			map[string]error{"try create ServiceAccount a/one": apierrors.NewBadRequest(`admission webhook "w" does not support dry run`)}, nil, nil,
		},
		"what the other namespace has against it": {nil, Plan{}, []string{namespace, account}, map[string]error{"try create ServiceAccount default/one": refused("serviceaccounts", "one", "quota")}, nil, nil},

		"all faults at once": {
			[]string{namespace}, Plan{}, []string{account, manager, stranger},
			map[string]error{
				"try create ServiceAccount a/one": apierrors.NewBadRequest("no such account"),
				"try create Deployment a/m":       refused("deployments", "m", "not you"),
				"try create Unserved a/s":         &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "y.io", Kind: "Unserved"}},
			}, nil,
			[]string{"ServiceAccount a/one: no such account", "Deployment a/m: ", "not you", `Unserved a/s: no matches for kind "Unserved"`},
		},
		"a namespace that no component has": {nil, Plan{}, []string{account}, nil, []string{}, []string{"ServiceAccount a/one: Namespace a does not exist, and no component brings it: create it first (kubectl create namespace a)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.there...)
			w.allow(t)
			w.refuse = func(what string) error { return tc.refuse[what] }
			tc.plan.Objects = readAll(t, tc.objects...)
			err := w.Check(t.Context(), tc.plan)
			if tc.want == nil && err != nil {
				t.Errorf("got %v, want none", err)
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
			seen := map[string]bool{}
			for _, what := range w.done {
				seen[what] = true
				if !strings.HasPrefix(what, "try ") {
					t.Errorf("%s, and not as a rehearsal", what)
				}
			}
			if tc.done == nil {
				return
			}
			want := map[string]bool{}
			for _, what := range tc.done {
				want[what] = true
			}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("done (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckReportsDeletedNamespaceOnce, and not again for each object in it.
func TestCheckReportsDeletedNamespaceOnce(t *testing.T) {
	t.Parallel()
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "one", errors.New("namespace a is being terminated"))
	terminating.ErrStatus.Details.Causes = append(terminating.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace"})
	for name, tc := range map[string]struct {
		objects []string
		want    string
	}{
		"that the plan brings": {[]string{namespace, account}, "Namespace a: one of that name is still being deleted: say the same again when it is gone"},
		"that others bring":    {[]string{account}, `ServiceAccount a/one: serviceaccounts "one" is forbidden: namespace a is being terminated`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, namespace)
			w.allow(t)
			w.refuse = func(what string) error {
				return map[string]error{"try patch Namespace a": errGoing, "try create ServiceAccount a/one": terminating}[what]
			}
			if err := w.Check(t.Context(), Plan{Objects: readAll(t, tc.objects...)}); err == nil || err.Error() != tc.want {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestCheckReportsInterruptOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, namespace)
	w.allow(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.refuse = func(string) error {
		cancel()
		return ctx.Err()
	}
	if err := w.Check(ctx, Plan{Objects: readAll(t, namespace, account, manager)}); err == nil || err.Error() != "check the objects to write: context canceled" || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was interrupted, once", err)
	}
}

func TestMissingRightsAreNamedAndNothingIsTried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, namespace)
	w.allow(t, "create deployments.apps in namespace a", "patch namespaces", "patch deployments.apps in namespace a")
	err := w.Check(t.Context(), Plan{Objects: readAll(t, manager, namespace, account)})
	missing, ok := errors.AsType[*MissingRightsError](err)
	if !ok {
		t.Fatalf("got %v, want that rights are missing", err)
	}
	if diff := cmp.Diff([]string{"create deployments.apps in namespace a", "patch deployments.apps in namespace a", "patch namespaces"}, missing.Rights); diff != "" {
		t.Errorf("rights (-want +got):\n%s", diff)
	}
	if !strings.Contains(err.Error(), "nothing was changed:\n* create deployments.apps in namespace a\n") || len(w.done) > 0 {
		t.Errorf("error %v, done %v", err, w.done)
	}
}

func TestCheckReportsDenialsWithoutAccessReviews(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ answer, want error }{
		"no right to ask":   {refused("selfsubjectaccessreviews", "", "not you"), nil},
		"no such kind":      {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "SelfSubjectAccessReview"}}, nil},
		"no server answers": {errCut, errCut},
	} {
		w := newWorld(t, namespace)
		w.refuse = func(string) error { return tc.answer }
		if err := w.Allowed(t.Context(), readAll(t, account), "create"); !errors.Is(err, tc.want) || tc.want == nil && err != nil {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}

var errCut = errors.New("the connection was cut")

func TestKindsThatAreNotThereNeedNoRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.allow(t, "create things.x.io in namespace a")
	if err := w.Allowed(t.Context(), readAll(t, "{apiVersion: x.io/v1, kind: Thing, metadata: {name: t, namespace: a}}"), "create"); err != nil {
		t.Error(err)
	}
}
