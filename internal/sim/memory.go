// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Index is a field by which objects of a kind can be listed.
type Index struct {
	Kind  schema.GroupVersionKind
	Field string
	Of    client.IndexerFunc
}

// Memory is an API server in memory. Its objects have no managedFields.
type Memory struct{ *apiServer }

// NewMemory creates one for the kinds of a scheme. Kinds with a status subresource
// are listed. reads collect what is read of it.
func NewMemory(scheme *runtime.Scheme, c clock.PassiveClock, reads *Reads, status []schema.GroupVersionKind, indexes ...Index) Memory {
	created := 0
	s := &apiServer{
		scheme: scheme, mapper: meta.NewDefaultRESTMapper(nil), plain: true, reads: reads,
		status:  map[schema.GroupVersionKind]bool{},
		indexes: map[schema.GroupVersionKind]map[string]client.IndexerFunc{},
		begin: func(obj metav1.Object) {
			created++
			obj.SetUID(types.UID(fmt.Sprintf("created-%d", created)))
			obj.SetCreationTimestamp(metav1.NewTime(c.Now()))
			obj.SetGeneration(1)
		},
		now:   func() metav1.Time { return metav1.NewTime(c.Now()) },
		wrote: func(schema.GroupVersionResource) {},
		kinds: map[schema.GroupVersionKind]*table{},
	}
	for _, kind := range status {
		s.status[kind] = true
	}
	for _, i := range indexes {
		if s.indexes[i.Kind] == nil {
			s.indexes[i.Kind] = map[string]client.IndexerFunc{}
		}
		s.indexes[i.Kind][i.Field] = i.Of
	}
	return Memory{s}
}

// Put stores an object as another API server stores it.
func (m Memory) Put(_ context.Context, obj client.Object) error { return m.replace(obj) }
