// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Memory caches a value for each object under reconcile, from one reconcile to the
// next; a restart loses it. The zero value is ready. A reconciler must embed one,
// or call its Forget from its own, so that the values of deleted objects are
// evicted.
type Memory[V any] struct {
	mu sync.Mutex // guards of
	of map[client.ObjectKey]remembered[V]
}

// remembered is the value of one object; not of another one with its name.
type remembered[V any] struct {
	uid   types.UID
	value V
}

// Get returns the cached value of the object, or the zero value.
func (m *Memory[V]) Get(obj client.Object) (value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.of[client.ObjectKeyFromObject(obj)]; r.uid == obj.GetUID() {
		value = r.value
	}
	return value
}

// Set caches a value of the object.
func (m *Memory[V]) Set(obj client.Object, value V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[client.ObjectKey]remembered[V]{}
	}
	m.of[client.ObjectKeyFromObject(obj)] = remembered[V]{obj.GetUID(), value}
}

// Forget evicts the value of an object.
func (m *Memory[V]) Forget(key client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, key)
}
