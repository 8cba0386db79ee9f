// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// output stores the output of a container until it is read. Writing never waits:
// the oldest output is dropped, and the reader sees where.
type output struct {
	max int

	mu     sync.Mutex // guards the fields below
	more   sync.Cond
	kept   []byte
	lost   int64
	ended  bool // no output follows
	closed bool // there is no reader
	others map[*output]struct{}
}

func newOutput(max int) *output {
	o := &output{max: max}
	o.more.L = &o.mu
	return o
}

// Write never fails and never waits.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for other := range o.others {
		_, _ = other.Write(b) // as this one
	}
	if o.closed {
		return len(b), nil
	}
	o.kept = append(o.kept, b...)
	if over := len(o.kept) - o.max; over > 0 {
		// A half at a time: data moves once per drop, not for each write.
		cut := max(over, len(o.kept)/2)
		if nl := bytes.IndexByte(o.kept[cut:], '\n'); nl >= 0 { // whole lines
			cut += nl + 1
		}
		o.lost += int64(cut)
		o.kept = append([]byte(nil), o.kept[cut:]...)
	}
	o.more.Broadcast()
	return len(b), nil
}

// end marks the end of the output.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for other := range o.others {
		other.end()
	}
	o.more.Broadcast()
}

// also returns the output from now on, for another reader, which calls leave when
// it needs nothing after that. It can still read what was written until then.
func (o *output) also() (other *output, leave func()) {
	other = newOutput(o.max)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		other.end()
		return other, func() {}
	}
	if o.others == nil {
		o.others = map[*output]struct{}{}
	}
	o.others[other] = struct{}{}
	return other, func() {
		o.mu.Lock()
		delete(o.others, other)
		o.mu.Unlock()
		other.end()
	}
}

// Read waits for the next output. It returns io.EOF at the end.
func (o *output) Read(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.kept) == 0 && o.lost == 0 && !o.ended && !o.closed {
		o.more.Wait()
	}
	switch {
	case o.closed:
		return 0, io.ErrClosedPipe
	case o.lost > 0:
		o.kept = append(fmt.Appendf(nil, "[%d bytes are lost: they were written faster than read]\n", o.lost), o.kept...)
		o.lost = 0
	case len(o.kept) == 0:
		return 0, io.EOF
	}
	n := copy(b, o.kept)
	o.kept = o.kept[n:]
	if len(o.kept) == 0 {
		o.kept = nil
	}
	return n, nil
}

// Close drops the stored and all later output.
func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.kept, o.lost = true, nil, 0
	o.more.Broadcast()
	return nil
}
