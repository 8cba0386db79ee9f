// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	testclock "k8s.io/utils/clock/testing"
)

// start is long after the files of a test are written, so that they count as
// settled.
var start = time.Now().Add(time.Hour)

// pair creates a certificate with this serial number, and its key.
func pair(t *testing.T, serial int64) (cert, key []byte) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: start.Add(time.Hour), DNSNames: []string{"a"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// world is a folder with both files, a clock and what was reported.
type world struct {
	t        *testing.T
	dir      string
	clock    *testclock.FakePassiveClock
	files    *Files
	reported []string
	writes   int
}

func open(t *testing.T, serial int64) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), clock: testclock.NewFakePassiveClock(start)}
	cert, key := pair(t, serial)
	w.write("tls.crt", cert)
	w.write("tls.key", key)
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	var err error
	w.files, err = OpenFiles(filepath.Join(w.dir, "tls.crt"), filepath.Join(w.dir, "tls.key"), w.clock, OnError(func(err error) { w.reported = append(w.reported, err.Error()) }))
	if err != nil {
		w.t.Fatal(err)
	}
}

// write sets a different time on each file, independent of the file system's clock.
func (w *world) write(name string, data []byte) {
	w.t.Helper()
	name = filepath.Join(w.dir, name)
	w.writes++
	when := start.Add(-time.Hour + time.Duration(w.writes)*time.Second)
	if err := errors.Join(os.WriteFile(name, data, 0o600), os.Chtimes(name, when, when)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

func (w *world) wantSerial(want int64) {
	w.t.Helper()
	got, err := w.files.Certificate()
	if err != nil {
		w.t.Fatal(err)
	}
	if serial := got.Leaf.SerialNumber.Int64(); serial != want {
		w.t.Errorf("certificate %d is served, want %d", serial, want)
	}
}

func TestOpenNamesTheFileThatIsWrong(t *testing.T) {
	t.Parallel()
	cert, key := pair(t, 1)
	_, otherKey := pair(t, 2)
	tests := map[string]struct {
		cert, key []byte // nil: the file does not exist
		want      string // CERT and KEY are replaced by the paths of the files
	}{
		"no certificate file":               {nil, key, "check certificate file: stat CERT: no such file or directory"},
		"no key file":                       {cert, nil, "check key file: stat KEY: no such file or directory"},
		"empty certificate file":            {[]byte{}, key, "certificate file CERT holds no PEM certificate"},
		"empty key file":                    {cert, []byte{}, "key file KEY holds no PEM private key"},
		"files the wrong way round":         {key, cert, "certificate file CERT holds no PEM certificate"},
		"certificate that is none":          {pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")}), key, "parse certificate file CERT: "},
		"key that is none":                  {cert, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("x")}), "certificate file CERT and key file KEY are no pair: "},
		"key of another certificate":        {cert, otherKey, "certificate file CERT and key file KEY are no pair: "},
		"certificate file without an end":   {bytes.Repeat([]byte{'\n'}, maxFileBytes+1), key, "read certificate file: read CERT: larger than a megabyte"},
		"certificate file cut in the midst": {cert[:len(cert)/2], key, "certificate file CERT holds no PEM certificate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			certFile, keyFile := filepath.Join(dir, "c"), filepath.Join(dir, "k")
			for file, data := range map[string][]byte{certFile: tc.cert, keyFile: tc.key} {
				if data == nil {
					continue
				}
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want := strings.NewReplacer("CERT", certFile, "KEY", keyFile).Replace(tc.want)
			if _, err := OpenFiles(certFile, keyFile, testclock.NewFakePassiveClock(start)); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got error %v, want %s", err, want)
			}
		})
	}
}

func TestOpenRefusesAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := OpenFiles(dir, dir, testclock.NewFakePassiveClock(start)); err == nil || !strings.Contains(err.Error(), dir+": not a regular file") {
		t.Errorf("got error %v", err)
	}
}

func TestRenewedFilesAreServedAfterASecond(t *testing.T) {
	t.Parallel()
	w := open(t, 1)
	cert, key := pair(t, 2)
	w.write("tls.crt", cert)
	w.write("tls.key", key)
	w.pass(lookEvery - 1)
	w.wantSerial(1)
	w.pass(1)
	w.wantSerial(2)
	if len(w.reported) > 0 {
		t.Errorf("reported %v", w.reported)
	}
}

func TestTheLastGoodPairIsServedWhileTheFilesAreBroken(t *testing.T) {
	t.Parallel()
	cert, key := pair(t, 2)
	tests := map[string]struct {
		broken func(w *world)
		want   string
	}{
		"certificate is there and its key not yet": {func(w *world) { w.write("tls.crt", cert) }, "are no pair"},
		"certificate is half written":              {func(w *world) { w.write("tls.crt", cert[:100]) }, "tls.crt holds no PEM certificate"},
		"key is truncated":                         {func(w *world) { w.write("tls.key", nil) }, "tls.key holds no PEM private key"},
		"key is gone": {func(w *world) {
			if err := os.Remove(filepath.Join(w.dir, "tls.key")); err != nil {
				t.Fatal(err)
			}
		}, "check key file"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, 1)
			tc.broken(w)
			for range 3 { // reported once
				w.pass(lookEvery)
				w.wantSerial(1)
			}
			if len(w.reported) != 1 || !strings.HasPrefix(w.reported[0], "keep serving the certificate read before: ") || !strings.Contains(w.reported[0], tc.want) {
				t.Errorf("reported %q, want once something with %q", w.reported, tc.want)
			}
			w.write("tls.crt", cert)
			w.write("tls.key", key)
			w.pass(lookEvery)
			w.wantSerial(2)
			w.write("tls.key", nil) // and again when it happens again
			w.pass(lookEvery)
			w.wantSerial(2)
			if len(w.reported) != 2 {
				t.Errorf("reported %q, want two", w.reported)
			}
		})
	}
}

// A volume of a Secret is a link ..data to a folder; the files are links through
// it, and a renewal changes ..data to another folder in one step.
func TestAVolumeOfASecretIsRenewed(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir(), clock: testclock.NewFakePassiveClock(start)}
	same := start.Add(-time.Hour)
	put := func(folder string, serial int64) {
		cert, key := pair(t, serial)
		dir := filepath.Join(w.dir, folder)
		err := os.Mkdir(dir, 0o700)
		for name, data := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
			file := filepath.Join(dir, name)
			err = errors.Join(err, os.WriteFile(file, data, 0o600), os.Chtimes(file, same, same))
		}
		err = errors.Join(err, os.Symlink(folder, filepath.Join(w.dir, "..tmp")), os.Rename(filepath.Join(w.dir, "..tmp"), filepath.Join(w.dir, "..data")))
		if err != nil {
			t.Fatal(err)
		}
	}
	put("..1", 1)
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.open()
	w.wantSerial(1)
	put("..2", 2)
	w.pass(lookEvery)
	w.wantSerial(2)
}

// Files that were just written may change again without different metadata.
func TestAWriteInTheSameTickIsNotMissed(t *testing.T) {
	t.Parallel()
	w := open(t, 1)
	now := w.clock.Now()
	var certs, keys [2][]byte // same sizes
	for i := range certs {
		certs[i], keys[i] = pair(t, int64(i)+10)
	}
	size := max(len(certs[0]), len(certs[1]))
	for i := range certs {
		certs[i] = append(certs[i], bytes.Repeat([]byte{'\n'}, size-len(certs[i]))...)
		w.write("tls.crt", certs[i])
		w.write("tls.key", keys[i])
		for _, name := range []string{"tls.crt", "tls.key"} {
			if err := os.Chtimes(filepath.Join(w.dir, name), now, now); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(lookEvery)
		w.wantSerial(int64(i) + 10)
	}
}

func TestAClockThatIsSetBackDoesNotStopLooking(t *testing.T) {
	t.Parallel()
	w := open(t, 1)
	cert, key := pair(t, 2)
	w.write("tls.crt", cert)
	w.write("tls.key", key)
	w.pass(-time.Hour)
	w.wantSerial(2)
}

func TestManyMayAskWhileFilesChange(t *testing.T) {
	t.Parallel()
	w := open(t, 1)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if c, err := w.files.Certificate(); err != nil || c.Leaf == nil {
					t.Error(c, err)
				}
			}
		})
	}
	for serial := range int64(3) {
		cert, key := pair(t, serial+2)
		w.write("tls.crt", cert)
		w.write("tls.key", key)
		w.pass(lookEvery)
	}
	wg.Wait()
	w.pass(lookEvery)
	w.wantSerial(4)
}
