// SPDX-License-Identifier: Apache-2.0

package testnamespace

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

var (
	kind    = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	first   = Thing{kind.GroupKind(), "first"}
	cluster = Thing{clusterv1.GroupVersion().WithKind("Cluster").GroupKind(), "prod"}
)

func object(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
	obj.SetGroupVersionKind(gvk)
	return obj
}

// inWorld runs a test with an in-memory world and virtual time.
func inWorld(t *testing.T, watching func(watch.Interface) watch.Interface, use func(context.Context, *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := runtime.NewScheme()
		if err := corev1.AddToScheme(s); err != nil {
			t.Fatal(err)
		}
		c := fake.NewClientBuilder().WithScheme(s).WithStatusSubresource(object(kind)).WithInterceptorFuncs(interceptor.Funcs{
			Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
				events, err := c.Watch(ctx, list, opts...)
				return watching(events), err
			},
		}).Build()
		limits := Limits{Timeout: time.Minute, Soon: time.Second, Quiet: 3 * time.Second}
		w, err := New(t.Context(), c, limits, []schema.GroupVersionKind{kind})
		if err != nil {
			t.Fatal(err)
		}
		use(t.Context(), w)
		if w.watching.Err() != nil || w.Fault() != nil {
			return // it has ended
		}
		if err := w.End(t.Context()); err != nil {
			t.Errorf("end: %v", err)
		}
	})
}

func as(events watch.Interface) watch.Interface { return events }

func resize(obj *unstructured.Unstructured) {
	_ = unstructured.SetNestedField(obj.Object, int64(2), "spec", "size")
}

func TestWhatHappensIsKept(t *testing.T) {
	t.Parallel()
	inWorld(t, as, func(ctx context.Context, w *World) {
		w.Labels = map[string]string{"a": "b"}
		made, err := w.Make(ctx, object(kind), first.Name)
		if err != nil || made.GetLabels()["a"] != "b" || made.GetNamespace() != w.Namespace {
			t.Fatalf("made %v, %v", made, err)
		}
		other := made.DeepCopy() // another client writes, too
		_ = unstructured.SetNestedField(other.Object, "by another", "spec", "note")
		if err := errors.Join(w.Client.Update(ctx, other), w.Change(ctx, first, resize), w.Delete(ctx, first)); err != nil {
			t.Fatal(err)
		}
		if err := w.Await(ctx, func() error { return w.left(func(schema.GroupKind) bool { return true }) }); err != nil {
			t.Error(err)
		}
		all, gone := w.History(first)
		if len(all) != 4 || !gone || w.Latest(first) != nil || len(w.All(kind.GroupKind())) != 0 {
			t.Errorf("%d versions, gone %t", len(all), gone)
		}
		if note, _, _ := unstructured.NestedString(w.Wanted(first).Object, "spec", "note"); note != "" {
			t.Errorf("wanted has what another wrote: %s", note)
		}
		if size, _, _ := unstructured.NestedInt64(w.Wanted(first).Object, "spec", "size"); size != 2 {
			t.Errorf("wanted has size %d", size)
		}
	})
}

func TestWaitingSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	inWorld(t, as, func(ctx context.Context, w *World) {
		missing, begin := errors.New("no light"), time.Now()
		if err := w.Await(ctx, func() error { return missing }); !errors.Is(err, missing) || time.Since(begin) != time.Minute || !strings.HasPrefix(err.Error(), "after 1m0s: ") {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		begin = time.Now()
		if err := w.Quietly(ctx, func() error { return nil }); err != nil || time.Since(begin) != 3*time.Second {
			t.Errorf("quiet for %s: %v", time.Since(begin), err)
		}
		if _, err := w.Make(ctx, object(kind), first.Name); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Second, func() { _ = w.Change(ctx, first, resize) })
		begin = time.Now()
		happened := errors.New("it grew")
		if err := w.Quietly(ctx, func() error {
			if size, _, _ := unstructured.NestedInt64(w.Latest(first).Object, "spec", "size"); size == 2 {
				return happened
			}
			return nil
		}); !errors.Is(err, happened) || time.Since(begin) != time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errors.New("Ctrl-C"))
		if err := w.Await(ended, func() error { return missing }); err == nil || err.Error() != "Ctrl-C" {
			t.Errorf("ended: %v", err)
		}
	})
}

func TestTheEndLetsAllGo(t *testing.T) {
	t.Parallel()
	inWorld(t, as, func(ctx context.Context, w *World) {
		paused := object(clusterv1.GroupVersion().WithKind(cluster.Kind))
		_ = unstructured.SetNestedField(paused.Object, true, "spec", "paused")
		kept := object(kind)
		kept.SetFinalizers([]string{Kept})
		Annotate(kept, clusterv1.PausedAnnotation, BySuite)
		_, err := w.Make(ctx, paused, cluster.Name)
		_, other := w.Make(ctx, kept, first.Name)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if err := errors.Join(err, other, w.End(ended)); err != nil {
			t.Error(err)
		}
		for _, thing := range []Thing{cluster, first} {
			if _, gone := w.History(thing); !gone {
				t.Errorf("%s is left", thing)
			}
		}
		if all, _ := w.History(cluster); len(all) < 3 || all[1].Object["spec"].(map[string]any)["paused"] != nil {
			t.Errorf("the Cluster was not resumed before it was deleted: %d versions", len(all))
		}
	})
}

func TestWhatIsLeftIsNamed(t *testing.T) {
	t.Parallel()
	inWorld(t, as, func(ctx context.Context, w *World) {
		obj := object(kind)
		obj.SetFinalizers([]string{"example.com/stuck"})
		if _, err := w.Make(ctx, obj, first.Name); err != nil {
			t.Fatal(err)
		}
		if err := w.End(ctx); err == nil || !strings.Contains(err.Error(), "Thing first (finalizers example.com/stuck)") {
			t.Errorf("end: %v", err)
		}
	})
}

// TestAWatchThatEndsIsAFault, since changes are not observed afterwards.
func TestAWatchThatEndsIsAFault(t *testing.T) {
	t.Parallel()
	var all []watch.Interface
	inWorld(t, func(events watch.Interface) watch.Interface {
		all = append(all, events)
		return events
	}, func(ctx context.Context, w *World) {
		for _, events := range all {
			events.Stop()
		}
		err := w.Await(ctx, func() error { return errors.New("never") })
		if err == nil || !strings.Contains(err.Error(), "the watch of ") || w.Fault() == nil {
			t.Errorf("await: %v, fault: %v", err, w.Fault())
		}
	})
}
