// SPDX-License-Identifier: Apache-2.0

// Package secretwatch watches only those Secrets that objects name: the manager's
// cache holds only those of clusters, and a management cluster may have any number
// of others. Each has a separate watch, of its metadata, for as long as any object
// names it.
package secretwatch

import (
	"context"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Watches are the watches of a process. A nil *Watches watches nothing.
type Watches struct {
	secrets metadata.Getter

	mu      sync.Mutex      // guards the fields below, and those of all followers
	ctx     context.Context // of all watches; nil before the start and after the end
	named   map[client.ObjectKey]map[name]bool
	watched map[client.ObjectKey]context.CancelFunc
	running sync.WaitGroup
}

// name is an object that names a Secret.
type name struct {
	by  *Follower
	key client.ObjectKey
}

// Follower triggers a controller for Secrets that its objects name. A nil *Follower
// triggers nothing.
type Follower struct {
	w     *Watches
	queue queue // nil before its start
	names map[client.ObjectKey][]client.ObjectKey
}

// New returns watches that are opened when needed.
func New(c metadata.Interface) *Watches { return Of(c, "secrets") }

// Of returns watches of another kind of Kubernetes that is namespaced like Secrets,
// such as configmaps.
func Of(c metadata.Interface, resource string) *Watches {
	return &Watches{
		secrets: c.Resource(corev1.SchemeGroupVersion.WithResource(resource)),
		named:   map[client.ObjectKey]map[name]bool{}, watched: map[client.ObjectKey]context.CancelFunc{},
	}
}

// Follower returns a Follower for a controller.
func (w *Watches) Follower() *Follower {
	if w == nil {
		return nil
	}
	return &Follower{w: w, names: map[client.ObjectKey][]client.ObjectKey{}}
}

// Wait is a Runnable of the manager: it returns when all watches have ended.
func (w *Watches) Wait(ctx context.Context) error {
	<-ctx.Done()
	w.mu.Lock()
	w.ctx = nil // no watch is opened after this
	for _, end := range w.watched {
		end()
	}
	clear(w.watched)
	w.mu.Unlock()
	w.running.Wait()
	return nil
}

// Start is a source of the controller: it sets the queue for requests.
func (f *Follower) Start(ctx context.Context, q queue) error {
	if f == nil {
		return nil
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.ctx, f.queue = ctx, q
	for _, keys := range f.names {
		for _, key := range keys {
			f.w.open(key)
		}
	}
	return nil
}

// Follow makes changes of these Secrets trigger the object obj from now on, instead
// of those of an earlier call. It ignores Secrets without a name.
func (f *Follower) Follow(obj client.ObjectKey, secrets ...client.ObjectKey) {
	if f == nil {
		return
	}
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(key client.ObjectKey) bool { return key.Name == "" })
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	before, by := f.names[obj], name{f, obj}
	delete(f.names, obj)
	if len(secrets) > 0 {
		f.names[obj] = secrets
	}
	for _, key := range secrets {
		if f.w.named[key] == nil {
			f.w.named[key] = map[name]bool{}
		}
		f.w.named[key][by] = true
		if f.queue != nil {
			f.w.open(key)
		}
	}
	for _, key := range before {
		if !slices.Contains(secrets, key) {
			f.w.drop(key, by)
		}
	}
}

// drop ends the watch of a Secret if no other object names it.
func (w *Watches) drop(key client.ObjectKey, by name) {
	delete(w.named[key], by)
	if len(w.named[key]) > 0 {
		return
	}
	delete(w.named, key)
	if end := w.watched[key]; end != nil {
		end()
		delete(w.watched, key)
	}
}

// open starts the watch of a Secret unless it runs.
func (w *Watches) open(key client.ObjectKey) {
	if w.ctx == nil || w.watched[key] != nil {
		return
	}
	ctx, end := context.WithCancel(w.ctx)
	w.watched[key] = end
	wake := func(any) { w.trigger(key) }
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: w.lister(key),
		ObjectType:    &metav1.PartialObjectMetadata{},
		Handler:       cache.ResourceEventHandlerFuncs{AddFunc: wake, UpdateFunc: func(_, now any) { wake(now) }, DeleteFunc: wake},
	})
	w.running.Go(recovery.Func(context.Background(), func() { informer.RunWithContext(ctx) }))
}

func (w *Watches) lister(key client.ObjectKey) cache.ListerWatcher {
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

func (w *Watches) trigger(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range w.named[key] {
		if n.by.queue != nil {
			n.by.queue.Add(reconcile.Request{NamespacedName: n.key})
		}
	}
}
