// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"errors"
	"io"
	"sync"
)

var errOver = errors.New("the call is over")

// payload is the body of a request, which net/http may go on reading after the
// answer is there. Once the call is over nobody reads the caller's bytes any
// more, so that they may be used again.
type payload struct {
	// mu guards data.
	mu   sync.Mutex
	data []byte
	over bool
}

func (p *payload) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data, p.over = nil, true
}

// payloadReader reads a payload once; net/http asks for another one to send it
// over another connection.
type payloadReader struct {
	payload *payload
	at      int
}

func (r *payloadReader) Read(b []byte) (int, error) {
	r.payload.mu.Lock()
	defer r.payload.mu.Unlock()
	if r.payload.over {
		return 0, errOver
	}
	n := copy(b, r.payload.data[r.at:])
	r.at += n
	if r.at == len(r.payload.data) {
		return n, io.EOF
	}
	return n, nil
}

func (r *payloadReader) Close() error { return nil }
