// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// answers are what was read from a store. A question has the same answer until
// something of its kind is written. Most reads of a world repeat one, and the
// fake client takes each of them through JSON.
type answers struct {
	kinds sync.Map // of a *sync.Map from question to runtime.Object, by schema.GroupVersionResource
}

// question is what is read, into which type.
type question struct {
	into reflect.Type
	what string
}

// remember lets a fake client answer from memory.
func (a *answers) remember(funcs interceptor.Funcs) interceptor.Funcs {
	funcs.Get = func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
		return a.ask(c, obj, key.String(), func() error { return c.Get(ctx, key, obj, opts...) })
	}
	funcs.List = func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		o := (&client.ListOptions{}).ApplyOptions(opts)
		return a.ask(c, list, fmt.Sprintf("%s %v %v", o.Namespace, o.LabelSelector, o.FieldSelector), func() error { return c.List(ctx, list, opts...) })
	}
	return funcs
}

// ask fills obj with the answer that is known, or reads it.
func (a *answers) ask(c client.Client, obj runtime.Object, what string, read func() error) error {
	kind, err := apiutil.GVKForObject(obj, c.Scheme())
	if err != nil {
		return err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	// What is read while somebody writes goes where nobody looks any more.
	kept, _ := a.kinds.LoadOrStore(resource, &sync.Map{})
	known, q := kept.(*sync.Map), question{reflect.TypeOf(obj), what}
	if answer, ok := known.Load(q); ok {
		reflect.ValueOf(obj).Elem().Set(reflect.ValueOf(answer.(runtime.Object).DeepCopyObject()).Elem())
		return nil
	}
	if err := read(); err != nil {
		return err
	}
	known.Store(q, obj.DeepCopyObject())
	return nil
}

// forget drops what was read of a kind, once it was written.
func (a *answers) forget(resource schema.GroupVersionResource) { a.kinds.Delete(resource) }
