// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// output keeps what a container writes until it is read. Writing never waits:
// what is older is lost, and the reader is told where.
type output struct {
	max int

	mu     sync.Mutex // guards what follows
	more   sync.Cond
	kept   []byte
	lost   int64
	ended  bool // no more is written
	closed bool // nobody reads
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
		// A half at once: what is lost is moved once, not for each write.
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

// end says that no more comes.
func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for other := range o.others {
		other.end()
	}
	o.more.Broadcast()
}

// also returns what is written from now on, for another reader, who leaves when
// no more is wanted, and can still read what was written until then.
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

// Read waits for what is written next; io.EOF when there will be none.
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

// Close drops what is kept and all that comes.
func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed, o.kept, o.lost = true, nil, 0
	o.more.Broadcast()
	return nil
}
