// SPDX-License-Identifier: Apache-2.0

package extensions

import (
	"container/list"
	"sync"
	"time"
)

// memory caches values until they expire, with limits of number and bytes; the
// least recently used values are evicted first.
type memory[K comparable, V any] struct {
	maxEntries, maxBytes int

	mu      sync.Mutex // guards the fields below
	entries map[K]*list.Element
	order   *list.List // of entry[K, V], the most recently used first
	bytes   int
}

type entry[K comparable, V any] struct {
	key   K
	value V
	bytes int
	until time.Time
}

func newMemory[K comparable, V any](maxEntries, maxBytes int) *memory[K, V] {
	return &memory[K, V]{maxEntries: maxEntries, maxBytes: maxBytes, entries: map[K]*list.Element{}, order: list.New()}
}

func (m *memory[K, V]) get(key K, now time.Time) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.entries[key]
	if !ok {
		return value, false
	}
	e := at.Value.(entry[K, V])
	if !now.Before(e.until) {
		m.remove(at)
		return value, false
	}
	m.order.MoveToFront(at)
	return e.value, true
}

func (m *memory[K, V]) put(key K, value V, bytes int, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.entries[key]; ok {
		m.remove(at)
	}
	if bytes > m.maxBytes {
		return
	}
	m.entries[key] = m.order.PushFront(entry[K, V]{key: key, value: value, bytes: bytes, until: until})
	m.bytes += bytes
	for m.order.Len() > m.maxEntries || m.bytes > m.maxBytes {
		m.remove(m.order.Back())
	}
}

// forget evicts one value.
func (m *memory[K, V]) forget(key K) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if at, ok := m.entries[key]; ok {
		m.remove(at)
	}
}

// drop evicts values for which stale returns true.
func (m *memory[K, V]) drop(stale func(V) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := m.order.Front(); at != nil; {
		next := at.Next()
		if stale(at.Value.(entry[K, V]).value) {
			m.remove(at)
		}
		at = next
	}
}

// remove removes an element. The caller must hold the lock.
func (m *memory[K, V]) remove(at *list.Element) {
	e := m.order.Remove(at).(entry[K, V])
	delete(m.entries, e.key)
	m.bytes -= e.bytes
}
