// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/kit/lifecycle"
	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

const (
	controlPlaneNamespace = metav1.NamespaceSystem
	controlPlaneLabel     = "tier=control-plane"
)

// pageSize is how many objects a list requests at a time.
const pageSize = 50

var errWatchEnded = errors.New("the watch ended")

// view has the objects of one list and watch. It is far lighter than an informer:
// no queue, no listeners, one goroutine.
type view[T client.Object] struct {
	viewOptions
	proto T
	slim  func(T)        // removes unused fields
	index func(T) string // returns the index value; nil for no index

	mu      sync.RWMutex           // guards the fields below
	objects map[client.ObjectKey]T // objects in it are never changed
	indexed map[string]map[client.ObjectKey]T
	filled  chan struct{} // closed by the first Replace
	kept    *claim        // for objects
	listed  *claim        // for the last list, until it becomes kept
}

// viewOptions configure what is viewed, and its callbacks.
type viewOptions struct {
	name     string
	request  func(o metav1.ListOptions) *rest.Request
	answers  *budget             // for responses in progress
	views    *budget             // for the objects in views
	notify   func(client.Object) // an object was added, changed or deleted
	exceeded func(error)         // the cluster exceeds its limit
}

func newNodes(o viewOptions) *view[*corev1.Node] {
	return &view[*corev1.Node]{
		viewOptions: o, proto: &corev1.Node{}, slim: slimNode,
		index:  func(n *corev1.Node) string { return n.Spec.ProviderID },
		filled: make(chan struct{}), kept: o.views.claim(),
	}
}

func newPods(o viewOptions) *view[*corev1.Pod] {
	return &view[*corev1.Pod]{
		viewOptions: o, proto: &corev1.Pod{}, slim: slimPod,
		filled: make(chan struct{}), kept: o.views.claim(),
	}
}

// plainLists disables streamed lists, which old API servers refuse, and which have
// no benefit at our sizes.
type plainLists struct{ *cache.ListWatch }

// IsWatchListSemanticsUnSupported is called by client-go's reflector.
func (plainLists) IsWatchListSemanticsUnSupported() bool { return true }

func requests(lister rest.Interface, resource, namespace, selector string) func(metav1.ListOptions) *rest.Request {
	return func(o metav1.ListOptions) *rest.Request {
		o.LabelSelector = selector
		return lister.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).VersionedParams(&o, scheme.ParameterCodec)
	}
}

// listWatch lists in pages, independent of the reflector's options: a page counts
// toward the budget of responses, and the rest of it after slim toward that of
// views.
func (v *view[T]) listWatch(ctx context.Context) cache.ListerWatcher {
	return plainLists{&cache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) { return v.list(ctx) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return v.request(o).Watch(ctx)
		},
	}}
}

// list reads all objects, page by page, so that only the used fields of earlier
// pages are in memory. It first returns the share of an earlier list that was never
// shown.
func (v *view[T]) list(ctx context.Context) (runtime.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	v.mu.Lock()
	if err := ctx.Err(); err != nil { // otherwise its share would not be returned
		v.mu.Unlock()
		return nil, err
	}
	if v.listed != nil {
		v.listed.close()
	}
	mine := v.views.claim()
	v.listed = mine
	v.mu.Unlock()
	all, size := &internalversion.List{}, int64(0)
	for o := (metav1.ListOptions{Limit: pageSize}); ; o.Continue = all.Continue {
		err := v.answers.holding(ctx, func(ctx context.Context) error {
			page, err := v.request(o).Do(ctx).Get()
			if err != nil {
				return err
			}
			items, err := meta.ExtractListWithAlloc(page) // by value, so that the page can be freed
			if err != nil {
				return err
			}
			for _, item := range items {
				obj, ok := item.(T)
				if !ok {
					return fmt.Errorf("a list of %s holds a %T", v.name, item)
				}
				if err := named(obj); err != nil {
					return err
				}
				v.slim(obj)
				size += sizeOf(obj)
				all.Items = append(all.Items, obj)
			}
			of, err := meta.ListAccessor(page)
			if err != nil {
				return err
			}
			all.ResourceVersion, all.Continue = of.GetResourceVersion(), of.GetContinue()
			return hold(mine, size)
		})
		if err != nil {
			return nil, err
		}
		if all.Continue == "" {
			return all, nil
		}
	}
}

// hold resizes the claim of a view.
func hold(c *claim, size int64) error {
	switch {
	case size > c.budget.most:
		return errViewTooLarge
	case !c.resize(size):
		return errFull
	}
	return nil
}

func slimNode(n *corev1.Node) {
	n.ManagedFields = nil
	n.Status.Images = nil
	clean(reflect.ValueOf(&n.Status))
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].LastHeartbeatTime = metav1.Time{}
	}
}

func slimPod(p *corev1.Pod) {
	p.ManagedFields = nil
	spec := corev1.PodSpec{NodeName: p.Spec.NodeName}
	for _, c := range p.Spec.Containers {
		spec.Containers = append(spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
	}
	p.Spec = spec
	clean(reflect.ValueOf(&p.Status))
}

// run lists and watches until ctx is done. Failures before the first successful
// list are sent to failed.
func (v *view[T]) run(ctx context.Context, failed chan<- error) {
	log := ctrl.LoggerFrom(ctx).WithValues("view", v.name)
	reflector := cache.NewReflectorWithOptions(v.listWatch(ctx), v.proto, v, cache.ReflectorOptions{Name: v.name, Logger: &log})
	defer v.release()
	retry := firstRetry
	for ctx.Err() == nil {
		err := recovery.Call(ctx, func() error { return reflector.ListAndWatchWithContext(ctx) })
		if err == nil {
			err = errWatchEnded
		}
		select {
		case <-v.filled:
			retry = firstRetry
		case failed <- fmt.Errorf("list %s: %w", v.name, plain(err)):
		default:
		}
		if ctx.Err() == nil {
			log.V(2).Info("Listing again", "reason", plain(err).Error())
		}
		if excess(err) != nil || errors.Is(err, errFull) {
			v.exceeded(err)
		}
		_ = lifecycle.Sleep(ctx, jittered(retry)) // its end ends the loop, too
		retry = min(2*retry, lastRetry)
	}
}

// release returns the view's share of the budget.
func (v *view[T]) release() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range []*claim{v.kept, v.listed} {
		if c != nil {
			c.close()
		}
	}
}

// Replace implements cache.ReflectorStore.
func (v *view[T]) Replace(list []any, _ string) error {
	fresh := make(map[client.ObjectKey]T, len(list))
	for _, item := range list {
		obj, ok := item.(T)
		if !ok {
			return fmt.Errorf("a list of %s holds a %T", v.name, item)
		}
		fresh[client.ObjectKeyFromObject(obj)] = obj
	}
	v.mu.Lock()
	v.kept.close()
	v.kept, v.listed = v.listed, nil
	old := v.objects
	v.objects, v.indexed = fresh, map[string]map[client.ObjectKey]T{}
	for key, obj := range fresh {
		v.reindex(key, obj, true)
	}
	v.mu.Unlock()
	select {
	case <-v.filled:
	default:
		// It cannot be read before the connection exists, and then a change of the
		// connection is reported: a reconcile for an object now would find no connection.
		close(v.filled) // only the reflector's goroutine calls this
		return nil
	}
	for key, obj := range fresh {
		if before, ok := old[key]; !ok || differs(before, obj) {
			v.notify(obj)
		}
	}
	for key, obj := range old {
		if _, ok := fresh[key]; !ok {
			v.notify(obj)
		}
	}
	return nil
}

// Add implements cache.ReflectorStore.
func (v *view[T]) Add(item any) error { return v.Update(item) }

// Update implements cache.ReflectorStore.
func (v *view[T]) Update(item any) error {
	obj, ok := item.(T)
	if !ok {
		return fmt.Errorf("a watch of %s shows a %T", v.name, item)
	}
	if err := named(obj); err != nil {
		return err
	}
	v.slim(obj)
	key := client.ObjectKeyFromObject(obj)
	v.mu.Lock()
	before, known := v.objects[key]
	size := v.kept.current() + sizeOf(obj)
	if known {
		size -= sizeOf(before)
	}
	if err := hold(v.kept, size); err != nil {
		v.mu.Unlock()
		v.exceeded(err)
		return err
	}
	if known {
		v.reindex(key, before, false)
	}
	v.objects[key] = obj
	v.reindex(key, obj, true)
	v.mu.Unlock()
	if !known || differs(before, obj) {
		v.notify(obj)
	}
	return nil
}

// Delete implements cache.ReflectorStore.
func (v *view[T]) Delete(item any) error {
	obj, ok := item.(T)
	if !ok {
		return fmt.Errorf("a watch of %s shows a %T", v.name, item)
	}
	key := client.ObjectKeyFromObject(obj)
	v.mu.Lock()
	before, known := v.objects[key]
	if known {
		v.reindex(key, before, false)
		delete(v.objects, key)
		v.kept.resize(v.kept.current() - sizeOf(before))
	}
	v.mu.Unlock()
	if known {
		v.notify(before)
	}
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to send again.
func (v *view[T]) Resync() error { return nil }

// reindex adds an object to the index or removes it. The caller holds mu.
func (v *view[T]) reindex(key client.ObjectKey, obj T, in bool) {
	if v.index == nil {
		return
	}
	value := v.index(obj)
	switch {
	case !in:
		delete(v.indexed[value], key)
		if len(v.indexed[value]) == 0 {
			delete(v.indexed, value)
		}
	case v.indexed[value] == nil:
		v.indexed[value] = map[client.ObjectKey]T{key: obj}
	default:
		v.indexed[value][key] = obj
	}
}

// differs reports whether more than the resource version of an object changed:
// heartbeats, which slim removes, need not trigger a reconcile.
func differs[T client.Object](before, after T) bool {
	if before.GetUID() != after.GetUID() {
		return true
	}
	a := after.DeepCopyObject().(client.Object)
	a.SetResourceVersion(before.GetResourceVersion())
	return !equality.Semantic.DeepEqual(client.Object(before), a)
}

// get returns an object that must not be changed.
func (v *view[T]) get(key client.ObjectKey) (T, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	obj, ok := v.objects[key]
	return obj, ok
}

// all returns objects that must not be changed, in the order of their names; with
// indexed, those of that value in the index.
func (v *view[T]) all(indexed *string) []T {
	v.mu.RLock()
	from := v.objects
	if indexed != nil {
		from = v.indexed[*indexed]
	}
	out := slices.Collect(maps.Values(from))
	v.mu.RUnlock()
	slices.SortFunc(out, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}
