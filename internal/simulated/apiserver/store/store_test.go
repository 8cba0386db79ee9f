// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/store"
)

var nodes = schema.GroupResource{Resource: "nodes"}

func key(name string) store.Key { return store.Key{Resource: nodes, Namespace: "ns", Name: name} }

// body creates an entry that holds text.
func body(text string) func(uint64) (*store.Entry, error) {
	return func(uint64) (*store.Entry, error) { return &store.Entry{Raw: []byte(`"` + text + `"`)}, nil }
}

// tape is a journal in memory.
type tape struct {
	records  []store.Record
	size     int64
	rewrites int
	fail     error
}

func (t *tape) Load(apply func(store.Record) error) error {
	for _, r := range t.records {
		if err := apply(r); err != nil {
			return err
		}
	}
	return nil
}

func (t *tape) Append(r store.Record) error {
	if t.fail != nil {
		return t.fail
	}
	t.records = append(t.records, r)
	t.size += int64(len(r.Object)) + 50
	return nil
}

func (t *tape) Rewrite(records []store.Record) error {
	t.records, t.size, t.rewrites = nil, 0, t.rewrites+1
	for _, r := range records {
		if err := t.Append(r); err != nil {
			return err
		}
	}
	return nil
}

func (t *tape) Size() int64 { return t.size }

func open(t *testing.T, j store.Journal) *store.Store {
	t.Helper()
	s, err := store.Open(j, nil, func(r store.Record) (*store.Entry, error) {
		return &store.Entry{Key: r.Key(), Version: r.Version, Raw: r.Object}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *store.Store, name, text string) *store.Entry {
	t.Helper()
	e, err := s.Put(key(name), s.Get(key(name)), body(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestTheSlowerWriterLoses(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	first := put(t, s, "a", "1")
	put(t, s, "a", "2")
	version := s.Version()
	if _, err := s.Put(key("a"), first, body("3")); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a write over an old entry: %v, want a conflict", err)
	}
	if _, err := s.Put(key("a"), nil, body("3")); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a second creation: %v, want a conflict", err)
	}
	if _, err := s.Delete(key("a"), first, body("3")); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a deletion of an old entry: %v, want a conflict", err)
	}
	if s.Version() != version {
		t.Errorf("version %d, want %d: who loses changes nothing", s.Version(), version)
	}
}

func TestEventsAreKeptWhileThereIsRoom(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	start := s.Version()
	a := put(t, s, "a", "1")
	_, _, changed, err := s.Since(nodes, a.Version)
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "2")
	select {
	case <-changed:
	default:
		t.Error("no watch received the change")
	}
	if _, err := s.Delete(key("a"), s.Get(key("a")), body("3")); err != nil {
		t.Fatal(err)
	}
	events, reached, _, err := s.Since(nodes, start)
	if err != nil || reached != s.Version() {
		t.Fatalf("reached %d, error %v", reached, err)
	}
	var got []string
	for _, ev := range events {
		got = append(got, string(ev.Type)+" "+string(ev.Entry.Raw))
	}
	if diff := cmp.Diff([]string{`ADDED "1"`, `MODIFIED "2"`, `DELETED "3"`}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	put(t, s, "big", strings.Repeat("x", 1<<20))
	put(t, s, "b", "")
	if _, _, _, err := s.Since(nodes, start); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("error %v, want too old", err)
	}
	if events, _, _, err := s.Since(nodes, s.Version()-1); err != nil || len(events) != 1 {
		t.Errorf("the latest change: %d events, error %v, want 1", len(events), err)
	}
}

func TestAListIsShownAsItWas(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	put(t, s, "a", "1")
	put(t, s, "b", "1")
	then := s.Version()
	put(t, s, "a", "2")
	put(t, s, "c", "1")
	if _, err := s.Delete(key("b"), s.Get(key("b")), body("")); err != nil {
		t.Fatal(err)
	}
	entries, err := s.ListAt(nodes, "ns", then)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Key.Name+string(e.Raw))
	}
	if diff := cmp.Diff([]string{`a"1"`, `b"1"`}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	put(t, s, "big", strings.Repeat("x", 1<<20))
	put(t, s, "d", "")
	if _, err := s.ListAt(nodes, "ns", then); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("error %v, want too old", err)
	}
}

func TestAStoreComesBackFromItsJournal(t *testing.T) {
	t.Parallel()
	j := &tape{}
	s := open(t, j)
	put(t, s, "a", "1")
	put(t, s, "b", "1")
	put(t, s, "a", "2")
	if _, err := s.Delete(key("b"), s.Get(key("b")), body("")); err != nil {
		t.Fatal(err)
	}
	again := open(t, j)
	entries, version := again.List(nodes, "ns")
	if len(entries) != 1 || string(entries[0].Raw) != `"2"` || version != s.Version() {
		t.Errorf("%d entries at %d, want a=2 at %d", len(entries), version, s.Version())
	}
	if _, _, _, err := again.Since(nodes, version-1); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("a watch from before the restart: %v, want too old", err)
	}
	if _, _, _, err := again.Since(nodes, version); err != nil {
		t.Errorf("a watch from the last version: %v", err)
	}
}

func TestAJournalIsRewrittenWhenMostOfItIsOld(t *testing.T) {
	t.Parallel()
	j := &tape{}
	s := open(t, j)
	for range 100 {
		put(t, s, "a", strings.Repeat("x", 10<<10))
	}
	if j.rewrites == 0 || j.size > 400<<10 {
		t.Errorf("%d bytes after %d rewrites", j.size, j.rewrites)
	}
	again := open(t, j)
	if again.Version() != s.Version() || string(again.Get(key("a")).Raw) != string(s.Get(key("a")).Raw) {
		t.Error("something was lost in rewriting")
	}
}

func TestWhatTheJournalRefusesDidNotHappen(t *testing.T) {
	t.Parallel()
	j := &tape{}
	s := open(t, j)
	put(t, s, "a", "1")
	j.fail = errors.New("disk full")
	if _, err := s.Put(key("a"), s.Get(key("a")), body("2")); !errors.Is(err, j.fail) {
		t.Errorf("error %v, want %v", err, j.fail)
	}
	if got := string(s.Get(key("a")).Raw); got != `"1"` {
		t.Errorf("entry %s, want it as it was", got)
	}
}

func TestAJournalThatMakesNoSenseIsAnError(t *testing.T) {
	t.Parallel()
	j := &tape{records: []store.Record{{Version: 2, Resource: "nodes", Namespace: "ns", Name: "a", Object: json.RawMessage(`1`)}}}
	_, err := store.Open(j, nil, func(store.Record) (*store.Entry, error) { return nil, errors.New("no metadata") })
	if err == nil || err.Error() != "load journal: nodes ns/a: no metadata" {
		t.Errorf("error %v", err)
	}
}

func TestAnObserverHearsOfEveryChangeAndMayUseTheStore(t *testing.T) {
	t.Parallel()
	s, err := store.Open(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var heard []string
	s.Observe(func(k store.Key) {
		state := "gone"
		if e := s.Get(k); e != nil {
			state = string(e.Raw)
		}
		heard = append(heard, k.Name+" is "+state)
	})
	a, err := s.Put(key("a"), nil, body("1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(key("a"), nil, body("2")); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("a second a: %v, want a conflict", err)
	}
	if _, err := s.Delete(key("a"), a, body("1")); err != nil {
		t.Fatal(err)
	}
	s.Observe(nil)
	if _, err := s.Put(key("b"), nil, body("1")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`a is "1"`, "a is gone"}, heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

func TestDefaultObjectsAreNotInJournal(t *testing.T) {
	t.Parallel()
	j := &tape{}
	shared := []*store.Entry{{Key: key("a"), Version: 1, Raw: []byte("default"), Born: true}, {Key: key("b"), Version: 1, Raw: []byte("default"), Born: true}}
	restart := func() *store.Store {
		t.Helper()
		s, err := store.Open(j, shared, func(r store.Record) (*store.Entry, error) {
			return &store.Entry{Key: r.Key(), Version: r.Version, Raw: r.Object}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := restart()
	if s.Get(key("a")) != shared[0] || j.Size() > 0 {
		t.Fatalf("have %v with a journal of %d bytes, want the shared one and none", s.Get(key("a")), j.Size())
	}
	put(t, s, "a", "changed")
	if _, err := s.Delete(key("b"), shared[1], body("gone")); err != nil {
		t.Fatal(err)
	}
	if s.Get(key("b")) != nil {
		t.Error("what was deleted is there")
	}
	s = restart()
	if e := s.Get(key("a")); e == nil || string(e.Raw) != `"changed"` {
		t.Errorf("after a restart there is %v, want what it was changed to", e)
	}
	if s.Get(key("b")) != shared[1] {
		t.Error("after a restart deleted objects are not created again")
	}
}

func TestPutRefusesWhatExceedsTheLimit(t *testing.T) {
	t.Parallel()
	s, err := store.Open(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(size int) func(uint64) (*store.Entry, error) {
		return func(uint64) (*store.Entry, error) { return &store.Entry{Raw: block[:size]}, nil }
	}
	var last *store.Entry
	n := 0
	for ; n < 1000; n++ {
		e, err := s.Put(key(fmt.Sprint(n)), nil, of(len(block)))
		if errors.Is(err, store.ErrFull) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		last = e
	}
	if n < 100 || n == 1000 {
		t.Fatalf("%d objects of %d bytes were accepted", n, len(block))
	}
	if last, err = s.Put(last.Key, last, of(len(block)-1)); err != nil {
		t.Errorf("an object that shrinks: %v", err)
	}
	if last, err = s.Put(last.Key, last, of(len(block))); err != nil {
		t.Errorf("an object that grows a little: %v", err)
	}
	if _, err := s.Delete(last.Key, last, of(1)); err != nil {
		t.Errorf("a deletion: %v", err)
	}
	if _, err := s.Put(key("again"), nil, of(len(block))); err != nil {
		t.Errorf("an object after a deletion: %v", err)
	}
}

// block is the content of large objects, which share it.
var block = make([]byte, 1<<20)
