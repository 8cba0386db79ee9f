// SPDX-License-Identifier: Apache-2.0

// Package store keeps the objects of one simulated cluster: their latest versions
// as JSON, a bounded log of what changed, and a journal from which both versions
// and objects are restored after a restart.
//
// It does not interpret objects. An entry is immutable; a writer names the entry it
// started from and loses if that is no longer the latest.
//
// A File is such a journal: a simulated cluster is restored from it after the process
// was stopped, or killed. What was added since the last Sync survives the process, not
// the host. Its first line has how much of the file has been acknowledged: anything
// less than that is damage, anything more was being written as the process ended. Each
// further line is a record: the checksum of everything from the first record to this
// one, and a JSON document.
package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	// ErrConflict means that the object changed since the writer read it.
	ErrConflict = errors.New("the object has changed")
	// ErrTooOld means that the log no longer reaches back to a version.
	ErrTooOld = errors.New("the version is too old")
	// ErrFull means that the objects of a cluster exceed their limit.
	ErrFull = fmt.Errorf("the objects of the simulated cluster exceed %d MiB: delete some", maxBytes>>20)
)

// maxBytes limits the objects of a cluster, which are in the memory of a process that
// other clusters share. What exists may grow a little beyond it, by statuses.
const maxBytes, maxGrown = 128 << 20, 144 << 20

// Key names one object.
type Key struct {
	Resource  schema.GroupResource
	Namespace string
	Name      string
}

// Entry is one version of one object.
type Entry struct {
	Key     Key
	UID     types.UID
	Version uint64
	Labels  map[string]string
	Owners  []types.UID // those that own it, for garbage collection
	Raw     []byte      // the whole object as JSON, its resourceVersion included
	Form    any         // what Raw was decoded to fit; nil after a restart
	Born    bool        // all clusters have it alike: it is in no journal
}

// Store is safe for concurrent use.
type Store struct {
	journal Journal
	observe atomic.Pointer[func(Key)]

	mu      sync.RWMutex // guards all below
	version uint64
	tables  map[schema.GroupResource]*table
	log     eventLog
	live    int // bytes of all latest entries
}

type table struct {
	entries map[Key]*Entry
	version uint64        // of the latest change
	changed chan struct{} // closed and replaced at every change
}

// Open returns a store with what the journal holds, and with the default objects of
// every cluster whose names are still free. A nil journal keeps everything in
// memory only.
func Open(journal Journal, born []*Entry, parse func(Record) (*Entry, error)) (*Store, error) {
	s := &Store{journal: journal, tables: map[schema.GroupResource]*table{}, version: 1}
	if journal != nil {
		if err := s.load(parse); err != nil {
			return nil, fmt.Errorf("load journal: %w", err)
		}
		s.log.floor = s.version
	}
	for _, e := range born {
		if t := s.table(e.Key.Resource); t.entries[e.Key] == nil {
			t.entries[e.Key] = e
		}
	}
	return s, nil
}

func (s *Store) load(parse func(Record) (*Entry, error)) error {
	return s.journal.Load(func(r Record) error {
		s.version = max(s.version, r.Version)
		if r.Name == "" {
			return nil
		}
		key := r.Key()
		t := s.table(key.Resource)
		t.version = r.Version
		if old := t.entries[key]; old != nil {
			s.live -= old.size()
		}
		delete(t.entries, key)
		if r.Object == nil {
			return nil
		}
		e, err := parse(r)
		if err != nil {
			return fmt.Errorf("%s %s/%s: %w", key.Resource, key.Namespace, key.Name, err)
		}
		t.entries[key] = e
		s.live += e.size()
		return nil
	})
}

// size is the size of the entry in the journal.
func (e *Entry) size() int {
	if e.Born {
		return 0
	}
	return len(e.Raw)
}

// Version is the version of the latest change.
func (s *Store) Version() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.version
}

// VersionOf is the version of the latest change of a resource, 0 if there was
// none.
func (s *Store) VersionOf(resource schema.GroupResource) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.tables[resource]; t != nil {
		return t.version
	}
	return 0
}

// Get returns the latest entry, or nil.
func (s *Store) Get(key Key) *Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if t := s.tables[key.Resource]; t != nil {
		return t.entries[key]
	}
	return nil
}

// List returns the entries of a resource, of one namespace unless that is
// empty, in the order of their keys, and the version at which they are the
// latest.
func (s *Store) List(resource schema.GroupResource, namespace string) ([]*Entry, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var entries []*Entry
	if t := s.tables[resource]; t != nil {
		for key, e := range t.entries {
			if namespace == "" || key.Namespace == namespace {
				entries = append(entries, e)
			}
		}
	}
	slices.SortFunc(entries, byKey)
	return entries, s.version
}

// byKey orders entries as the keys of etcd would, in which a namespace ends
// with a slash.
func byKey(a, b *Entry) int {
	if a.Key.Namespace != b.Key.Namespace {
		return cmp.Compare(a.Key.Namespace+"/", b.Key.Namespace+"/")
	}
	return cmp.Compare(a.Key.Name, b.Key.Name)
}

// ListAt is List at an earlier version. It returns ErrTooOld if the log no longer
// reaches back to it.
func (s *Store) ListAt(resource schema.GroupResource, namespace string, version uint64) ([]*Entry, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if version < s.log.floor {
		return nil, ErrTooOld
	}
	then := map[Key]*Entry{}
	if t := s.tables[resource]; t != nil {
		maps.Copy(then, t.entries)
	}
	for _, ev := range slices.Backward(s.log.since(resource, version)) {
		if then[ev.Entry.Key] = ev.Prev; ev.Prev == nil {
			delete(then, ev.Entry.Key)
		}
	}
	entries := slices.DeleteFunc(slices.Collect(maps.Values(then)), func(e *Entry) bool { return namespace != "" && e.Key.Namespace != namespace })
	slices.SortFunc(entries, byKey)
	return entries, nil
}

// Select returns the entries of every resource for which keep is true.
func (s *Store) Select(keep func(*Entry) bool) []*Entry {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var entries []*Entry
	for _, t := range s.tables {
		for _, e := range t.entries {
			if keep(e) {
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// Observe calls f with the key of each object that changes from now on, in the
// goroutine of the writer and after the change: f may use the store. There is one
// observer; nil removes it.
func (s *Store) Observe(f func(Key)) {
	if f == nil {
		s.observe.Store(nil)
		return
	}
	s.observe.Store(&f)
}

func (s *Store) notify(key Key) {
	if f := s.observe.Load(); f != nil {
		(*f)(key)
	}
}

// Put stores what encode returns as the latest version of key. was is the entry the
// writer started from, nil to create. encode gets the new version, and must not
// call the store.
func (s *Store) Put(key Key, was *Entry, encode func(version uint64) (*Entry, error)) (*Entry, error) {
	e, err := s.put(key, was, encode)
	if err == nil {
		s.notify(key)
	}
	return e, err
}

func (s *Store) put(key Key, was *Entry, encode func(version uint64) (*Entry, error)) (*Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(key.Resource)
	if t.entries[key] != was {
		return nil, ErrConflict
	}
	e, err := encode(s.version + 1)
	if err != nil {
		return nil, err
	}
	e.Key, e.Version = key, s.version+1
	if s.isFull(was, e) {
		return nil, ErrFull
	}
	if err := s.append(record(e, e.Raw)); err != nil {
		return nil, err
	}
	kind := Modified
	if was == nil {
		kind = Added
	} else {
		s.live -= was.size()
	}
	t.entries[key] = e
	s.live += e.size()
	s.publish(t, Event{Type: kind, Entry: e, Prev: was})
	return e, nil
}

// isFull reports whether there is no room for an entry in place of was.
func (s *Store) isFull(was, e *Entry) bool {
	if was == nil {
		return s.live+e.size() > maxBytes
	}
	return e.size() > was.size() && s.live+e.size()-was.size() > maxGrown
}

// Delete removes key, whose latest entry must be was. encode gives the object
// as watchers see it last, at the version of its deletion.
func (s *Store) Delete(key Key, was *Entry, encode func(version uint64) (*Entry, error)) (*Entry, error) {
	e, err := s.take(key, was, encode)
	if err == nil {
		s.notify(key)
	}
	return e, err
}

func (s *Store) take(key Key, was *Entry, encode func(version uint64) (*Entry, error)) (*Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.table(key.Resource)
	if was == nil || t.entries[key] != was {
		return nil, ErrConflict
	}
	e, err := encode(s.version + 1)
	if err != nil {
		return nil, err
	}
	e.Key, e.Version = key, s.version+1
	if err := s.append(record(e, nil)); err != nil {
		return nil, err
	}
	delete(t.entries, key)
	s.live -= was.size()
	s.publish(t, Event{Type: Deleted, Entry: e, Prev: was})
	return e, nil
}

// Since returns the events of a resource after version, and a channel that is
// closed when there is another. reached is the version up to which the caller then
// has everything.
func (s *Store) Since(resource schema.GroupResource, version uint64) (events []Event, reached uint64, changed <-chan struct{}, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version < s.log.floor {
		return nil, 0, nil, ErrTooOld
	}
	return s.log.since(resource, version), s.version, s.table(resource).changed, nil
}

// table returns the table of a resource, making it if need be; the lock must
// be held for writing.
func (s *Store) table(resource schema.GroupResource) *table {
	t := s.tables[resource]
	if t == nil {
		t = &table{entries: map[Key]*Entry{}, changed: make(chan struct{})}
		s.tables[resource] = t
	}
	return t
}

func (s *Store) publish(t *table, ev Event) {
	s.version, t.version = ev.Entry.Version, ev.Entry.Version
	s.log.add(ev)
	close(t.changed)
	t.changed = make(chan struct{})
}
