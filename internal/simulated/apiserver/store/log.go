// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sort"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The log is for watchers that are a little behind, not for history: it is small so
// that thousands of idle clusters cost little. A client that requests older events
// must list again.
const (
	maxEvents     = 1024
	maxEventBytes = 256 << 10
)

// EventType is what happened, in the words of a watch.
type EventType string

// What can happen to an object.
const (
	Added    EventType = "ADDED"
	Modified EventType = "MODIFIED"
	Deleted  EventType = "DELETED"
)

// Event is one change. Prev is the entry before it, nil for Added.
type Event struct {
	Type  EventType
	Entry *Entry
	Prev  *Entry
}

type eventLog struct {
	floor  uint64 // all later events are here
	events []Event
	bytes  int
}

func (l *eventLog) add(ev Event) {
	l.events = append(l.events, ev)
	l.bytes += len(ev.Entry.Raw)
	drop := 0
	for len(l.events)-drop > 1 && (len(l.events)-drop > maxEvents || l.bytes > maxEventBytes) {
		l.floor = l.events[drop].Entry.Version
		l.bytes -= len(l.events[drop].Entry.Raw)
		drop++
	}
	if drop > 0 {
		n := copy(l.events, l.events[drop:])
		clear(l.events[n:])
		l.events = l.events[:n]
	}
}

func (l *eventLog) since(resource schema.GroupResource, version uint64) []Event {
	first := sort.Search(len(l.events), func(i int) bool { return l.events[i].Entry.Version > version })
	var events []Event
	for _, ev := range l.events[first:] {
		if ev.Entry.Key.Resource == resource {
			events = append(events, ev)
		}
	}
	return events
}
