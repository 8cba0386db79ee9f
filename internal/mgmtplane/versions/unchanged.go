// SPDX-License-Identifier: Apache-2.0

package versions

import (
	"context"
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// unchanged gives a spec or status that an update at an old version leaves as it
// is stored the form that it is read in.
//
// An API server compares objects as they were sent. "10m" is read back as "10m0s",
// a reference with another version and a namespace, and a zero that says nothing
// not at all, so whoever applies the same object again would raise its generation
// and write it each time, for ever. What differs in its form alone is taken from
// the object that is there. Everything after this sees that nothing changed: the
// generation, the times in managed fields, dry runs and the store.
type unchanged struct{ by *conversion.Converter }

// Handles implements admission.Interface.
func (unchanged) Handles(o admission.Operation) bool { return o == admission.Update }

// Admit implements admission.MutationInterface. It comes after all others, so what
// they changed counts. An object that cannot be converted is left for the store,
// which refuses it.
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

// data is all of an object but its metadata.
func data(u *unstructured.Unstructured) map[string]any {
	fields := maps.Clone(u.Object)
	delete(fields, "metadata")
	return fields
}
