// SPDX-License-Identifier: Apache-2.0

// Package sealedfile is a file of named contents that is whole, or is not read at all:
// a backup of a plane, or what another plane needs to join it. It is encrypted on
// request, by age (https://age-encryption.org).
//
// The reader defines what it may contain, and how much of each: no name in it is
// ever a path. Nothing in it is compressed, so nothing is larger than the file.
//
//	capstan parcel 1 KIND
//	{"created": …, "contents": [{"name": …, "size": …}, …]}
//	the contents, one after the other, and the SHA-256 of all before it
//
// All but the first line is encrypted, if anything is.
package sealedfile

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"filippo.io/age"
)

const (
	// name is the start of a parcel of any format, and magic that of this format.
	name  = "capstan parcel "
	magic = name + "1 "
	// The first line has a word after magic, and the header a dozen names.
	maxFirst, maxHeader = 64, 64 << 10
	// encrypted is the start of what age has written.
	encrypted = "age-encryption.org/"
)

// ErrEncrypted means that a parcel is encrypted and that no way to decrypt it was
// given.
var ErrEncrypted = errors.New("it is encrypted")

// Content is one of the things in a parcel.
type Content struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Open returns what Write packs.
	Open func() (io.ReadCloser, error) `json:"-"`
}

// Header describes a parcel.
type Header struct {
	Created time.Time `json:"created"`
	// Version is that of the program that packed it; "" if it does not matter.
	Version  string    `json:"version,omitempty"`
	Contents []Content `json:"contents"`
}

// Bytes is a content from memory.
func Bytes(name string, b []byte) Content {
	return Content{name, int64(len(b)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }}
}

// Write packs a parcel of a kind, which is a word. It is encrypted for the
// recipients, if there are any.
func Write(w io.Writer, kind string, h Header, recipients ...age.Recipient) error {
	first := magic + kind + "\n"
	if _, err := io.WriteString(w, first); err != nil {
		return err
	}
	body, end := w, func() error { return nil }
	if len(recipients) > 0 {
		sealed, err := age.Encrypt(w, recipients...)
		if err != nil {
			return fmt.Errorf("encrypt: %w", err)
		}
		body, end = sealed, sealed.Close
	}
	sum := newSum(first)
	if err := writeBody(io.MultiWriter(body, sum), h); err != nil {
		return err
	}
	if _, err := body.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return end()
}

func newSum(first string) hash.Hash {
	sum := sha256.New()
	_, _ = io.WriteString(sum, first) // a hash takes everything
	return sum
}

func writeBody(w io.Writer, h Header) error {
	header, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := w.Write(append(header, '\n')); err != nil {
		return err
	}
	for _, c := range h.Contents {
		if err := writeContent(w, c); err != nil {
			return fmt.Errorf("pack %s: %w", c.Name, err)
		}
	}
	return nil
}

func writeContent(w io.Writer, c Content) error {
	r, err := c.Open()
	if err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(r, c.Size+1))
	if err == nil && n != c.Size {
		err = fmt.Errorf("it has changed its size from %d bytes meanwhile", c.Size)
	}
	return errors.Join(err, r.Close())
}

// Read reads a parcel of a kind to its end and passes each content to take. May has
// the allowed contents, each once, and their maximum sizes; all others are refused.
// Until Read returns nil nothing that was passed to take may be trusted.
func Read(r io.Reader, kind string, may map[string]int64, take func(name string, r io.Reader) error, identities ...age.Identity) (Header, error) {
	var h Header
	in := bufio.NewReader(r)
	first, err := readLine(in, maxFirst)
	if other, ok := strings.CutPrefix(first, name); ok && !strings.HasPrefix(first, magic) {
		format, _, _ := strings.Cut(other, " ")
		return h, fmt.Errorf("it has the format %q, which this program does not know: use the newer one that has written it", strings.TrimSpace(format))
	}
	if err != nil || !strings.HasPrefix(first, magic) {
		return h, errors.New("it is not a file of capstan's, or its beginning is damaged")
	}
	if first != magic+kind+"\n" {
		return h, fmt.Errorf("it is a %q, not a %q", strings.TrimSpace(strings.TrimPrefix(first, magic)), kind)
	}
	if peeked, _ := in.Peek(len(encrypted)); string(peeked) == encrypted {
		if len(identities) == 0 {
			return h, ErrEncrypted
		}
		plain, err := age.Decrypt(in, identities...)
		if err != nil {
			return h, fmt.Errorf("decrypt: %w", err)
		}
		in = bufio.NewReader(plain)
	}
	sum := newSum(first)
	if h, err = readHeader(in, sum, may); err != nil {
		return h, err
	}
	for _, c := range h.Contents {
		part := &io.LimitedReader{R: in, N: c.Size}
		err := take(c.Name, io.TeeReader(part, sum))
		if err == nil {
			_, err = io.Copy(sum, part) // what was left
		}
		if err == nil && part.N > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return h, fmt.Errorf("unpack %s: %w", c.Name, err)
		}
	}
	return h, readEnd(in, sum)
}

func readHeader(in *bufio.Reader, sum io.Writer, may map[string]int64) (h Header, err error) {
	line, err := readLine(in, maxHeader)
	if err != nil {
		return h, fmt.Errorf("read its list of contents: %w", err)
	}
	_, _ = io.WriteString(sum, line) // a hash takes everything
	if err := json.Unmarshal([]byte(line), &h); err != nil {
		return h, fmt.Errorf("read its list of contents: %w", err)
	}
	seen := map[string]bool{}
	for _, c := range h.Contents {
		most, known := may[c.Name]
		switch {
		case !known:
			return h, fmt.Errorf("it has a content %q, which is unknown", c.Name)
		case seen[c.Name]:
			return h, fmt.Errorf("it has two contents %q", c.Name)
		case c.Size < 0 || c.Size > most:
			return h, fmt.Errorf("its content %s has %d bytes, which is not from 0 to %d", c.Name, c.Size, most)
		}
		seen[c.Name] = true
	}
	return h, nil
}

func readEnd(in *bufio.Reader, sum hash.Hash) error {
	var end [sha256.Size]byte
	if _, err := io.ReadFull(in, end[:]); err != nil {
		return fmt.Errorf("read its checksum: %w", err)
	}
	if !bytes.Equal(end[:], sum.Sum(nil)) {
		return errors.New("its checksum is wrong: it is damaged")
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return errors.New("there is more after its end: it is damaged")
	}
	return nil
}

// readLine reads a line with its end, of at most so many bytes.
func readLine(r *bufio.Reader, most int) (string, error) {
	var line []byte
	for len(line) < most {
		b, err := r.ReadByte()
		if err != nil {
			return "", err
		}
		if line = append(line, b); b == '\n' {
			return string(line), nil
		}
	}
	return "", fmt.Errorf("it has no end in its first %d bytes", most)
}
