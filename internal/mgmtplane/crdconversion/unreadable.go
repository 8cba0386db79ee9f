// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"context"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/storage"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// unreadableAnnotation is why an object in a cache of an old version could not be
// converted.
//
// One such object would end the cache and all its watches, and no client could list
// the others. So only its metadata is stored, and never returned: a list that
// includes it fails with its name, and a watch that started before continues
// without the change. If a list omitted it, it would seem to be deleted, and
// controllers act upon that.
const unreadableAnnotation = "capstan.dev/unreadable"

// unreadable is the cached form of an object that cannot be converted.
func unreadable(obj map[string]any, apiVersion string, why error) map[string]any {
	was, _ := obj["metadata"].(map[string]any)
	metadata := maps.Clone(was)
	if metadata == nil {
		metadata = map[string]any{}
	}
	metadata["annotations"] = map[string]any{unreadableAnnotation: why.Error()}
	return map[string]any{"apiVersion": apiVersion, "kind": obj["kind"], "metadata": metadata}
}

func isUnreadable(obj runtime.Object) bool {
	if u, ok := obj.(*unstructured.Unstructured); ok { // most are, and need no copies of annotations
		metadata, _ := u.Object["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		return annotations[unreadableAnnotation] != nil
	}
	o, ok := obj.(metav1.Object)
	return ok && o.GetAnnotations()[unreadableAnnotation] != ""
}

// list reads a list from a cache. An object that could not be converted when it was
// cached is read again: its definition may have got its labels since.
func (l *lazyCache) list(ctx context.Context, cached storage.Interface, key string, o storage.ListOptions, into runtime.Object) error {
	if err := cached.GetList(ctx, key, o, into); err != nil {
		return err
	}
	list, ok := into.(*unstructured.UnstructuredList)
	if !ok {
		return nil
	}
	gone := map[string]bool{}
	for i := range list.Items {
		if !isUnreadable(&list.Items[i]) {
			continue
		}
		at, err := l.key(&list.Items[i])
		if err != nil {
			return err
		}
		uid, fresh := list.Items[i].GetUID(), &unstructured.Unstructured{}
		err = l.Get(ctx, at, storage.GetOptions{}, fresh)
		if storage.IsNotFound(err) {
			gone[string(uid)] = true
			continue
		}
		if err != nil {
			return err
		}
		list.Items[i] = *fresh
	}
	if len(gone) > 0 {
		list.Items = slices.DeleteFunc(list.Items, func(u unstructured.Unstructured) bool { return gone[string(u.GetUID())] })
	}
	return nil
}

// readable is a watch without the changes of objects that cannot be converted.
type readable struct {
	watch.Interface
	result chan watch.Event
	done   chan struct{}
	stop   sync.Once
}

// watchReadable calls ended when the watch has ended.
func watchReadable(w watch.Interface, ended func()) watch.Interface {
	r := &readable{Interface: w, result: make(chan watch.Event), done: make(chan struct{})}
	go recovery.Func(context.Background(), func() {
		defer ended()
		defer close(r.result)
		for event := range w.ResultChan() {
			if (event.Type == watch.Added || event.Type == watch.Modified) && isUnreadable(event.Object) {
				continue
			}
			select {
			case r.result <- event:
			case <-r.done:
				return
			}
		}
	})()
	return r
}

// ResultChan implements watch.Interface.
func (r *readable) ResultChan() <-chan watch.Event { return r.result }

// Stop implements watch.Interface.
func (r *readable) Stop() {
	r.stop.Do(func() { close(r.done) })
	r.Interface.Stop()
}
