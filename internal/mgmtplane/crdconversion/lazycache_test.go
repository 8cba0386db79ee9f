// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
)

// counted is a storage that counts calls; the cache is not ready immediately. Its
// list has the items, and a read returns the stored object.
type counted struct {
	storage.Interface
	calls    int
	notReady int
	items    []unstructured.Unstructured
	stored   map[string]any // objects or errors, by name
	watch    *watch.FakeWatcher
}

func (c *counted) ReadinessCheck() error {
	if c.notReady--; c.notReady >= 0 {
		return errors.New("not ready")
	}
	return nil
}

func (c *counted) Watch(context.Context, string, storage.ListOptions) (watch.Interface, error) {
	c.calls++
	c.watch = watch.NewFake()
	return c.watch, nil
}

func (c *counted) GetList(_ context.Context, _ string, _ storage.ListOptions, list runtime.Object) error {
	c.calls++
	list.(*unstructured.UnstructuredList).Items = slices.Clone(c.items)
	return nil
}

func (c *counted) Get(_ context.Context, key string, _ storage.GetOptions, into runtime.Object) error {
	c.calls++
	switch v := c.stored[key].(type) {
	case error:
		return v
	case map[string]any:
		into.(*unstructured.Unstructured).Object = v
	}
	return nil
}

// cacheOf counts how often the cache was started and stopped.
func cacheOf(etcd, cached *counted, started, stopped *atomic.Int32) *lazyCache {
	return &lazyCache{
		Interface: etcd,
		start: func() (storage.Interface, factory.DestroyFunc, error) {
			started.Add(1)
			return cached, func() { stopped.Add(1) }, nil
		},
		newList: func() runtime.Object { return &unstructured.UnstructuredList{} },
		key:     func(o runtime.Object) (string, error) { return o.(*unstructured.Unstructured).GetName(), nil },
	}
}

// running is a watch that starts with changes.
var running = storage.ListOptions{ResourceVersion: "1"}

func TestACacheStartsWithItsFirstReader(t *testing.T) {
	t.Parallel()
	etcd, cached := &counted{}, &counted{notReady: 2}
	var started, stopped atomic.Int32
	l, list := cacheOf(etcd, cached, &started, &stopped), &unstructured.UnstructuredList{}
	if err := l.Get(t.Context(), "a", storage.GetOptions{}, nil); err != nil || started.Load() != 0 || etcd.calls != 1 {
		t.Errorf("a read: %v, cache started %d times", err, started.Load())
	}
	if err := l.GetList(t.Context(), "", storage.ListOptions{}, list); err != nil || started.Load() != 1 || cached.calls != 1 || cached.notReady >= 0 {
		t.Errorf("a list: %v, cache started %d times, is not ready %d times more", err, started.Load(), cached.notReady)
	}
	w, err := l.Watch(t.Context(), "", running)
	if err != nil || started.Load() != 1 || cached.calls != 2 {
		t.Fatalf("a watch: %v, cache started %d times", err, started.Load())
	}
	w.Stop()
	l.destroy()
	if stopped.Load() != 1 {
		t.Errorf("stopped %d times", stopped.Load())
	}
	unused := cacheOf(etcd, cached, &started, &stopped)
	unused.destroy()
	if err := unused.GetList(t.Context(), "", storage.ListOptions{}, list); err == nil || started.Load() != 1 || stopped.Load() != 1 {
		t.Errorf("a list after the end: %v, cache started %d times", err, started.Load())
	}
	failing := &lazyCache{start: func() (storage.Interface, factory.DestroyFunc, error) { return nil, nil, errors.New("no disk") }}
	if err := failing.GetList(t.Context(), "", storage.ListOptions{}, list); err == nil {
		t.Error("a cache that cannot start is silent")
	}
}

func TestCacheStopsWhenIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var started, stopped atomic.Int32
		l := cacheOf(&counted{}, &counted{}, &started, &stopped)
		after := func(what string, d time.Duration, wantStarted, wantStopped int32) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if started.Load() != wantStarted || stopped.Load() != wantStopped {
				t.Errorf("%s: started %d times and stopped %d times, want %d and %d", what, started.Load(), stopped.Load(), wantStarted, wantStopped)
			}
		}
		open := func() watch.Interface {
			t.Helper()
			w, err := l.Watch(t.Context(), "", running)
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		first, second := open(), open()
		first.Stop()
		first.Stop() // as servers do
		after("one of two watches has ended", 2*cacheIdle, 1, 0)
		second.Stop()
		after("the last has ended", cacheIdle-time.Second, 1, 0)
		third := open()
		after("another has started in time", 2*cacheIdle, 1, 0)
		third.Stop()
		after("no reader", cacheIdle, 1, 1)
		if err := l.GetList(t.Context(), "", storage.ListOptions{}, &unstructured.UnstructuredList{}); err != nil {
			t.Fatal(err)
		}
		after("a list", 0, 2, 1)
		after("a list a while ago", cacheIdle, 2, 2)
		l.destroy()
		after("the end", 2*cacheIdle, 2, 2)
	})
}

func named(name string) map[string]any {
	return map[string]any{"kind": "Thing", "metadata": map[string]any{"name": name, "uid": name, "annotations": map[string]any{"a": "b"}}}
}

func kept(name string) unstructured.Unstructured {
	return unstructured.Unstructured{Object: unreadable(named(name), "x.io/v1", errors.New("no"))}
}

func TestAListThatCannotBeWholeFails(t *testing.T) {
	t.Parallel()
	good, why := unstructured.Unstructured{Object: named("good")}, errors.New("convert Thing ns/bad to x.io/v1: 13 is no length")
	tests := map[string]struct {
		items  []unstructured.Unstructured
		stored map[string]any
		want   string // the names, or the error
	}{
		"all can be converted":                  {[]unstructured.Unstructured{good}, nil, "good"},
		"one cannot":                            {[]unstructured.Unstructured{good, kept("bad")}, map[string]any{"bad": why}, why.Error()},
		"one could not when the cache got it":   {[]unstructured.Unstructured{kept("bad"), good}, map[string]any{"bad": named("bad")}, "bad good"},
		"one that could not has just gone away": {[]unstructured.Unstructured{kept("bad"), good}, map[string]any{"bad": storage.NewKeyNotFoundError("bad", 1)}, "good"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var started, stopped atomic.Int32
			l := cacheOf(&counted{stored: tc.stored}, &counted{items: tc.items}, &started, &stopped)
			list, got := &unstructured.UnstructuredList{}, ""
			if err := l.GetList(t.Context(), "", storage.ListOptions{}, list); err != nil {
				got = err.Error()
			} else {
				for _, item := range list.Items {
					got += " " + item.GetName()
					if isUnreadable(&item) {
						t.Errorf("%s is shown without its content", item.GetName())
					}
				}
				got = got[min(1, len(got)):]
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			_, err := l.Watch(t.Context(), "", storage.ListOptions{ResourceVersion: "0"})
			if failed := tc.want == why.Error(); (err != nil) != failed {
				t.Errorf("a watch that begins with what is there: %v", err)
			}
		})
	}
}

func TestWatchSkipsUnconvertibleObjects(t *testing.T) {
	t.Parallel()
	var started, stopped atomic.Int32
	cached := &counted{}
	l := cacheOf(&counted{}, cached, &started, &stopped)
	w, err := l.Watch(t.Context(), "", running)
	if err != nil {
		t.Fatal(err)
	}
	bad, good := kept("bad"), unstructured.Unstructured{Object: named("good")}
	go func() {
		cached.watch.Add(&bad)
		cached.watch.Modify(&bad)
		cached.watch.Modify(&good)
		cached.watch.Delete(&bad)
		cached.watch.Stop()
	}()
	var got []string
	for event := range w.ResultChan() {
		got = append(got, fmt.Sprint(event.Type, " ", event.Object.(*unstructured.Unstructured).GetName()))
	}
	if want := []string{"MODIFIED good", "DELETED bad"}; !slices.Equal(got, want) {
		t.Errorf("watched %q, want %q", got, want)
	}
}
