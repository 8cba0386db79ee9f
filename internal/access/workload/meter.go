// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capstan-dev/capstan/internal/kit/recovery"
)

// meter is the body of a response, limited by its cost. The body of a watch is
// limited event by event.
type meter struct {
	io.ReadCloser
	claim    *claim
	held     bool        // the claim is closed by the code that holds it
	watch    bool        // the body has no end, but its events have
	exceeded func(error) // called if the cluster causes the excess

	scanner scanner
	cost    int64 // of the response, or the event, so far
	err     error
	slow    atomic.Bool

	mu   sync.Mutex  // guards late
	late *time.Timer // ends a response that is neither small nor quick
}

// Read implements io.Reader.
func (m *meter) Read(p []byte) (int, error) {
	if m.err != nil {
		return 0, m.err
	}
	if m.watch {
		m.claim.resize(m.cost) // reading on means that earlier events have been processed
	}
	n, err := m.ReadCloser.Read(p)
	if m.err = m.count(p[:n]); m.err == nil && m.slow.Load() {
		m.err = errTooSlow
	}
	if m.err != nil {
		if excess(m.err) != nil {
			m.exceeded(m.err)
		}
		return 0, m.err
	}
	return n, err
}

// count adds the cost of p.
func (m *meter) count(p []byte) error {
	limit, tooLarge := m.claim.budget.most, errAnswerTooLarge
	if m.watch {
		limit, tooLarge = m.claim.budget.event, errEventTooLarge
	}
	done, began := int64(0), 0 // the cost of events that end in p, and where the last starts
	for i, b := range p {
		opens, ends := m.scanner.next(b)
		if opens {
			m.cost += perStruct
		}
		if ends && m.watch {
			if m.cost += perByte * int64(i+1-began); m.cost > limit {
				return tooLarge
			}
			m.hurry(false)
			done, m.cost, began = done+m.cost, 0, i+1
		}
	}
	if m.cost += perByte * int64(len(p)-began); m.cost > limit {
		return tooLarge
	}
	if !m.claim.resize(done + m.cost) {
		return errBusy
	}
	m.hurry(m.cost > m.claim.budget.small)
	return nil
}

// hurry sets a time limit for a response that holds a share that others could use.
func (m *meter) hurry(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case on && m.late == nil:
		m.late = time.AfterFunc(callTimeout, recovery.Func(context.Background(), func() {
			m.slow.Store(true)
			_ = m.ReadCloser.Close() // the reader gets an error
		}))
	case !on && m.late != nil:
		m.late.Stop()
		m.late = nil
	}
}

// Close implements io.Closer.
func (m *meter) Close() error {
	m.hurry(false)
	if !m.held {
		m.claim.close()
	}
	return m.ReadCloser.Close()
}

// scanner scans JSON as it arrives, and finds values that become structs, and the
// ends of values. It accepts invalid JSON and never fails: the decoder will.
type scanner struct {
	depth   int
	quoted  bool    // within a string
	escaped bool    // after a backslash in one
	start   [2]byte // of the last string, while only a colon follows it
	length  int     // of it; -1 if there is none
}

// next processes a byte. opens means that a struct starts, ends that a top-level
// value has ended.
func (s *scanner) next(b byte) (opens, ends bool) {
	if s.quoted {
		switch {
		case s.escaped:
			s.escaped = false
		case b == '\\':
			s.escaped = true
		case b == '"':
			s.quoted = false
			return false, false
		}
		if s.length < len(s.start) {
			s.start[s.length] = b
		}
		s.length++
		return false, false
	}
	switch b {
	case '"':
		s.quoted, s.length = true, 0
		return false, false
	case ':', ' ', '\n', '\t', '\r':
		return false, false
	case '{', '[':
		s.depth++
		opens = b == '{' && !s.ownedField()
	case '}', ']':
		s.depth--
		ends = s.depth == 0
	}
	s.length = -1
	return opens, ends
}

// ownedField reports whether the last string is a key of a fieldsV1, which make up
// most of an object, and which are stored as bytes.
func (s *scanner) ownedField() bool {
	switch {
	case s.length == 1:
		return s.start[0] == '.'
	case s.length < 2 || s.start[1] != ':':
		return false
	}
	return s.start[0] == 'f' || s.start[0] == 'k' || s.start[0] == 'v' || s.start[0] == 'i'
}
