// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// secretWatches watches the Secrets that ExtensionConfigs name, and no others:
// the manager's cache holds only those of clusters, and a management cluster
// may have any number more. Each has a watch of its own, of its metadata, from
// when it is first named until no ExtensionConfig names it any more. A nil
// *secretWatches watches nothing.
type secretWatches struct {
	secrets metadata.Getter

	mu      sync.Mutex      // guards what follows
	ctx     context.Context // of all watches; nil before the start and after the end
	queue   queue
	named   map[string]client.ObjectKey // by ExtensionConfig
	watched map[client.ObjectKey]context.CancelFunc
	running sync.WaitGroup
}

func newSecretWatches(c metadata.Interface) *secretWatches {
	return &secretWatches{
		secrets: c.Resource(corev1.SchemeGroupVersion.WithResource("secrets")),
		named:   map[string]client.ObjectKey{}, watched: map[client.ObjectKey]context.CancelFunc{},
	}
}

// start is the source of the controller: it tells what to wake.
func (w *secretWatches) start(ctx context.Context, q queue) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ctx, w.queue = ctx, q
	for _, key := range w.named {
		w.open(key)
	}
	return nil
}

// wait is the Runnable of the manager: it ends when all watches have.
func (w *secretWatches) wait(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	w.ctx = nil // nothing is opened any more
	for _, end := range w.watched {
		end()
	}
	clear(w.watched)
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

// follow wakes an ExtensionConfig for a Secret from now on, instead of the one
// that it was woken for before. The empty key is no Secret.
func (w *secretWatches) follow(config string, key client.ObjectKey) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.named[config]
	if before == key {
		return
	}
	delete(w.named, config)
	if key.Name != "" {
		w.named[config] = key
		w.open(key)
	}
	for _, other := range w.named {
		if other == before {
			return
		}
	}
	if end := w.watched[before]; end != nil {
		end()
		delete(w.watched, before)
	}
}

// open starts the watch of a Secret unless it runs.
func (w *secretWatches) open(key client.ObjectKey) {
	if w.ctx == nil || w.watched[key] != nil {
		return
	}
	ctx, end := context.WithCancel(w.ctx)
	w.watched[key] = end
	wake := func(any) { w.wake(key) }
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: w.lister(key),
		ObjectType:    &metav1.PartialObjectMetadata{},
		Handler:       cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, now any) { wake(now) }, DeleteFunc: wake},
	})
	w.running.Go(func() { informer.RunWithContext(ctx) })
}

func (w *secretWatches) lister(key client.ObjectKey) cache.ListerWatcher {
	only, secrets := fields.OneTermEqualSelector("metadata.name", key.Name).String(), w.secrets.Namespace(key.Namespace)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = only
			return secrets.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = only
			return secrets.Watch(ctx, o)
		},
	}
}

func (w *secretWatches) wake(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for config, named := range w.named {
		if named == key {
			w.queue.Add(reconcile.Request{NamespacedName: client.ObjectKey{Name: config}})
		}
	}
}
