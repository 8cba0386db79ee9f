// SPDX-License-Identifier: Apache-2.0

package sealedfile

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
)

var may = map[string]int64{"etcd.snapshot": 1000, "pki/ca.crt": 100}

func pack(t *testing.T, recipients ...age.Recipient) []byte {
	t.Helper()
	var b bytes.Buffer
	h := Header{Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Contents: []Content{Bytes("etcd.snapshot", []byte(strings.Repeat("x", 500))), Bytes("pki/ca.crt", []byte("cert"))}}
	if err := Write(&b, "backup", h, recipients...); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(b []byte, identities ...age.Identity) (map[string]string, error) {
	got := map[string]string{}
	_, err := Read(bytes.NewReader(b), "backup", may, func(name string, r io.Reader) error {
		content, err := io.ReadAll(r)
		got[name] = string(content)
		return err
	}, identities...)
	return got, err
}

func TestWhatIsPackedIsUnpacked(t *testing.T) {
	t.Parallel()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"etcd.snapshot": strings.Repeat("x", 500), "pki/ca.crt": "cert"}
	for name, b := range map[string][]byte{"plain": pack(t), "encrypted": pack(t, key.Recipient())} {
		got, err := unpack(b, key)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, contents (-want +got):\n%s", name, err, diff)
		}
		if name == "encrypted" && bytes.Contains(b, []byte("cert")) {
			t.Error("a name can be read in what is encrypted")
		}
	}
	if _, err := unpack(pack(t, key.Recipient())); !errors.Is(err, ErrEncrypted) {
		t.Errorf("without a key: %v", err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(pack(t, key.Recipient()), other); err == nil || !strings.Contains(err.Error(), "decrypt") {
		t.Errorf("with another key: %v", err)
	}
}

// TestEveryDamageIsNoticed flips each byte, and cuts at each.
func TestEveryDamageIsNoticed(t *testing.T) {
	t.Parallel()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	for name, whole := range map[string][]byte{"plain": pack(t), "encrypted": pack(t, key.Recipient())} {
		for i := range whole {
			damaged := bytes.Clone(whole)
			damaged[i] ^= 0x20
			if _, err := unpack(damaged, key); err == nil {
				t.Errorf("%s: byte %d of %d may be another", name, i, len(whole))
			}
			if _, err := unpack(whole[:i], key); err == nil {
				t.Errorf("%s: it may end after %d of %d bytes", name, i, len(whole))
			}
		}
		if _, err := unpack(append(bytes.Clone(whole), 'x'), key); err == nil {
			t.Errorf("%s: there may be more after its end", name)
		}
	}
}

func TestWhatIsNotExpectedIsRefused(t *testing.T) {
	t.Parallel()
	long := Content{"pki/ca.crt", 1 << 60, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("")), nil }}
	tests := map[string]struct {
		kind     string
		contents []Content
		want     string
	}{
		"a name that climbs":  {"backup", []Content{Bytes("../../etc/passwd", nil)}, `it has a content "../../etc/passwd", which is unknown`},
		"an absolute name":    {"backup", []Content{Bytes("/etc/passwd", nil)}, `it has a content "/etc/passwd", which is unknown`},
		"a name twice":        {"backup", []Content{Bytes("pki/ca.crt", nil), Bytes("pki/ca.crt", nil)}, `it has two contents "pki/ca.crt"`},
		"too much of a thing": {"backup", []Content{Bytes("pki/ca.crt", make([]byte, 101))}, "has 101 bytes, which is not from 0 to 100"},
		"a size of exabytes":  {"backup", []Content{long}, "which is not from 0 to 100"},
		"another kind":        {"join", nil, `it is a "join", not a "backup"`},
	}
	for name, tc := range tests {
		var b bytes.Buffer
		_ = Write(&b, tc.kind, Header{Contents: tc.contents}) // fails where a size is a lie
		if _, err := unpack(b.Bytes()); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		}
	}
	if _, err := unpack([]byte("#!/bin/sh\n")); err == nil || !strings.Contains(err.Error(), "it is not a file of capstan's") {
		t.Errorf("a script: %v", err)
	}
	if _, err := unpack([]byte("capstan parcel 2 backup\n")); err == nil || !strings.Contains(err.Error(), `it has the format "2", which this program does not know`) {
		t.Errorf("one of a format to come: %v", err)
	}
	if _, err := unpack(bytes.Repeat([]byte("x"), 1<<20)); err == nil {
		t.Error("a line without end is taken")
	}
}

// TestWriteFailsIfContentChangesSize: a file that grows while it is packed must not end up
// as the beginning of the next content.
func TestWriteFailsIfContentChangesSize(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"shorter": "x", "longer": "xxxx"} {
		closed := false
		c := Content{"pki/ca.crt", 3, func() (io.ReadCloser, error) { return tracked{strings.NewReader(text), &closed}, nil }}
		var b bytes.Buffer
		err := Write(&b, "backup", Header{Contents: []Content{c}})
		if want := "pack pki/ca.crt: it has changed its size from 3 bytes meanwhile"; err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", name, err, want)
		}
		if _, err := unpack(b.Bytes()); err == nil || !closed {
			t.Errorf("%s: what is written can be read, or its source is still open: %t", name, closed)
		}
	}
}

type tracked struct {
	io.Reader
	closed *bool
}

func (t tracked) Close() error {
	*t.closed = true
	return nil
}

// TestReadSumsWhatIsNotTaken: a caller may ignore a content.
func TestReadSumsWhatIsNotTaken(t *testing.T) {
	t.Parallel()
	whole := pack(t)
	var names []string
	h, err := Read(bytes.NewReader(whole), "backup", may, func(name string, _ io.Reader) error {
		names = append(names, name)
		return nil
	})
	if err != nil || strings.Join(names, " ") != "etcd.snapshot pki/ca.crt" || h.Created.Year() != 2026 {
		t.Errorf("%q of %v: %v", names, h.Created, err)
	}
	refused := errors.New("no space")
	if _, err := Read(bytes.NewReader(whole), "backup", may, func(string, io.Reader) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("error %v, want that of the caller", err)
	}
}
