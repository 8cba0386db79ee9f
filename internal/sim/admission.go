// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Admit defaults and validates an object before it is stored, as an API server does with
// its webhooks and quotas. It may change obj. old is what is stored, nil for a new object,
// and must not be changed. stored is the number of objects of that kind in the namespace.
// It is called for new objects and for those whose spec changes: other writes add nothing
// that could be refused.
type Admit func(old, obj *unstructured.Unstructured, stored int) error

// refusal is the error of a write that was not admitted. It does not count as a write:
// nothing that another controller reads can have changed.
type refusal struct{ error }

// Unwrap returns the error for a client.
func (r refusal) Unwrap() error { return r.error }

// ended notes a write, unless it was not admitted.
func (s *apiServer) ended(resource schema.GroupVersionResource, err error) {
	if _, refused := err.(refusal); !refused {
		s.wrote(resource)
	}
}

// admitted returns what is stored in place of r. It needs the lock. Fields that Admit
// sets have no manager, as on an API server.
func (s *apiServer) admitted(gvk schema.GroupVersionKind, old, r *record) (*record, error) {
	if s.admit == nil || old != nil && equality.Semantic.DeepEqual(desired(old.bare()), desired(r.bare())) {
		return r, nil
	}
	var was *unstructured.Unstructured
	if old != nil {
		was = &unstructured.Unstructured{Object: old.bare()}
	}
	stored := 0
	for key := range s.table(gvk).records {
		if key.Namespace == r.GetNamespace() {
			stored++
		}
	}
	obj := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(r.bare())}
	if err := s.admit(was, obj, stored); err != nil {
		s.refusals++
		return nil, refusal{err}
	}
	if equality.Semantic.DeepEqual(obj.Object, r.bare()) {
		return r, nil
	}
	next, err := s.decode(gvk, obj.Object)
	if err != nil {
		return nil, err
	}
	next.SetManagedFields(r.GetManagedFields())
	return newRecord(next, encoded(gvk, next)), nil
}
