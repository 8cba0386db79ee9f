// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// DataAnnotation on an object of an older version holds the fields that only its hub
// has. It is never stored: the conversion up removes it.
const DataAnnotation = "cluster.x-k8s.io/conversion-data"

// Kind converts the objects of one kind between an older version and the hub.
type Kind struct {
	Old, Hub       schema.GroupVersionKind
	NewOld, NewHub func() runtime.Object
	// Up and Down return new objects that share nothing with their argument, and do not
	// change it.
	Up   func(old runtime.Object) (hub runtime.Object, err error)
	Down func(hub runtime.Object, lookup Lookup) (old runtime.Object, err error)
}

// Definition is how a group defines the conversion of a kind. Metadata and the
// annotation are handled by Define.
type Definition[O, H any] struct {
	Kind     string
	Old, Hub schema.GroupVersion
	// Up fills hub from old. kept is the content of the annotation, nil without one.
	Up func(old *O, hub, kept *H) error
	// Down fills old from hub.
	Down func(hub *H, old *O, lookup Lookup) error
	// Keep returns the content of the annotation, built by Data; nil where a kind has no
	// annotation.
	Keep func(hub *H) any
}

type object[T any] interface {
	*T
	runtime.Object
	metav1.Object
	metav1.ObjectMetaAccessor
}

// Define creates the conversion of a kind.
func Define[O, H any, PO object[O], PH object[H]](d Definition[O, H]) Kind {
	k := Kind{
		Old:    d.Old.WithKind(d.Kind),
		Hub:    d.Hub.WithKind(d.Kind),
		NewOld: func() runtime.Object { return PO(new(O)) },
		NewHub: func() runtime.Object { return PH(new(H)) },
	}
	k.Up = func(from runtime.Object) (runtime.Object, error) {
		old, hub := copied[O, PO](from), PH(new(H))
		var kept *H
		err := error(nil)
		if d.Keep != nil {
			kept, err = restore[H](old)
		}
		if err == nil {
			begin(old, hub, k.Hub)
			err = d.Up(old, hub, kept)
		}
		return finish(hub, old, k.Hub, err)
	}
	k.Down = func(from runtime.Object, lookup Lookup) (runtime.Object, error) {
		hub, old := copied[H, PH](from), PO(new(O))
		hub.GetObjectKind().SetGroupVersionKind(k.Hub)
		err := error(nil)
		if d.Keep != nil {
			err = store(hub, d.Keep(hub))
		}
		if err == nil {
			begin(hub, old, k.Old)
			err = d.Down(hub, old, lookup)
		}
		return finish(old, hub, k.Old, err)
	}
	return k
}

// copied returns a deep copy of an object as type P.
func copied[T any, P object[T]](from runtime.Object) P {
	return from.(P).DeepCopyObject().(P)
}

// begin sets the version of the result and the metadata of the source, which are the
// same in all versions.
func begin(from, to metav1.ObjectMetaAccessor, as schema.GroupVersionKind) {
	*to.GetObjectMeta().(*metav1.ObjectMeta) = *from.GetObjectMeta().(*metav1.ObjectMeta)
	to.(runtime.Object).GetObjectKind().SetGroupVersionKind(as)
}

// finish wraps an error with the object that could not be converted.
func finish(to runtime.Object, from metav1.Object, as schema.GroupVersionKind, err error) (runtime.Object, error) {
	if err != nil {
		return nil, fmt.Errorf("convert %s %s/%s to %s: %w", as.Kind, from.GetNamespace(), from.GetName(), as.GroupVersion(), err)
	}
	return to, nil
}

// data is the form of the annotation: an object without metadata.
type data[S, T any] struct {
	metav1.TypeMeta `json:",inline"`
	Spec            S `json:"spec,omitzero"`
	Status          T `json:"status,omitzero"`
}

// Data builds the content of the annotation.
func Data[S, T any](of metav1.TypeMeta, spec S, status T) any {
	return data[S, T]{TypeMeta: of, Spec: spec, Status: status}
}

// store writes the annotation. It is omitted if it is too large: a read without it is
// better than none. Only fields that the older version does not have are lost, and only
// if a client then writes the object that it read.
func store(to metav1.Object, content any) error {
	encoded, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode annotation %s: %w", DataAnnotation, err)
	}
	annotations := to.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[DataAnnotation] = string(encoded)
	if validation.ValidateAnnotationsSize(annotations) != nil {
		delete(annotations, DataAnnotation)
	}
	to.SetAnnotations(annotations)
	return nil
}

// restore removes the annotation and returns its content, nil without one.
func restore[H any](from metav1.Object) (*H, error) {
	annotations := from.GetAnnotations()
	encoded, ok := annotations[DataAnnotation]
	if !ok {
		return nil, nil
	}
	kept := new(H)
	if err := utiljson.Unmarshal([]byte(encoded), kept); err != nil {
		return nil, fmt.Errorf("annotation %s: %w: remove it, or leave it as it was read", DataAnnotation, err)
	}
	delete(annotations, DataAnnotation)
	from.SetAnnotations(annotations)
	return kept, nil
}
