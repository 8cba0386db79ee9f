// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// answers are what was read from a store. A question has the same answer until
// something of its kind is written: most reads of a world repeat one. A reader that
// requests no copy gets none, as from a manager's cache, and must not change the
// answer.
type answers struct {
	kinds sync.Map // of a *sync.Map from question to *answer, by schema.GroupVersionResource

	unchecked bool // changed is not recorded

	mu      sync.Mutex // guards changed
	changed []string   // shared answers that a reader has changed
}

// answer is a cached answer, and the shared copy once a reader requests it without
// a deep copy.
type answer struct {
	of   runtime.Object // shares parts with stored objects
	lent func() runtime.Object
	out  atomic.Bool // it is lent
}

func newAnswer(obj runtime.Object) *answer {
	a := &answer{of: obj}
	a.lent = sync.OnceValue(func() runtime.Object {
		a.out.Store(true)
		return a.of.DeepCopyObject()
	})
	return a
}

// fill puts the answer into obj.
func (a *answer) fill(obj runtime.Object, lend bool) {
	from := a.lent
	if !lend {
		from = a.of.DeepCopyObject
	}
	reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(from()).Elem())
}

// question is what is read, into which type.
type question struct {
	into reflect.Type
	what string
}

// remember makes reads of a server use the cache.
func (a *answers) remember(server *apiServer, funcs interceptor.Funcs) interceptor.Funcs {
	funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		o := (&client.GetOptions{}).ApplyOptions(opts)
		kind, err := apiutil.GVKForObject(obj, c.Scheme())
		if err != nil {
			return err
		}
		server.noteGet(kind, key)
		return a.ask(kind, obj, key.String(), ptr.Deref(o.UnsafeDisableDeepCopy, false), func(obj runtime.Object) error {
			return c.Get(ctx, key, obj.(client.Object), client.UnsafeDisableDeepCopy)
		})
	}
	funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		o := (&client.ListOptions{}).ApplyOptions(opts)
		kind, err := apiutil.GVKForObject(list, c.Scheme())
		if err != nil {
			return err
		}
		kind.Kind = strings.TrimSuffix(kind.Kind, "List")
		server.noteList(kind, o)
		return a.ask(kind, list, fmt.Sprintf("%s %v %v", o.Namespace, o.LabelSelector, o.FieldSelector), ptr.Deref(o.UnsafeDisableDeepCopy, false), func(obj runtime.Object) error {
			return c.List(ctx, obj.(client.ObjectList), append(opts, client.UnsafeDisableDeepCopy)...)
		})
	}
	return funcs
}

// ask fills obj with the cached answer, or reads it.
func (a *answers) ask(kind schema.GroupVersionKind, obj runtime.Object, what string, lend bool, read func(runtime.Object) error) error {
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	// What is read during a write goes into a map that is no longer used.
	kept, _ := a.kinds.LoadOrStore(resource, &sync.Map{})
	known, q := kept.(*sync.Map), question{reflect.TypeOf(obj), what}
	found, ok := known.Load(q)
	if !ok {
		answer := reflect.New(q.into.Elem()).Interface().(runtime.Object)
		answer.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
		if err := read(answer); err != nil {
			return err
		}
		found = newAnswer(answer)
		known.Store(q, found)
	}
	found.(*answer).fill(obj, lend)
	return nil
}

// forget evicts the answers of a kind after a write.
func (a *answers) forget(resource schema.GroupVersionResource) {
	if kept, ok := a.kinds.LoadAndDelete(resource); ok && !a.unchecked {
		a.compare(resource, kept.(*sync.Map))
	}
}

// compare records what was shared and has changed since.
func (a *answers) compare(resource schema.GroupVersionResource, kept *sync.Map) {
	kept.Range(func(key, value any) bool {
		if one := value.(*answer); one.out.Load() && !reflect.DeepEqual(one.lent(), one.of) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.changed = append(a.changed, fmt.Sprintf("%s, read by %q", resource.Resource, key.(question).what))
		}
		return true
	})
}

// spoiled are the shared answers that a reader has changed.
func (a *answers) spoiled() []string {
	a.kinds.Range(func(key, kept any) bool {
		a.compare(key.(schema.GroupVersionResource), kept.(*sync.Map))
		return true
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}
