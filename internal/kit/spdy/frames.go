// SPDX-License-Identifier: Apache-2.0

package spdy

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/moby/spdystream/spdy"
)

// All headers of one direction are one stream in the format of zlib, with this
// start: compressed by deflate, with a dictionary of that checksum, which is the
// one of SPDY/3.
var zlibHeader = []byte{0x78, 0x20, 0xe3, 0xc6, 0xa7, 0xc2}

// writeHeaders writes the frame that opens or accepts a stream. The caller holds
// writing.
func (c *Conn) writeHeaders(kind spdy.ControlFrameType, s *Stream, headers http.Header) error {
	payload := binary.BigEndian.AppendUint32(nil, uint32(s.id))
	if kind == spdy.TypeSynStream {
		payload = append(payload, 0, 0, 0, 0, 0, 0) // no associated stream, no priority, no slot
	}
	if !c.begun {
		payload = append(payload, zlibHeader...)
		c.begun = true
	}
	block := headerBlock(headers)
	if len(block) > math.MaxUint16 {
		return fmt.Errorf("headers of %d bytes do not fit into a frame", len(block))
	}
	payload = storedBlock(storedBlock(payload, block), nil) // the empty one marks the end of the data so far
	_, err := c.conn.Write(control(kind, 0, payload))
	return err
}

// storedBlock appends a block of deflate, not the last one, that is stored as it
// is.
func storedBlock(b, block []byte) []byte {
	n := uint16(len(block))
	b = binary.LittleEndian.AppendUint16(append(b, 0), n)
	return append(binary.LittleEndian.AppendUint16(b, ^n), block...)
}

// headerBlock is names and values, each after its length.
func headerBlock(headers http.Header) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(headers)))
	for name, values := range headers {
		for _, text := range []string{strings.ToLower(name), strings.Join(values, "\x00")} {
			b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
			b = append(b, text...)
		}
	}
	return b
}

// control is a control frame.
func control(kind spdy.ControlFrameType, flags byte, payload []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, 1<<15|spdy.Version)
	b = binary.BigEndian.AppendUint16(b, uint16(kind))
	b = binary.BigEndian.AppendUint32(b, uint32(flags)<<24|uint32(len(payload)))
	return append(b, payload...)
}

// data appends the header of a data frame with n bytes.
func data(b []byte, id spdy.StreamId, n int, last bool) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(id))
	if last {
		n |= int(spdy.DataFlagFin) << 24
	}
	return binary.BigEndian.AppendUint32(b, uint32(n))
}

func reset(id spdy.StreamId) []byte {
	payload := binary.BigEndian.AppendUint32(nil, uint32(id))
	return control(spdy.TypeRstStream, 0, binary.BigEndian.AppendUint32(payload, uint32(spdy.Cancel)))
}
