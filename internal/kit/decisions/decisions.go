// SPDX-License-Identifier: Apache-2.0

// Package decisions records the decisions of planners: facts, answers, plan and error.
//
// A decision is recorded when its plan, answers or error differ from the previous ones
// of the same planner and object. Times, durations until a requeue and resource versions
// do not count as a difference. So nothing is recorded in steady state. The values of
// secrets are replaced by keyed hashes before anything is stored.
//
// The recorder is bounded: by entries per object, by the size of an entry, and in total.
// A context carries it to the planners, as it carries the logger.
package decisions

import (
	"container/list"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxPerObject is how many decisions of one object are retained. A rollout of a
	// large set has about twenty decisions, so it leaves those before it readable.
	maxPerObject = 64

	// maxInputs is the size of the facts and answers of one decision, in bytes.
	// Those of a control plane with five machines have 40 KiB. Objects of users can
	// be larger, and must not evict the decisions of other objects.
	maxInputs = 64 << 10

	// maxPlan is the size of a plan, in bytes; one that replaces 50 machines has 5 KiB.
	maxPlan = 16 << 10

	// maxError is the size of the text of an error, in bytes, like a long condition.
	maxError = 4 << 10

	// maxTotal is the size of all decisions, in bytes. A plane of 100 clusters in
	// steady state has 300 MiB in use.
	maxTotal = 64 << 20
)

// Object is the object that a decision is about.
type Object struct {
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid,omitempty"`
}

// Decision is one recorded decision. Its JSON form is what files and clients get.
type Decision struct {
	Time       time.Time `json:"time"`
	Controller string    `json:"controller"`
	Planner    string    `json:"planner"` // its package and the type of its plan or, without one, of its facts
	Object     Object    `json:"object"`
	Generation int64     `json:"generation,omitempty"`

	Facts      json.RawMessage `json:"facts,omitempty"`
	Answers    json.RawMessage `json:"answers,omitempty"`
	Unanswered json.RawMessage `json:"unanswered,omitempty"` // the question whose answer failed
	Plan       json.RawMessage `json:"plan,omitempty"`
	Error      string          `json:"error,omitempty"`
	// Omitted is why facts, answers or the plan are missing; empty if they are complete.
	Omitted string `json:"omitted,omitempty"`
}

// Path is where API servers and managers serve recorded decisions. Those of an object are
// below it, at kind/namespace/name with the kind in lower case, so that an administrator can
// grant the right to read those of a kind, a namespace or an object. At the path itself are
// all decisions.
const Path = "/capstan/v1/decisions/"

// List is what Path serves.
type List struct {
	Decisions []Decision `json:"decisions"`
}

// Recorder stores decisions. A nil Recorder stores nothing. It is for several
// goroutines.
type Recorder struct {
	key   []byte // of the hashes that replace the values of secrets
	total int    // the limit of bytes

	mu      sync.Mutex // guards the fields below
	objects map[Object]*history
	tenants map[string]*tenant // by namespace
	bytes   int
	file    *file // nil: nothing is kept after the process exits
}

// tenant has the decisions about the objects of a namespace.
type tenant struct {
	byAge list.List // of *history, the one whose last decision is the oldest first
	bytes int
}

// history has the decisions of one object.
type history struct {
	object  Object
	entries [][]byte // JSON of Decision, the oldest first
	last    map[string]last
	element *list.Element
}

// last identifies the last decision of a planner.
type last struct {
	exact  uint64 // of the encoded decision, for the usual case that nothing changed; 0 after a restart
	digest [32]byte
}

// New returns a Recorder in memory.
func New() *Recorder {
	key := make([]byte, 32) // the size of the hash
	_, _ = rand.Read(key)   // it never returns an error
	return &Recorder{key: key, total: maxTotal, objects: map[Object]*history{}, tenants: map[string]*tenant{}}
}

// unchanged reports whether the last decision of a planner has this encoding. To decide
// nothing is no change before the first decision.
func (r *Recorder) unchanged(of Object, planner string, exact uint64, nothing bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.objects[of]
	if h == nil {
		return nothing
	}
	l, decided := h.last[planner]
	return l.exact == exact || nothing && !decided
}

// repeats reports whether the last decision of a planner has this digest, and
// if so, notes its present encoding.
func (r *Recorder) repeats(of Object, planner string, now last) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.objects[of]
	if h == nil || h.last[planner].digest != now.digest {
		return false
	}
	h.last[planner] = now
	return true
}

// add stores a decision.
func (r *Recorder) add(d Decision, now last) {
	entry, err := Encode(d)
	if err != nil {
		return // its parts were encoded before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.insert(d, entry, now)
	r.file.append(entry)
}

func (r *Recorder) insert(d Decision, entry []byte, now last) {
	t := r.tenants[d.Object.Namespace]
	if t == nil {
		t = &tenant{}
		r.tenants[d.Object.Namespace] = t
	}
	h := r.objects[d.Object]
	if h == nil {
		h = &history{object: d.Object, last: map[string]last{}}
		h.element = t.byAge.PushBack(h)
		r.objects[d.Object] = h
	}
	t.byAge.MoveToBack(h.element)
	h.entries, h.last[d.Planner] = append(h.entries, entry), now
	r.bytes, t.bytes = r.bytes+len(entry), t.bytes+len(entry)
	if len(h.entries) > maxPerObject {
		r.dropOldest(h)
	}
	for r.bytes > r.total {
		r.dropOldest(r.largest().byAge.Front().Value.(*history))
	}
}

// largest is the namespace with the most bytes. Only its decisions are dropped, so that no
// namespace evicts those of a smaller one.
func (r *Recorder) largest() (found *tenant) {
	for _, t := range r.tenants {
		if found == nil || t.bytes > found.bytes {
			found = t
		}
	}
	return found
}

func (r *Recorder) dropOldest(h *history) {
	t := r.tenants[h.object.Namespace]
	r.bytes, t.bytes = r.bytes-len(h.entries[0]), t.bytes-len(h.entries[0])
	h.entries = slices.Delete(h.entries, 0, 1)
	if len(h.entries) > 0 {
		return
	}
	t.byAge.Remove(h.element)
	delete(r.objects, h.object)
	if t.byAge.Len() == 0 {
		delete(r.tenants, h.object.Namespace)
	}
}

// Size returns the number of decisions and their size in bytes.
func (r *Recorder) Size() (decisions, bytes int) {
	if r == nil {
		return 0, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.objects {
		decisions += len(h.entries)
	}
	return decisions, r.bytes
}

// List returns the encoded decisions about an object, the oldest first; also those of
// deleted objects with its name. The case of the kind does not matter.
func (r *Recorder) List(kind, namespace, name string) []json.RawMessage {
	return r.list(func(o Object) bool {
		return strings.EqualFold(o.Kind, kind) && o.Namespace == namespace && o.Name == name
	})
}

// All returns all encoded decisions, by namespace and object, the oldest first.
func (r *Recorder) All() []json.RawMessage {
	return r.list(func(Object) bool { return true })
}

func (r *Recorder) list(is func(Object) bool) []json.RawMessage {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(is)
}

// find is list for a caller that holds mu.
func (r *Recorder) find(is func(Object) bool) (out []json.RawMessage) {
	for _, namespace := range slices.Sorted(maps.Keys(r.tenants)) {
		for e := r.tenants[namespace].byAge.Front(); e != nil; e = e.Next() {
			if h := e.Value.(*history); is(h.object) {
				for _, entry := range h.entries {
					out = append(out, entry)
				}
			}
		}
	}
	return out
}

// Read decodes a recorded decision, which may be forged.
func Read(entry []byte) (d Decision, err error) {
	if err := json.Unmarshal(entry, &d); err != nil {
		return d, fmt.Errorf("read a decision: %w", err)
	}
	if d.Object.Kind == "" || d.Object.Name == "" || d.Planner == "" {
		return d, fmt.Errorf("read a decision: it has no object or no planner")
	}
	return d, nil
}
