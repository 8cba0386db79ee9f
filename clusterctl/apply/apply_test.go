// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

// world is a management cluster that records its requests, and may refuse them.
type world struct {
	*Cluster
	version string
	lists   []*metav1.APIResourceList
	listErr error

	mu   sync.Mutex // guards done
	done []string
	// refuse returns the error of the API server for a request; nil refuses none.
	refuse func(what string) error
}

func (w *world) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return w.lists, w.listErr
}

func (w *world) ServerVersion() (*apimachineryversion.Info, error) {
	return &apimachineryversion.Info{GitVersion: w.version}, nil
}

// do records a request, and executes it unless it is refused. A dry run is recorded as
// try.
func (w *world) do(verb string, dryRun []string, obj client.Object, do func() error) error {
	if len(dryRun) > 0 {
		verb = "try " + verb
	}
	what := verb + " " + obj.GetObjectKind().GroupVersionKind().Kind + " " + strings.TrimPrefix(obj.GetNamespace()+"/"+obj.GetName(), "/")
	w.mu.Lock()
	w.done = append(w.done, what)
	w.mu.Unlock()
	if w.refuse != nil {
		if err := w.refuse(what); err != nil {
			return err
		}
	}
	return do()
}

// times is how often a request was sent.
func (w *world) times(what string) (n int) {
	for _, d := range w.done {
		if d == what {
			n++
		}
	}
	return n
}

func newWorld(t *testing.T, there ...string) *world {
	t.Helper()
	known := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(known), appsv1.AddToScheme(known), rbacv1.AddToScheme(known), apiextensionsv1.AddToScheme(known)); err != nil {
		t.Fatal(err)
	}
	w := &world{version: "v1.36.3"}
	b := fake.NewClientBuilder().WithScheme(known).WithRESTMapper(testrestmapper.TestOnlyStaticRESTMapper(known))
	for _, text := range there {
		b.WithObjects(read(t, text))
	}
	c := b.WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			dryRun := (&client.CreateOptions{}).ApplyOptions(opts).DryRun
			return w.do("create", dryRun, obj, func() error {
				there, ok := obj.DeepCopyObject().(client.Object)
				if ok && len(dryRun) > 0 && c.Get(ctx, client.ObjectKeyFromObject(obj), there) == nil { // the fake does not report this
					return apierrors.NewAlreadyExists(schema.GroupResource{}, obj.GetName())
				}
				if obj.GetObjectKind().GroupVersionKind().Kind == "SelfSubjectAccessReview" {
					return nil // a request that is not refused returns no error, and so no refusal
				}
				return c.Create(ctx, obj, opts...)
			})
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return w.do("patch", (&client.PatchOptions{}).ApplyOptions(opts).DryRun, obj, func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return w.do("delete", nil, obj, func() error { return c.Delete(ctx, obj, opts...) })
		},
	}).Build()
	w.Cluster = NewWithClient(c, w)
	return w
}

// read reads one object.
func read(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(raw) // it distinguishes integers from other numbers
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func readAll(t *testing.T, texts ...string) (all []*unstructured.Unstructured) {
	t.Helper()
	for _, text := range texts {
		all = append(all, read(t, text))
	}
	return all
}

// live is the object as stored; nil if it does not exist.
func (w *world) live(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	now := obj.DeepCopy()
	err := w.Client().Get(t.Context(), client.ObjectKeyFromObject(obj), now)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return now
}

const (
	definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.x.io}
spec: {group: x.io, names: {kind: Thing, plural: things}, scope: Namespaced, versions: [{name: v1, served: true, storage: true}]}`
	namespace = "{apiVersion: v1, kind: Namespace, metadata: {name: a}}"
	account   = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: one, namespace: a}}"
	manager   = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: m, namespace: a}, spec: {template: {spec: {containers: [{name: manager}]}}}}"
)

func TestWhatIsThereGetsWhatIsSaidAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ there, written, want string }{
		"a field of others": {
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: a, labels: {theirs: x}}, data: {a: old, theirs: x}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: a, labels: {ours: x}}, data: {a: new}}",
			"{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: a, labels: {ours: x, theirs: x}}, data: {a: new, theirs: x}}",
		},
		"but not its status": {
			"{apiVersion: v1, kind: Namespace, metadata: {name: ns}, status: {phase: Active}}",
			"{apiVersion: v1, kind: Namespace, metadata: {name: ns}, status: {phase: Terminating}}",
			"{apiVersion: v1, kind: Namespace, metadata: {name: ns}, status: {phase: Active}, spec: {}}",
		},
		"an authority that was injected": {
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {group: x.io, conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: QQ==}, conversionReviewVersions: [v1]}}}}",
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {group: x.io, conversion: {strategy: Webhook, webhook: {clientConfig: {service: {name: s, namespace: a}}, conversionReviewVersions: [v1]}}}}",
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {group: x.io, names: {kind: '', plural: ''}, scope: '', versions: null, conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: QQ==, service: {name: s, namespace: a}}, conversionReviewVersions: [v1]}}}, status: {acceptedNames: {kind: '', plural: ''}, conditions: null, storedVersions: null}}",
		},
		"a webhook that no longer converts": {
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {group: x.io, conversion: {strategy: Webhook, webhook: {clientConfig: {caBundle: QQ==}, conversionReviewVersions: [v1]}}}}",
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {group: x.io}}",
			"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: d}, spec: {group: x.io, names: {kind: '', plural: ''}, scope: '', versions: null, conversion: {strategy: None}}, status: {acceptedNames: {kind: '', plural: ''}, conditions: null, storedVersions: null}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, obj := newWorld(t, tc.there), read(t, tc.written)
			if err := w.All(t.Context(), []*unstructured.Unstructured{obj}); err != nil {
				t.Fatal(err)
			}
			got := w.live(t, obj)
			got.SetResourceVersion("")
			if diff := cmp.Diff(read(t, tc.want).Object, got.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWritingStopsAtTheFirstThatIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.refuse = func(what string) error {
		if what == "create ServiceAccount a/one" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts"}, "one", errors.New("not you"))
		}
		return nil
	}
	err := w.All(t.Context(), readAll(t, namespace, account, manager))
	if want := "write ServiceAccount a/one: "; err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "not you") {
		t.Errorf("got %v, want %q and why", err, want)
	}
	if diff := cmp.Diff([]string{"create Namespace a", "create ServiceAccount a/one"}, w.done); diff != "" {
		t.Errorf("done (-want +got):\n%s", diff)
	}
}

func TestWhatPassesIsTriedAgain(t *testing.T) {
	t.Parallel()
	thing := schema.GroupResource{Group: "x.io", Resource: "things"}
	for name, tc := range map[string]struct {
		err   error
		tries int // until it gives up, if the error persists
	}{
		"a kind that is not served yet":    {&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "x.io", Kind: "Thing"}}, 18},
		"a webhook that does not answer":   {apierrors.NewInternalError(errors.New("failed calling webhook")), 18},
		"another client's write":           {apierrors.NewConflict(thing, "t", errors.New("changed")), 18},
		"an API server that is busy":       {apierrors.NewTooManyRequests("busy", 1), 18},
		"one that has gone for a moment":   {apierrors.NewServiceUnavailable("gone"), 18},
		"one that took too long":           {apierrors.NewTimeoutError("slow", 1), 18},
		"one that took too long to answer": {apierrors.NewServerTimeout(thing, "create", 1), 18},

		"no right":             {apierrors.NewForbidden(thing, "t", errors.New("not you")), 1},
		"a value that is none": {apierrors.NewBadRequest("no"), 1},
		"anything else":        {errors.New("else"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, begin := newWorld(t), time.Now()
				w.refuse = func(string) error { return tc.err }
				err := w.All(t.Context(), readAll(t, account))
				if !errors.Is(err, tc.err) || len(w.done) != tc.tries {
					t.Errorf("%v after %d tries, want %v after %d", err, len(w.done), tc.err, tc.tries)
				}
				if took := time.Since(begin); took > time.Minute {
					t.Errorf("given up after %s", took)
				}
				if tc.tries == 1 {
					return
				}
				left := 3
				w.done, w.refuse = nil, func(string) error {
					if left--; left > 0 {
						return tc.err
					}
					return nil
				}
				if err := w.All(t.Context(), readAll(t, account)); err != nil || len(w.done) != 3 {
					t.Errorf("%v after %d tries, want none after 3", err, len(w.done))
				}
			})
		})
	}
}

func TestWaitingForWhatPassesEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, why := newWorld(t), errors.New("the user pressed Ctrl-C")
		w.refuse = func(string) error { return apierrors.NewServiceUnavailable("gone") }
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		if err := w.All(ctx, readAll(t, account)); !errors.Is(err, why) || !apierrors.IsServiceUnavailable(err) {
			t.Errorf("got %v, want why, and what was awaited", err)
		}
	})
}

func TestWhatIsBeingDeletedIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: one, namespace: a, finalizers: [x.io/f], uid: old}}")
		obj := read(t, account)
		if err := w.Client().Delete(t.Context(), obj.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if err := w.All(t.Context(), []*unstructured.Unstructured{obj}); !errors.Is(err, errGoing) || !strings.Contains(err.Error(), "ServiceAccount a/one: one of that name is still being deleted") {
			t.Errorf("got %v, want that it is still there", err)
		}
		time.AfterFunc(time.Second, func() {
			going := w.live(t, obj)
			going.SetFinalizers(nil)
			if err := w.Client().Update(t.Context(), going); err != nil {
				t.Error(err)
			}
		})
		if err := w.All(t.Context(), []*unstructured.Unstructured{obj}); err != nil {
			t.Error(err)
		}
		if now := w.live(t, obj); now == nil || now.GetUID() == "old" {
			t.Errorf("got %v, want a new one", now)
		}
	})
}

func TestAnOldKubernetesIsRefused(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"v1.36.3": "", "v1.25.0": "", "v1.29.4-gke.1043000": "", "v1.30.2+k3s1": "",
		"v1.24.17": "the management cluster runs Kubernetes v1.24.17, and v1.25.0 is the oldest that providers can be installed on: upgrade it first",
		"unknown":  "read the version of Kubernetes of the management cluster",
	} {
		w := newWorld(t)
		w.version = version
		if err := w.Supported(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", version, err, want)
		}
	}
}

func TestObjectsAreNamedForPeople(t *testing.T) {
	t.Parallel()
	got := fmt.Sprint(Name(read(t, namespace)), ", ", Name(read(t, account)))
	if want := "Namespace a, ServiceAccount a/one"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRequestsNameTheObjectThatTheyWrite(t *testing.T) {
	t.Parallel()
	var names []string
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			names = append(names, "create "+Written(ctx))
			return apierrors.NewAlreadyExists(schema.GroupResource{}, obj.GetName())
		},
		Patch: func(ctx context.Context, _ client.WithWatch, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
			names = append(names, "patch "+Written(ctx))
			return nil
		},
	}).Build()
	crd := read(t, "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: boots.x.io}}")
	cluster := NewWithClient(c, &world{})
	if err := errors.Join(cluster.try(t.Context(), crd, nil, false), cluster.All(t.Context(), []*unstructured.Unstructured{crd})); err != nil {
		t.Fatal(err)
	}
	want := []string{"create CustomResourceDefinition boots.x.io", "patch CustomResourceDefinition boots.x.io"}
	if diff := cmp.Diff(append(want, want...), names); diff != "" || Written(t.Context()) != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}
