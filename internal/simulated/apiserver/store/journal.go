// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Journal keeps the changes of one store. Load gives back what is kept, in
// order; Append adds one; Rewrite replaces everything.
type Journal interface {
	Load(func(Record) error) error
	Append(Record) error
	Rewrite([]Record) error
	Size() int64
}

// Record is one change in a journal: a version of an object, or its deletion if
// Object is empty. A record without a name only carries a version.
type Record struct {
	Version   uint64          `json:"version"`
	Resource  string          `json:"resource,omitempty"` // deployments.apps
	Namespace string          `json:"namespace,omitempty"`
	Name      string          `json:"name,omitempty"`
	Object    json.RawMessage `json:"object,omitempty"`
}

// A journal is rewritten when it is this many times as large as what it
// holds, and not before it has reached a size that is worth the trouble.
const (
	slack      = 4
	worthwhile = 256 << 10
)

// Key names the object of the record.
func (r Record) Key() Key {
	return Key{Resource: schema.ParseGroupResource(r.Resource), Namespace: r.Namespace, Name: r.Name}
}

func record(e *Entry, object []byte) Record {
	return Record{
		Version: e.Version, Resource: e.Key.Resource.String(), Namespace: e.Key.Namespace, Name: e.Key.Name, Object: object,
	}
}

// append writes one change down before it becomes visible; the lock must be
// held for writing.
func (s *Store) append(r Record) error {
	if s.journal == nil {
		return nil
	}
	if size := s.journal.Size(); size > worthwhile && size > slack*int64(s.live) {
		if err := s.journal.Rewrite(s.snapshot()); err != nil {
			return fmt.Errorf("compact journal: %w", err)
		}
	}
	if err := s.journal.Append(r); err != nil {
		return fmt.Errorf("append to journal: %w", err)
	}
	return nil
}

func (s *Store) snapshot() []Record {
	records := []Record{{Version: s.version}}
	for _, t := range s.tables {
		for _, e := range t.entries {
			if !e.Born {
				records = append(records, record(e, e.Raw))
			}
		}
	}
	return records
}
