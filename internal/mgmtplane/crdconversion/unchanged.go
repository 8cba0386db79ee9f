// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"context"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// unchanged gives a spec or status that an update at an old version does not change
// the form in which it is read.
//
// An API server compares objects as they were sent. "10m" is read back as "10m0s",
// a reference with another version and a namespace, and a zero without a meaning
// not at all, so a client that applies the same object again would increase its
// generation and write it each time, forever. Values that differ only in their form
// are taken from the stored object. Everything after this sees no change: the
// generation, the times in managed fields, dry runs and the store.
type unchanged struct{ by *conversion.Converter }

// Handles implements admission.Interface.
func (unchanged) Handles(o admission.Operation) bool { return o == admission.Update }

// Admit implements admission.MutationInterface. It is called after all others, so
// that their changes count. An object that cannot be converted is left unchanged
// for the store, which refuses it.
func (u unchanged) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	obj, isObject := a.GetObject().(*unstructured.Unstructured)
	old, wasObject := a.GetOldObject().(*unstructured.Unstructured)
	if !isObject || !wasObject || !u.by.Converts(obj.GroupVersionKind()) || reflect.DeepEqual(data(obj), data(old)) {
		return nil
	}
	stored := u.by.Stored(obj.GroupVersionKind().GroupKind())
	now, err := u.by.Object(obj.Object, stored)
	if err != nil {
		return nil
	}
	was, err := u.by.Object(old.Object, stored)
	if err != nil {
		return nil
	}
	for _, part := range []string{"spec", "status"} {
		if !reflect.DeepEqual(now[part], was[part]) {
			continue
		}
		delete(obj.Object, part)
		if v, ok := old.Object[part]; ok {
			obj.Object[part] = runtime.DeepCopyJSONValue(v)
		}
	}
	return nil
}

// data returns all of an object except its metadata.
func data(u *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(u.Object)
	delete(fields, "metadata")
	return fields
}
