// SPDX-License-Identifier: Apache-2.0

package testnamespace

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestWritesNameTheirObject in errors.
func TestWritesNameTheirObject(t *testing.T) {
	t.Parallel()
	inWorld(t, as, func(ctx context.Context, w *World) {
		good := w.Client
		refused := errors.New("refused")
		w.Client = interceptor.NewClient(good, interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return refused },
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return refused
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return refused },
		})
		_, create := w.Make(ctx, object(kind), "second")
		missing := w.Change(ctx, first, resize)
		w.Client = good
		if _, err := w.Make(ctx, object(kind), first.Name); err != nil {
			t.Fatal(err)
		}
		w.Client = interceptor.NewClient(good, interceptor.Funcs{
			Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
				return refused
			},
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return refused },
		})
		change, remove := w.Change(ctx, first, resize), w.Delete(ctx, first)
		w.Client = good
		for want, err := range map[string]error{
			"create Thing second: refused": create, "Thing first is not there": missing, "change Thing first: refused": change, "delete Thing first: refused": remove,
		} {
			if err == nil || err.Error() != want {
				t.Errorf("error %v, want %s", err, want)
			}
		}
		if size, _, _ := unstructured.NestedInt64(w.Wanted(first).Object, "spec", "size"); size != 1 {
			t.Errorf("a write that failed is desired: size %d", size)
		}
	})
}

func TestStatusIsChangedWithAndWithoutSubresource(t *testing.T) {
	t.Parallel()
	plain := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Plain"}
	inWorld(t, as, func(ctx context.Context, w *World) {
		w.Follow(plain)
		w.Follow(plain) // once is enough
		for _, gvk := range []schema.GroupVersionKind{kind, plain} {
			thing := Thing{gvk.GroupKind(), "any"}
			if _, err := w.Make(ctx, object(gvk), thing.Name); err != nil {
				t.Fatal(err)
			}
			if err := w.ChangeStatus(ctx, thing, func(obj *unstructured.Unstructured) {
				_ = unstructured.SetNestedField(obj.Object, true, "status", "ready")
			}); err != nil {
				t.Fatal(err)
			}
			if ready, _, _ := unstructured.NestedBool(w.Latest(thing).Object, "status", "ready"); !ready {
				t.Errorf("%s has no status", thing)
			}
			if all, _ := w.History(thing); len(all) != 2 {
				t.Errorf("%s has %d versions", thing, len(all))
			}
		}
	})
}

// TestAKindThatCannotBeWatchedIsAFault, which names it.
func TestAKindThatCannotBeWatchedIsAFault(t *testing.T) {
	t.Parallel()
	inWorld(t, as, func(ctx context.Context, w *World) {
		w.Client = interceptor.NewClient(w.Client, interceptor.Funcs{
			Watch: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) (watch.Interface, error) {
				return nil, errors.New("no such kind")
			},
		})
		w.Follow(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Odd"})
		if err := w.Await(ctx, func() error { return nil }); err == nil || err.Error() != "watch Odd: no such kind" {
			t.Errorf("await: %v", err)
		}
		if err := w.End(ctx); err == nil || !strings.Contains(err.Error(), "watch Odd") {
			t.Errorf("end: %v", err)
		}
	})
}

func TestMarksOfSuiteAreRemoved(t *testing.T) {
	t.Parallel()
	obj := object(kind)
	obj.SetFinalizers([]string{"a", Kept, "b"})
	Release(obj)
	if got := obj.GetFinalizers(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("finalizers %q", got)
	}
	for _, value := range []string{"x", "y", ""} {
		if Annotate(obj, "k", value); obj.GetAnnotations()["k"] != value || len(obj.GetAnnotations()) > 1 {
			t.Errorf("annotations %q after %q", obj.GetAnnotations(), value)
		}
	}
	if len(obj.GetAnnotations()) > 0 {
		t.Errorf("annotations %q", obj.GetAnnotations())
	}
}

func TestConnectDoesNotChangeTheConfig(t *testing.T) {
	t.Parallel()
	cfg := &rest.Config{Host: "https://127.0.0.1:1", QPS: 1}
	if c, err := Connect(cfg); err != nil || c == nil || cfg.QPS != 1 || cfg.WarningHandler != nil {
		t.Errorf("config %v, error %v", cfg, err)
	}
	if _, err := Connect(&rest.Config{Host: "https://127.0.0.1:1", ExecProvider: nil, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("x"), Insecure: true}}); err == nil || !strings.HasPrefix(err.Error(), "connect to the management cluster: ") {
		t.Errorf("error %v", err)
	}
}
